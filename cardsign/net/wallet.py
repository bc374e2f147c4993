"""Which of the user's credentials goes to which endpoint of a verified card, if any does.

Decided from the payload of a trusted card and the user's own entries, before anything is had or
sent (threats.md 11).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cardsign.card.strictjson import Json
from cardsign.errors import CredentialFault, UsageFault
from cardsign.net.credentials import Credential, Header
from cardsign.net.endpoints import Endpoint
from cardsign.net.schemes import manner_of


@dataclass(frozen=True, slots=True)
class Errand:
    """Where to go, with what.

    Attributes:
        endpoint: Of the verified payload.
        credential: For that endpoint's origin; None to go without.
    """

    endpoint: Endpoint
    credential: Credential | None


@dataclass(frozen=True, slots=True)
class Wallet:
    """A user's credentials for peers.

    Attributes:
        credentials: What he has; may be empty.
        environment: Where their sources are looked up.
    """

    credentials: tuple[Credential, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def for_extended(
        self, issuer: str, endpoints: tuple[Endpoint, ...], audience: str | None
    ) -> Errand:
        """Where to ask for the extended card of an audience; None: the one his entry names.

        Of several endpoints the card's first decides, of several entries the one that names the
        audience.

        Raises:
            CredentialFault: ``credential.none``, ``credential.elsewhere``.
            UsageFault: ``usage.conflict``: no audience is named, or several are.
        """
        own = [
            one for one in self._of(issuer) if audience is None or one.audience in (None, audience)
        ]
        if not own:
            whom = f" for audience {audience}" if audience else ""
            raise CredentialFault("credential.none", f"there is no credential for {issuer}{whom}")
        errands = _errands(own, endpoints, issuer)
        first = errands[0].endpoint
        here = [one.credential for one in errands if one.endpoint == first and one.credential]
        named = [one for one in here if one.audience is not None]
        if audience is None and len(named) != 1:
            many = "several audiences have a credential" if named else "no audience is named"
            raise UsageFault(
                "usage.conflict",
                f"{many} for {issuer}: which extended card is meant?",
                hint="Name it with --audience ID, as the issuer gave it to you.",
            )
        return Errand(first, (named or here)[0])

    def for_call(self, issuer: str, endpoints: tuple[Endpoint, ...]) -> Errand:
        """Where to call, with his credential if he has one, else without.

        Of his entries only those without audience: what opens an extended card is not shown to
        the agent itself, which may be somebody else's.

        Raises:
            CredentialFault: ``credential.elsewhere``: he has one, and none of the endpoints stands
                where it belongs; the peer is not called without it either.
        """
        own = [one for one in self._of(issuer) if one.audience is None]
        return _errands(own, endpoints, issuer)[0] if own else Errand(endpoints[0], None)

    def is_for_extended_alone(self, issuer: str) -> bool:
        """Whether all that he has for an issuer is for extended cards."""
        own = self._of(issuer)
        return bool(own) and all(one.audience is not None for one in own)

    def open(self, errand: Errand, payload: Mapping[str, Json]) -> Header | None:
        """Have the errand's credential, in the form that the verified payload or his entry says.

        Raises:
            CredentialFault: ``credential.source``, ``credential.scheme``.
        """
        if errand.credential is None:
            return None
        manner = errand.credential.manner or manner_of(payload)
        return Header.of(errand.credential, manner, self.environment)

    def _of(self, issuer: str) -> list[Credential]:
        return [one for one in self.credentials if one.issuer in (None, issuer)]


def _errands(own: Iterable[Credential], endpoints: Iterable[Endpoint], issuer: str) -> list[Errand]:
    """Every way to bring one of the credentials where it belongs, in the order of endpoints."""
    own, endpoints = tuple(own), tuple(endpoints)
    found = [
        Errand(endpoint, one)
        for endpoint in endpoints
        for one in own
        if endpoint.url.origin == one.origin
    ]
    if not found:
        belongs = ", ".join(sorted({str(one.origin) for one in own}))
        stands = ", ".join(sorted({str(one.url.origin) for one in endpoints}))
        raise CredentialFault(
            "credential.elsewhere",
            f"the credential for {issuer} belongs to {belongs}, and the card's endpoints stand at "
            f"{stands}; nothing was sent",
        )
    return found
