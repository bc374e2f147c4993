"""The one description of the A2A 1.0 and 0.3 Agent Card fields.

The TypedDicts say everything: type, REQUIRED, proto `optional`, free-form, security, and which
version alone has a member. :class:`AgentCard` is the type for readers of either. From them are
derived the tables below, which canonicalization, coverage and spelling checks walk, and the type
check of :mod:`cardsign.card.members`.

Facts: A2A 1.0 `specification/a2a.proto` (package lf.a2a.v1), A2A 0.3.0 `types/src/types.ts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from operator import attrgetter
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Required,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

from typing_extensions import TypedDict, is_typeddict

PRESENCE: Final = "presence"  # proto `optional`: set-to-default differs from unset
SECURITY: Final = "security"  # who may call, and how; never excused when uncovered
INHERITS: Final = "inherits"  # without it the card's own default holds; an empty list says "none"
ONEOF: Final = "oneof"  # at most one of the message's members so marked may be set
REQUIRED: Final = "required"  # where a reader of either version cannot count on it

#: A version of A2A that cards are written in. Of 0.2 no schema is kept; it differs little from 0.3.
A2aVersion: TypeAlias = Literal["0.2", "0.3", "1.0"]
NEW: Final = "1.0"  # A2A 1.0 alone has the member
OLD: Final = "0.3"  # A2A 0.3 alone has it

Struct = dict[str, Any]  # google.protobuf.Struct: free-form JSON object

_Url = Annotated[str, PRESENCE]
_Flag = Annotated[bool, PRESENCE]
_Modes = Annotated[list[str], INHERITS]
_OldText = Annotated[str, OLD]


class AgentInterface(TypedDict, total=False):
    """A2A 1.0 4.4.6."""

    url: Required[str]
    protocolBinding: Required[str]
    tenant: str
    protocolVersion: Required[str]


class AgentInterface03(TypedDict, total=False):
    """A2A 0.3.0 5.5.5."""

    url: Required[str]
    transport: Required[str]


class AgentProvider(TypedDict, total=False):
    """A2A 1.0 4.4.2."""

    url: Required[str]
    organization: Required[str]


class AgentExtension(TypedDict, total=False):
    """A2A 1.0 4.4.4; `params` is the only free-form place of a card."""

    uri: str
    description: str
    required: bool
    params: Struct


class AgentCapabilities(TypedDict, total=False):
    """A2A 1.0 4.4.3, 0.3.0 5.5.2."""

    streaming: _Flag
    pushNotifications: _Flag
    stateTransitionHistory: Annotated[bool, PRESENCE, OLD]
    extensions: list[AgentExtension]
    extendedAgentCard: Annotated[bool, PRESENCE, NEW]


class StringList(TypedDict, total=False):
    """The scopes of one scheme in a requirement."""

    list: list[str]


class SecurityRequirement(TypedDict, total=False):
    """All of these schemes together (AND); the list of requirements is an OR."""

    schemes: dict[str, StringList]


class AgentSkill(TypedDict, total=False):
    """A2A 1.0 4.4.5, 0.3.0 5.5.4."""

    id: Required[str]
    name: Required[str]
    description: Required[str]
    tags: Required[list[str]]
    examples: list[str]
    inputModes: _Modes
    outputModes: _Modes
    securityRequirements: Annotated[list[SecurityRequirement], SECURITY, NEW]
    security: Annotated[list[dict[str, list[str]]], SECURITY, OLD]


class APIKeySecurityScheme(TypedDict, total=False):
    """A2A 1.0 4.5.2."""

    description: str
    location: Required[str]
    name: Required[str]


class HTTPAuthSecurityScheme(TypedDict, total=False):
    """A2A 1.0 4.5.3."""

    description: str
    scheme: Required[str]
    bearerFormat: str


class AuthorizationCodeOAuthFlow(TypedDict, total=False):
    """A2A 1.0 4.5.8."""

    authorizationUrl: Required[str]
    tokenUrl: Required[str]
    refreshUrl: str
    scopes: Required[dict[str, str]]
    pkceRequired: bool


class ClientCredentialsOAuthFlow(TypedDict, total=False):
    """A2A 1.0 4.5.9."""

    tokenUrl: Required[str]
    refreshUrl: str
    scopes: Required[dict[str, str]]


class DeviceCodeOAuthFlow(TypedDict, total=False):
    """A2A 1.0 4.5.10."""

    deviceAuthorizationUrl: Required[str]
    tokenUrl: Required[str]
    refreshUrl: str
    scopes: Required[dict[str, str]]


class ImplicitOAuthFlow(TypedDict, total=False):
    """Deprecated in A2A 1.0; nothing in it is REQUIRED."""

    authorizationUrl: str
    refreshUrl: str
    scopes: dict[str, str]


class PasswordOAuthFlow(TypedDict, total=False):
    """Deprecated in A2A 1.0; nothing in it is REQUIRED."""

    tokenUrl: str
    refreshUrl: str
    scopes: dict[str, str]


class OAuthFlows(TypedDict, total=False):
    """A2A 1.0 4.5.7: exactly one flow."""

    authorizationCode: Annotated[AuthorizationCodeOAuthFlow, ONEOF]
    clientCredentials: Annotated[ClientCredentialsOAuthFlow, ONEOF]
    implicit: Annotated[ImplicitOAuthFlow, ONEOF]
    password: Annotated[PasswordOAuthFlow, ONEOF]
    deviceCode: Annotated[DeviceCodeOAuthFlow, ONEOF]


class OAuth2SecurityScheme(TypedDict, total=False):
    """A2A 1.0 4.5.4."""

    description: str
    flows: Required[OAuthFlows]
    oauth2MetadataUrl: str


class OpenIdConnectSecurityScheme(TypedDict, total=False):
    """A2A 1.0 4.5.5."""

    description: str
    openIdConnectUrl: Required[str]


class MutualTlsSecurityScheme(TypedDict, total=False):
    """A2A 1.0 4.5.6."""

    description: str


class OAuthFlow03(TypedDict, total=False):
    """A2A 0.3.0: the members of all four OAuth flows."""

    authorizationUrl: str
    tokenUrl: str
    refreshUrl: str
    scopes: dict[str, str]


class OAuthFlows03(TypedDict, total=False):
    """A2A 0.3.0: any number of flows at once."""

    authorizationCode: OAuthFlow03
    clientCredentials: OAuthFlow03
    implicit: OAuthFlow03
    password: OAuthFlow03


# `in` is a keyword, hence the call form. Which members are REQUIRED hangs on `type`.
FlatScheme = TypedDict(
    "FlatScheme",
    {
        "type": _OldText,
        "description": _OldText,
        "name": _OldText,
        "in": _OldText,
        "scheme": _OldText,
        "bearerFormat": _OldText,
        "flows": Annotated[OAuthFlows03, OLD],
        "oauth2MetadataUrl": _OldText,
        "openIdConnectUrl": _OldText,
    },
    total=False,
)


class SecurityScheme(FlatScheme, total=False):
    """A2A 1.0 4.5.1: exactly one of the five wrappers; 0.3: flat."""

    apiKeySecurityScheme: Annotated[APIKeySecurityScheme, ONEOF, NEW]
    httpAuthSecurityScheme: Annotated[HTTPAuthSecurityScheme, ONEOF, NEW]
    oauth2SecurityScheme: Annotated[OAuth2SecurityScheme, ONEOF, NEW]
    openIdConnectSecurityScheme: Annotated[OpenIdConnectSecurityScheme, ONEOF, NEW]
    mtlsSecurityScheme: Annotated[MutualTlsSecurityScheme, ONEOF, NEW]


class AgentCardSignature(TypedDict, total=False):
    """A2A 1.0 4.4.7, 0.3.0 5.5.6."""

    protected: Required[str]
    signature: Required[str]
    header: Struct


class AgentCard(TypedDict, total=False):
    """A card of any A2A version, for readers: ``card["skills"][0]["id"]`` needs no cast.

    It describes what the schemas name (A2A 1.0 4.4.1, 0.3.0 5.5). A card may have more members,
    and a signature does not say that a member has its type.
    """

    name: Annotated[str, REQUIRED]
    description: Annotated[str, REQUIRED]
    supportedInterfaces: Annotated[list[AgentInterface], REQUIRED, NEW]
    url: Annotated[str, REQUIRED, OLD]
    preferredTransport: _OldText
    additionalInterfaces: Annotated[list[AgentInterface03], OLD]
    provider: AgentProvider
    version: Annotated[str, REQUIRED]
    protocolVersion: Annotated[str, REQUIRED, OLD]
    documentationUrl: _Url
    capabilities: Annotated[AgentCapabilities, REQUIRED]
    supportsAuthenticatedExtendedCard: Annotated[bool, PRESENCE, OLD]
    securitySchemes: Annotated[dict[str, SecurityScheme], SECURITY]
    securityRequirements: Annotated[list[SecurityRequirement], SECURITY, NEW]
    security: Annotated[list[dict[str, list[str]]], SECURITY, OLD]
    defaultInputModes: Annotated[list[str], REQUIRED]
    defaultOutputModes: Annotated[list[str], REQUIRED]
    skills: Annotated[list[AgentSkill], REQUIRED]
    signatures: list[AgentCardSignature]
    iconUrl: _Url


# The fields of a card as walks need them: tables derived from the types above.


JsonKind = Literal["string", "bool", "message", "free"]
Shape = Literal["one", "list", "map"]
#: The JSON type that a value of each kind has, and how messages call it.
JSON_TYPES: Final[dict[JsonKind, tuple[type, str]]] = {
    "string": (str, "a string"),
    "bool": (bool, "true or false"),
    "message": (dict, "an object"),
    "free": (dict, "an object"),
}


@dataclass(frozen=True, slots=True, eq=False)  # by identity: there is one of each
class Field:
    """One member of a message, as the walks need it.

    `shape` says whether `kind` stands alone, in a list, or as a map's values. A `free` value
    is not looked into. `presence` tells set from unset (messages, structs, proto `optional`).
    `inherits` says that the member's absence means a default of the card's, not "none".
    """

    name: str
    kind: JsonKind
    shape: Shape
    message: Message | None
    required: bool
    presence: bool
    security: bool
    oneof: bool
    inherits: bool

    @property
    def snake_name(self) -> str:
        """The protobuf spelling, which proto3 JSON parsers accept as well."""
        return snake(self.name)

    def is_default(self, value: object) -> bool:
        """Whether `value` is what proto3 JSON leaves out for a member without presence."""
        if self.shape == "list":
            return value == [] and isinstance(value, list)
        if self.shape == "map":
            return value == {} and isinstance(value, dict)
        if self.presence:
            return False
        return value == "" if self.kind == "string" else value is False


@dataclass(frozen=True)
class Message:
    """A message: its fields by camelCase name, in schema order."""

    name: str
    fields: dict[str, Field] = field(hash=False)

    @cached_property
    def spelled(self) -> dict[str, Field]:
        """The fields by either spelling that proto3 JSON parsers accept."""
        return {f.snake_name: f for f in self.fields.values()} | self.fields

    @cached_property
    def messages(self) -> dict[str, Message]:
        """The messages that fields hold, by the name of the field."""
        return {f.name: f.message for f in self.fields.values() if f.message is not None}

    @cached_property
    def folded(self) -> dict[str, Field]:
        """The fields by :func:`fold` of their names; no two of them fall together."""
        return {fold(name): f for name, f in self.fields.items()}


@cache
def snake(name: str) -> str:
    """A camelCase name in snake_case."""
    return re.sub(r"[A-Z]", lambda match: "_" + match[0].lower(), name)


def fold(name: str) -> str:
    """`name` as a lenient reader sees it: without case and without underscores."""
    return name.replace("_", "").casefold()


def respelled(
    value: Any,
    *messages: Message,
    lenient: bool = True,
    spell: Callable[[Field], str] = attrgetter("name"),
) -> Any:
    """Return a copy of a message's value in which its members have the names of the schema.

    Unknown members keep their names. Two spellings of one member are for the caller to refuse.
    Not `lenient`, only the two spellings of proto3 JSON are read. `spell` names a field.
    """
    if not isinstance(value, dict):
        return value
    respell = partial(respelled, lenient=lenient, spell=spell)
    tables = [message.folded if lenient else message.spelled for message in messages]
    renamed = {}
    for name, child in value.items():
        spelled = fold(name) if lenient else name
        fields = [table[spelled] for table in tables if spelled in table]
        renamed[spell(fields[0]) if fields else name] = _respelled_below(child, fields, respell)
    return renamed


def _respelled_below(value: Any, fields: list[Field], respell: Callable[..., Any]) -> Any:
    """Return what a member holds, respelled: elements and entries by their fields' messages."""
    below = [field.message for field in fields if field.message is not None]
    if not below:
        return value
    if fields[0].shape == "list" and isinstance(value, list):
        return [respell(element, *below) for element in value]
    if fields[0].shape == "map" and isinstance(value, dict):
        return {key: respell(element, *below) for key, element in value.items()}
    return respell(value, *below)


@cache
def _hints(typed_dict: Any) -> dict[str, Any]:
    return get_type_hints(typed_dict, include_extras=True)


@cache
def _message(typed_dict: Any, version: A2aVersion) -> Message:
    hints = _hints(typed_dict)
    fields = (_field(name, hint, version) for name, hint in hints.items())
    return Message(
        typed_dict.__name__, {member.name: member for member in fields if member is not None}
    )


def _field(name: str, hint: Any, version: A2aVersion) -> Field | None:
    """The field of one version; None where only the other has it."""
    required = get_origin(hint) is Required
    if required:
        (hint,) = get_args(hint)
    hint, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if (OLD if version == NEW else NEW) in marks:
        return None
    shape: Shape = "one"
    kind_type = hint
    if get_origin(hint) is list:
        shape, kind_type = "list", get_args(hint)[0]
    elif get_origin(hint) is dict and hint != Struct:  # get_type_hints builds an equal alias
        shape, kind_type = "map", get_args(hint)[1]
    message = _message(kind_type, version) if is_typeddict(kind_type) else None
    kind: JsonKind = "string" if kind_type is str else "bool" if kind_type is bool else "free"
    if message:
        kind = "message"
    return Field(
        name=name,
        kind=kind,
        shape=shape,
        message=message,
        required=required or REQUIRED in marks,
        presence=PRESENCE in marks or (shape == "one" and kind in ("message", "free")),
        security=SECURITY in marks,
        oneof=ONEOF in marks,
        inherits=INHERITS in marks,
    )


CARD_1_0: Final = _message(AgentCard, NEW)
CARD_0_3: Final = _message(AgentCard, OLD)
CAPABILITIES_1_0: Final = _message(AgentCapabilities, NEW)
SKILL_1_0: Final = _message(AgentSkill, NEW)
