"""The security schemes of a card: what its agent wants from a caller, of either A2A version.

1.0 wraps a scheme in a member that is named after its type; 0.3 is flat and names the type
(A2A 1.0 4.5, 0.3 5.5). What stands here is what a card says; nothing of it is verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final, Literal

from cardsign.card.strictjson import Json, elements_of, members_of, objects_in
from cardsign.records import dataclass

SchemeName = Literal["apiKey", "http", "oauth2", "openIdConnect", "mutualTLS"]
#: How a credential travels: as a bearer token, as Basic, as a key by itself in a header.
Carrier = Literal["bearer", "basic", "header"]


@dataclass(frozen=True, slots=True)
class SchemeType:
    """One of the five types of schemes.

    Attributes:
        name: The `type` of a 0.3 scheme.
        wrapper: The member that holds a 1.0 scheme.
        renamed: Members of the 1.0 form that 0.3 names differently.
    """

    name: SchemeName
    wrapper: str
    renamed: Mapping[str, str] = field(default_factory=dict, hash=False)


SCHEME_TYPES: Final[tuple[SchemeType, ...]] = (
    SchemeType("apiKey", "apiKeySecurityScheme", {"location": "in"}),
    SchemeType("http", "httpAuthSecurityScheme"),
    SchemeType("oauth2", "oauth2SecurityScheme"),
    SchemeType("openIdConnect", "openIdConnectSecurityScheme"),
    SchemeType("mutualTLS", "mtlsSecurityScheme"),
)
_HTTP: Final[dict[str, Carrier]] = {"bearer": "bearer", "basic": "basic"}


@dataclass(frozen=True, slots=True)
class Scheme:
    """One declared scheme, whichever A2A version it is written in.

    Attributes:
        name: Under which the requirements of the card know it.
        type: None where it is none of the five.
        members: As 0.3 names them, without `type`.
    """

    name: str
    type: SchemeName | None
    members: Mapping[str, Json] = field(hash=False)

    @property
    def carrier(self) -> Carrier | None:
        """How its credential goes in a header; None where none does, or none that is known."""
        if self.type in ("oauth2", "openIdConnect"):
            return "bearer"
        if self.type == "http":
            return _HTTP.get(str(self.members.get("scheme")).lower())
        return "header" if self.header is not None else None

    @property
    def header(self) -> str | None:
        """The header that holds a key by itself; None where the scheme is of another kind."""
        name = self.members.get("name")
        if self.type != "apiKey" or self.members.get("in") != "header":
            return None
        return name if isinstance(name, str) else None

    def gives(self, other: Scheme) -> bool:
        """Whether a caller with a credential of this scheme has done what the other one says."""
        if self.type in ("apiKey", "mutualTLS"):
            where, names = (
                self.members.get("in"),
                [str(one.members.get("name")) for one in (self, other)],
            )
            if where == "header":
                names = [one.lower() for one in names]
            same = self.type == other.type and where == other.members.get("in")
            return same and names[0] == names[1]
        if self.type == other.type == "openIdConnect":
            return self.members.get("openIdConnectUrl") == other.members.get("openIdConnectUrl")
        return self.carrier is not None and self.carrier == other.carrier


def schemes_of(document: Mapping[str, Json]) -> dict[str, Scheme]:
    """The schemes that a card declares, by name; those of no known form have no type."""
    declared = members_of(document.get("securitySchemes"))
    return {name: _scheme(name, value) for name, value in declared.items()}


def requirements_of(owner: Mapping[str, Json]) -> Iterator[dict[str, frozenset[str]]]:
    """The alternatives of a card or skill: of each, the scopes of the schemes it takes together.

    An empty one lets everybody in.
    """
    for member in ("securityRequirements", "security"):
        for _, one in objects_in(owner.get(member)):
            schemes = members_of(one.get("schemes", one if member == "security" else {}))
            yield {name: _scopes(value) for name, value in schemes.items()}


def _scopes(value: Json) -> frozenset[str]:
    listed = value.get("list") if isinstance(value, dict) else value
    return frozenset(map(str, elements_of(listed)))


def flat_requirements(owner: Mapping[str, Json]) -> list[Json] | None:
    """The `securityRequirements` of a card or skill as the `security` of 0.3.

    None where it has none, or one of another form.
    """
    requirements = owner.get("securityRequirements")
    if not isinstance(requirements, list):
        return None
    flat: list[Json] = []
    for one in requirements:
        schemes = one.get("schemes") if isinstance(one, dict) else None
        if not isinstance(schemes, dict):
            return None
        flat.append({n: s.get("list", []) for n, s in schemes.items() if isinstance(s, dict)})
    return flat


def _scheme(name: str, value: Json) -> Scheme:
    if not isinstance(value, dict):
        return Scheme(name, None, {})
    if found := unwrapped(value):
        return Scheme(name, found[0].name, found[1])
    kind = value.get("type")
    known = next((one.name for one in SCHEME_TYPES if one.name == kind), None)
    return Scheme(name, known, {k: v for k, v in value.items() if k != "type"})


def unwrapped(scheme: Mapping[str, Json]) -> tuple[SchemeType, dict[str, Json]] | None:
    """The type of a scheme of 1.0, and its members as 0.3 names them; None for another form."""
    for one in SCHEME_TYPES:
        wrapped = scheme.get(one.wrapper)
        if isinstance(wrapped, dict):
            return one, {one.renamed.get(name, name): v for name, v in wrapped.items()}
    return None
