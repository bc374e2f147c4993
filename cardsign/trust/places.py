"""Where an issuer's cards and interfaces may stand: an origin, or a path below one.

On a shared host one origin holds the agents of several issuers; a path prefix keeps them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from cardsign.errors import CardRefused
from cardsign.trust.origins import Origin, Url, parse_url


@dataclass(frozen=True, slots=True)
class Place:
    """An origin and a path prefix, which begins and ends with a slash."""

    origin: Origin
    prefix: str = "/"

    def __str__(self) -> str:
        return f"{self.origin}{self.prefix if self.prefix != '/' else ''}"

    @property
    def is_whole_origin(self) -> bool:
        """Whether every path of the origin lies here."""
        return self.prefix == "/"

    def holds(self, url: Url) -> bool:
        """Whether a URL lies here: below the prefix, or the prefix without its last slash."""
        return url.origin == self.origin and f"{url.path}/".startswith(self.prefix)


def may_stand_at(url: Url, own: tuple[Place, ...], reserved: tuple[Place, ...]) -> bool:
    """Whether a URL lies in a place of one's own that is at least as narrow as any other's.

    Args:
        url: Which.
        own: An issuer's places.
        reserved: The places of all other issuers.
    """
    narrowest = max((len(place.prefix) for place in own if place.holds(url)), default=0)
    others = max((len(place.prefix) for place in reserved if place.holds(url)), default=0)
    return narrowest > 0 and narrowest >= others


def parse_place(untrusted_text: str) -> Place:
    """Read ``https://host``, or ``https://host/path/`` for what lies below that path.

    Raises:
        CardRefused: ``card.interface_url``: outside the strict grammar, or with a query.
    """
    url = parse_url(untrusted_text)
    if url.query:
        raise CardRefused("card.interface_url", f"{untrusted_text!r} has a query: no place has one")
    return Place(url.origin, url.path if url.path.endswith("/") else f"{url.path}/")
