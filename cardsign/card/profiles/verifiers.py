"""Which SDK verifies by which profile, with the versions that were checked; data.

``sign`` reads here whom a signature serves, ``inspect`` predicts from it what each SDK says. The
tests hold every row against the SDK itself. A new release that differs is a failing test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cardsign.card.canonical import ProfileName


@dataclass(frozen=True, slots=True)
class SdkVerifier:
    """One way in which an SDK verifies a card, if it holds the keys and knows them by their kid.

    Attributes:
        name: The package, the versions that behave alike, and the path where it has several.
        checked: The version that the tests ask.
        profile: What it verifies by.
        wants_typ: It refuses a header without `typ`.
        converts: It converts members of a wrong type where its profile has no payload.
    """

    name: str
    checked: str
    profile: ProfileName
    wants_typ: bool = False
    converts: bool = False


VERIFIERS: Final = (
    SdkVerifier("a2a-sdk 1.1.4 to 1.3.0", "1.3.0", "prune-empty-upgraded"),
    SdkVerifier(
        "@a2a-js/sdk 1.0.1 to 1.3.0, given the plain JSON",
        "1.3.0",
        "prune-empty",
        wants_typ=True,
        converts=True,
    ),
    SdkVerifier("@a2a-js/sdk 1.0.1 to 1.3.0, its resolver", "1.3.0", "js-instance", wants_typ=True),
    SdkVerifier("RFC 8785 of the card as served, by hand", "1.8.0", "served-as-is"),
)

#: The Rust SDK, which the tests ask as well, and of which `inspect` predicts nothing.
RUST: Final = "a2a-protocol-types 0.15.0 (Rust), given the plain JSON"
RUST_PROFILE: Final[ProfileName] = "rule-1-as-written"
RUST_ALG: Final = "ES256"  # it verifies no other
