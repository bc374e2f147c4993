"""The verifier's policy: which keys speak for which subject, and what they may leave open.

Thin in this version: one anchor kind (`keys`, pinned), no files. `trust.toml`, statements and
locks will make the same objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cardsign.card.canonical import DEFAULT_PROFILES, FULL_PROFILES
from cardsign.errors import UsageFault
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.trust.origins import Origin, parse_origin, parse_url
from cardsign.trust.subject import AtOrigin, CardUrl, Expectation, Holder, Issuer


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What the verifier says of one issuer.

    Attributes:
        name: The policy's own name for it; the only name that a verdict puts forward.
        keys: The pinned keys, each with the role card.
        origins: Where its interfaces may stand; None for anywhere.
        profiles: The profiles whose signatures count; of the default ones.
        freshness: ``waived`` lets a card be trusted without evidence that it is current.
        is_holder: The enrolment is nothing but "the holder of these keys".

    Raises:
        UsageFault: There is no profile, or one that is unknown or opt-in: nobody may accept it.
    """

    name: str
    keys: JwkSet
    origins: tuple[Origin, ...] | None
    profiles: tuple[str, ...] = FULL_PROFILES
    freshness: Literal["required", "waived"] = "required"
    is_holder: bool = False

    def __post_init__(self) -> None:
        refused = [profile for profile in self.profiles if profile not in DEFAULT_PROFILES]
        if refused or not self.profiles:
            raise UsageFault(
                "usage.conflict",
                f"{', '.join(refused) or 'no profile'} cannot be accepted; what can is "
                + ", ".join(DEFAULT_PROFILES),
            )


@dataclass(frozen=True, slots=True)
class Policy:
    """All enrolments of one verifier. What no enrolment allows is denied."""

    enrolments: tuple[Enrolment, ...] = ()

    @classmethod
    def holder_of_keys(
        cls,
        jwks: JwkSet,
        *,
        name: str,
        origin: str | None = None,
        profiles: tuple[str, ...] = FULL_PROFILES,
    ) -> Policy:
        """Trust whoever holds these keys, with freshness waived.

        Revocation and rollback cannot be seen this way; the verdict says so.

        Args:
            jwks: The pinned keys.
            name: How verdicts call the holder.
            origin: Narrows the holder to interfaces of this origin.
            profiles: The profiles whose signatures count; of the default ones.

        Raises:
            CardRefused: `origin` is outside the strict grammar.
            UsageFault: As for :class:`Enrolment`.
        """
        origins = None if origin is None else (parse_origin(origin),)
        return cls((Enrolment(name, jwks, origins, profiles, "waived", is_holder=True),))

    def find(self, expect: Expectation | None) -> Enrolment | None:
        """The enrolment that speaks for a subject, or None if the policy has none."""
        match expect:
            case Holder():
                return next((one for one in self.enrolments if one.is_holder), None)
            case Issuer(name):
                return next((one for one in self.enrolments if one.name == name), None)
            case AtOrigin(origin):
                return self._at(parse_origin(origin))
            case CardUrl(url):
                return self._at(parse_url(url).origin)
        return None

    def _at(self, origin: Origin) -> Enrolment | None:
        return next(
            (one for one in self.enrolments if one.origins is not None and origin in one.origins),
            None,
        )

    def enrolled_elsewhere(self, kid: str, subject: Enrolment | None) -> PublicKey | None:
        """A key of that kid that another enrolment pins; it has no say about `subject`."""
        for one in self.enrolments:
            if one is not subject and (key := one.keys.find(kid)) is not None:
                return key
        return None
