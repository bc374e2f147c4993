"""What came along with a card. Nothing of it has been checked, and none of it brings trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Evidence:
    """Statements and key sets as received: from a bundle, from files, from the issuer's server.

    Attributes:
        untrusted_keysets: Keyset statements, in any order; superfluous ones do no harm.
        untrusted_releases: Release statements, likewise.
        untrusted_jwks: A JWK Set.
        jwks_url: Where the JWK Set was fetched from, over TLS; None if that is not known. A
            `jwks` anchor reads a set that comes from its own URL and no other.
        contact: The origin from which all of this was fetched over TLS, such as
            ``https://agent.example``; None for files and bundles. First contact needs it. Of
            plain HTTP only this machine itself counts, which no fetch asks without leave.
    """

    untrusted_keysets: tuple[bytes, ...] = ()
    untrusted_releases: tuple[bytes, ...] = ()
    untrusted_jwks: bytes | None = None
    jwks_url: str | None = None
    contact: str | None = None

    def beside(self, other: Evidence) -> Evidence:
        """What both hold; neither vouches for the other. A key set is the other's first.

        Together they were fetched from nowhere unless both were from the same origin: what lies
        in a file makes no first contact because something else came from the issuer.
        """
        empty = Evidence()
        if empty in (self, other):
            return other if self == empty else self
        jwks = other if other.untrusted_jwks is not None else self
        return Evidence(
            (*self.untrusted_keysets, *other.untrusted_keysets),
            (*self.untrusted_releases, *other.untrusted_releases),
            jwks.untrusted_jwks,
            jwks.jwks_url,
            self.contact if self.contact == other.contact else None,
        )


NO_EVIDENCE: Final = Evidence()
