"""Whom a verdict is about. There is no default: a verdict without a subject says nothing.

A registry that is asked for one agent may answer another's genuine card, so "is it signed
well" is never the question; "is it the card of this subject" is (rule V1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of the keys that the policy pins, whoever that is, at any origin."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer by the policy's own name for it."""

    name: str


@dataclass(frozen=True, slots=True)
class AtOrigin:
    """Whoever the policy enrols for this whole origin, such as ``https://agent.example``."""

    origin: str


@dataclass(frozen=True, slots=True)
class CardUrl:
    """Whoever the policy enrols for the place of the URL that the card was asked from."""

    url: str


PublicSubject: TypeAlias = Holder | Issuer | AtOrigin | CardUrl


@dataclass(frozen=True, slots=True)
class Extended:
    """The extended card of one audience; any other card is refused.

    Attributes:
        of: Whose extended card.
        audience: The id of the audience, as the issuer gave it to this verifier.
    """

    of: PublicSubject
    audience: str


Expectation: TypeAlias = PublicSubject | Extended


def public_subject(expect: Expectation | None) -> PublicSubject | None:
    """Whose card is expected, whatever its kind."""
    return expect.of if isinstance(expect, Extended) else expect
