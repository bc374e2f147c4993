"""The operator's settings of a server: a TOML file of its own, which no project folder decides.

``cardsign.toml`` comes with a repository and may come from a stranger. What is here names files,
networks and who may have an extended card, so it is named on the command line alone.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, create_model

from cardsign.errors import CardRefused, UsageFault, closest
from cardsign.files import bad_settings, read_bytes, read_toml
from cardsign.server.providers import AudienceRule, Networks, ProviderSettings
from cardsign.server.remote import KNOWERS
from cardsign.server.tokens import TokenTable
from cardsign.urls import parse_url

_GUIDE: Final = "Each member is shown in docs/guides/publish-and-serve.md."
MAX_WORKERS: Final = 64
MAX_SETTINGS_BYTES: Final = 256 * 1024  # a thousand agents, each with a table of its own

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
_Path = Annotated[str, StringConstraints(pattern=r"^/[!-~]*$")]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a publication is served. Holds no secret; can be pickled for a worker process.

    Attributes:
        tokens: What opens the extended cards, in addition to `providers`; None for no such table.
        providers: Who may have an extended card, and which; any one of them will do.
        legacy: Whether the path of before A2A 0.3 answers too.
        sunset: When that path will no longer answer; aware; None if that is not known.
        enabled: Whether the only agent is served at all.
        disabled: The names of agents that are not served, of several.
        root: Of several agents, whose card is at the root too; None for none's.
        agent_path: Below which path each of several agents is; ``{name}`` stands for its name.
        catalogue: Where all cards are listed; empty for nowhere.
        placeholder: Whether a host without agents has an unsigned card at its root, not 404.
        keys: Whether the key set is served; without it, it has to be served elsewhere.
        statements: Whether the issuer's statements are, likewise.
        health: Whether ``/healthz`` and ``/readyz`` answer.
        metadata: Whether the card's OAuth and OpenID Connect schemes are told as RFC 9728 has it.
        page: Whether ``/`` answers a page for people to who asks for HTML.
        rate: How often one client may ask, such as ``100/minute``; empty for no limit.
        rate_storage: Where that is counted: ``memory://``, or ``redis://HOST`` for several hosts.
        access_log: Whether each request is one JSON line on stderr.
        workers: How many server processes run; one that ends is started again.
        metrics: Whether ``/metrics`` tells Prometheus what was answered; needs cardsign[metrics].
        proxies: The networks of proxies in front, which say whose request it is.
    """

    tokens: TokenTable | None = None
    providers: tuple[ProviderSettings, ...] = ()
    legacy: bool = True
    sunset: datetime | None = None
    enabled: bool = True
    disabled: frozenset[str] = frozenset()
    root: _Name | None = None
    agent_path: _Path = "/agents/{name}"
    catalogue: _Path | Literal[""] = "/a2a/agents"
    placeholder: bool = False
    keys: bool = True
    statements: bool = True
    health: bool = True
    metadata: bool = True
    page: bool = True
    rate: str = ""
    rate_storage: str = "memory://"
    access_log: bool = False
    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS)] = 1
    metrics: bool = False
    proxies: Networks = ()


DEFAULT_SETTINGS: Final = ServerSettings()


_STRICT: Final = ConfigDict(strict=True, extra="forbid")


def _form(settings: type, left_out: str = "", **members: Any) -> type[BaseModel]:
    """The form of what a file says: the fields of a dataclass, but for some, and other members."""
    hints = get_type_hints(settings, include_extras=True)
    same: dict[str, Any] = {
        one.name: (hints[one.name], ... if one.default is MISSING else one.default)
        for one in fields(settings)
        if one.name not in left_out.split()
    }
    return create_model(settings.__name__, __config__=_STRICT, **same, **members)


_Agent: Final = create_model("Agent", __config__=_STRICT, enabled=(bool, True))
_Rule: Final = _form(AudienceRule)
_Provider: Final = _form(
    ProviderSettings,
    "rules tokens",
    rule=(list[_Rule], []),  # type: ignore[valid-type]
    token_file=(str | None, None),
)
_File: Final = _form(
    ServerSettings,
    "tokens providers sunset disabled",
    format=(Literal[1], ...),
    token_file=(str | None, None),
    sunset=(date | None, None),
    agents=(dict[_Name, _Agent], {}),  # type: ignore[valid-type]
    provider=(list[_Provider], []),  # type: ignore[valid-type]
)


def read_server_settings(path: Path) -> ServerSettings:
    """Read the file; other files that it names are relative to it.

    Raises:
        UsageFault: ``config.malformed``: no TOML, an unknown member, a wrong value; the message
            names the member, its value and what is expected.
        ServeFault: ``serve.token_file``.
        FileFault: The file, or one that it names, cannot be read.
    """
    try:
        members = read_toml(read_bytes(path, max_bytes=MAX_SETTINGS_BYTES))
        file: Any = _File.model_validate(members)
    except ValidationError as refused:
        raise _bad(path, _problem(refused)) from refused
    except ValueError as exc:
        raise _bad(path, f"not TOML: {exc}") from exc
    taken: dict[str, Any] = {
        one.name: getattr(file, one.name)
        for one in fields(ServerSettings)
        if one.name in _File.model_fields
    }
    if file.sunset is not None:
        taken["sunset"] = datetime.combine(file.sunset, time(tzinfo=UTC))
    if file.token_file is not None:
        taken["tokens"] = TokenTable.read(path.parent / file.token_file)
    providers = tuple(_provider(one, path, n) for n, one in enumerate(file.provider, start=1))
    disabled = frozenset(name for name, agent in file.agents.items() if not agent.enabled)
    return ServerSettings(**taken, disabled=disabled, providers=providers)


def _bad(path: Path, problem: str, *, hint: str = "") -> UsageFault:
    return bad_settings(path, problem, hint=hint or f"Fix {path.name}. {_GUIDE}")


def _provider(given: Any, path: Path, number: int) -> ProviderSettings:
    """One provider, with its token table, if it has all that its type needs."""
    which = f"[[provider]] number {number} ({given.type})"
    members: dict[str, Any] = given.model_dump(exclude={"rule", "token_file"})
    members["typ"] = tuple(one.lower().removeprefix("application/") for one in given.typ)
    table = None if given.token_file is None else TokenTable.read(path.parent / given.token_file)
    rules = tuple(AudienceRule(**one.model_dump()) for one in given.rule)
    found = ProviderSettings(**members, rules=rules, tokens=table)
    for name in KNOWERS[given.type][0]:
        if not getattr(found, name):
            member = "token_file" if name == "tokens" else name
            raise _bad(path, f"{which}: {member!r} is missing")
    if found.tokens is None and found.opens is None and not found.rules:
        raise _bad(path, f"{which}: nobody gets a card; say opens, or [[provider.rule]]")
    try:
        for url in filter(None, (found.issuer, found.url)):
            if parse_url(url).origin.scheme == "http" and not found.insecure_loopback_http:
                raise _bad(
                    path,
                    f"{which}: {url} is plain http, which others can read and change",
                    hint="Use https; for a server on this machine, to try it: "
                    "insecure_loopback_http = true.",
                )
    except CardRefused as exc:
        raise _bad(path, f"{which}: {exc}") from exc
    return found


def _problem(refused: ValidationError) -> str:
    """The first thing that is wrong: the member, its value, and what is expected."""
    error = refused.errors(include_url=False)[0]
    name = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        known = [field for form in (_File, _Provider, _Rule) for field in form.model_fields]
        at_the_top = f"; known at the top are {', '.join(_File.model_fields)}"
        return f"unknown member {name!r}{closest(error['loc'][-1], known) or at_the_top}"
    if error["type"] == "missing":
        return f"{name!r} is missing"
    value = re.sub(r"[^ -~]", "?", repr(error["input"]))[:80]
    return f"{name} = {value}: {error['msg'][:1].lower()}{error['msg'][1:]}"
