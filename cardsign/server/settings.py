"""The operator's settings of a server: a TOML file of its own, which no project folder decides.

``cardsign.toml`` comes with a repository and may come from a stranger. What is here names files,
networks and who may have an extended card, so it is named on the command line alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import limits
from limits.errors import ConfigurationError
from pydantic import (
    AfterValidator,
    Field,
    IPvAnyNetwork,
    StringConstraints,
    ValidationInfo,
    model_validator,
)

from cardsign.card.extensions import AUDIENCE
from cardsign.card.security import ProviderType
from cardsign.errors import CardRefused
from cardsign.files import read_bytes
from cardsign.tomltext import Table, bad_settings, read_settings
from cardsign.urls import AGENT_NAME, AGENT_PATH, AGENT_PATH_PATTERN, parse_url

MAX_WORKERS: Final = 64
MAX_SETTINGS_BYTES: Final = 256 * 1024

AgentName = Annotated[str, StringConstraints(pattern=f"^{AGENT_NAME.pattern}$")]
_Variable = Annotated[str, StringConstraints(pattern=r"^(env:[A-Za-z_][A-Za-z0-9_]*)?$")]
_Audience = Annotated[str, StringConstraints(pattern=f"^(?:{AUDIENCE.pattern})$")]
_Networks = Annotated[tuple[IPvAnyNetwork, ...], Field(strict=False)]


def _find_beside(file: Path, info: ValidationInfo) -> Path:
    folder: Path = info.context or Path()
    if "\0" in str(file):
        raise ValueError(f"= {str(file)!r}: no file has such a name")
    return folder / file


def _read_by(parse: Callable[[str], object], expected: str) -> AfterValidator:
    """Return what refuses a text that `parse` cannot read; an empty one is a setting left out."""

    def check(text: str) -> str:
        try:
            if text:
                parse(text)
        except (CardRefused, ConfigurationError, ValueError) as exc:
            problem = getattr(exc, "message", exc)
            raise ValueError(f"= {text!r}: {problem}; expected {expected}") from exc
        return text

    return AfterValidator(check)


#: In a settings file it is relative to that file.
_File = Annotated[Path, Field(strict=False), AfterValidator(_find_beside)]
_Rate = Annotated[str, _read_by(limits.parse_many, "a rate, such as 100/minute")]
_Url = Annotated[str, _read_by(parse_url, "a URL, such as https://login.example.com")]
_Storage = Annotated[str, _read_by(limits.storage.storage_from_string, "memory:// or redis://HOST")]

#: What each type of provider cannot do without.
NEEDS: Final[dict[ProviderType, tuple[str, ...]]] = {
    "static_token": ("token_file",),
    "http_verifier": ("url",),
    "oidc": ("issuer", "aud"),
    "azure_ad": ("tenant", "aud"),
    "gcp_iap": ("aud",),
    "aws_sigv4": ("url", "rules"),
    "api_key": ("token_file", "key"),
    "basic": ("token_file",),
    "mtls": (),
}
#: Those for which no other host is asked, so that nobody waits.
INSTANT: Final = frozenset({"static_token", "api_key", "basic", "mtls"})
LOOPBACK: Final = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


class AudienceRule(Table):
    """Which callers get the card of an audience, by what is known of them.

    Attributes:
        claim: ``scope``, ``groups``, ``uri`` (a SAN of the certificate) or any other.
        value: What it has to be, or has to hold.
        opens: The audience of the extended card.
    """

    claim: str
    value: str
    opens: _Audience


class ProviderSettings(Table, populate_by_name=True):
    """One kind of caller. Holds no secret, but where to read one.

    Attributes:
        type: Which of the nine.
        opens: The audience of every caller whom no rule names; None for no card.
        rules: The first that holds decides.
        token_file: Of ``static_token``, ``api_key`` and ``basic``: the digests.
        issuer: Of ``oidc``: as tokens name it.
        tenant: Of ``azure_ad``.
        aud: Whom tokens have to be for.
        typ: Of ``oidc``: the values of ``typ``, such as ``at+jwt``; any if empty.
        url: Of ``http_verifier``: who is asked; of ``aws_sigv4``: the origin of STS.
        client: Of ``http_verifier``: where to read ``ID:SECRET``: ``env:NAME``.
        location: Of ``api_key``: ``header``, ``query`` or ``cookie``.
        key: Of ``api_key``: its name there.
        proxies: Of ``mtls``: the networks of proxies whose headers count, without `secret`.
        secret: Of ``mtls``: where to read what the proxy says in ``X-Proxy-Secret``: ``env:NAME``.
        networks: Private networks in which the provider may be reached.
        insecure_loopback_http: For tests: the provider is on this machine.
    """

    type: ProviderType
    opens: _Audience | None = None
    rules: Annotated[tuple[AudienceRule, ...], Field(strict=False, alias="rule")] = ()
    token_file: _File | None = None
    issuer: _Url = ""
    tenant: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]*$")] = ""
    aud: str = ""
    typ: Annotated[tuple[str, ...], Field(strict=False)] = ()
    url: _Url = ""
    client: _Variable = ""
    location: Literal["header", "query", "cookie"] = "header"
    key: Annotated[str, StringConstraints(pattern=r"^[!-~]{0,64}$")] = ""
    # By a factory: pydantic 2.9 cannot write these into the JSON schema, which a misspelling reads.
    proxies: _Networks = Field(default_factory=lambda: LOOPBACK, strict=False)
    secret: _Variable = ""
    networks: _Networks = ()
    insecure_loopback_http: bool = False

    @model_validator(mode="after")
    def check(self) -> Self:
        """Refuse a provider that could not work, or that lets in whom nobody named."""
        for problem in self._find_problems():
            raise ValueError(f"is of type {self.type}: {problem}")
        return self

    def _find_problems(self) -> Iterator[str]:
        for name in NEEDS[self.type]:
            if not getattr(self, name):
                yield f"{'[[provider.rule]]' if name == 'rules' else repr(name)} is missing"
        if self.type == "aws_sigv4":
            if self.opens or any(rule.claim not in ("account", "arn") for rule in self.rules):
                yield "anybody has an AWS account; let rules name account or arn, and no 'opens'"
        elif not (self.token_file or self.opens or self.rules):
            yield "nobody gets a card; say 'opens', or add [[provider.rule]]"
        plain = [url for url in (self.issuer, self.url) if url.startswith("http://")]
        if plain and not self.insecure_loopback_http:
            yield (
                f"{plain[0]} is plain http, which others can read and change; use https, or to "
                "try a server on this machine insecure_loopback_http = true"
            )


class ServerSettings(Table, populate_by_name=True):
    """How a publication is served. Holds no secret; can be pickled for a worker process.

    Attributes:
        format: Of a settings file, which has to name it.
        token_file: Digests of bearer tokens, beside `providers`; None for none.
        providers: Who may have an extended card, and which; any one of them will do.
        legacy: Whether the path of before A2A 0.3 answers too.
        deprecated: Since when that path is deprecated, as ``Deprecation`` says; else ``true``.
        sunset: The day from which that path answers 410.
        enabled: Whether the only agent is served at all.
        disabled: The names of agents that are not served, of several.
        root: Of several agents, whose card is at the root too; None for none's.
        agent_path: Below which path each of several agents is; ``{name}`` stands for its name.
        catalogue: Whether ``/a2a/agents`` lists all cards.
        placeholder: Whether a host without agents has an unsigned card at its root, not 404.
        page: Whether ``/`` answers a page for people, if HTML is asked for.
        rate: How often one client may ask, such as ``100/minute``; empty for no limit.
        rate_storage: Where that is counted: ``memory://``, or ``redis://HOST`` for several hosts.
        proxies: The networks of proxies in front, which say whose request it is.
        behind_proxy: Whether a proxy in front reads requests whole before it passes them on.
        threads: Requests that one process answers at a time, of those that may wait.
        workers: How many processes run; one that ends is started again.
        access_log: Whether each request is a line on stderr.
        metrics: Whether ``/metrics`` tells Prometheus what was answered; needs the extra metrics.
    """

    format: Literal[1] = 1
    token_file: _File | None = None
    providers: Annotated[tuple[ProviderSettings, ...], Field(strict=False, alias="provider")] = ()
    legacy: bool = True
    deprecated: date | None = None
    sunset: date | None = None
    enabled: bool = True
    disabled: Annotated[frozenset[AgentName], Field(strict=False)] = frozenset()
    root: AgentName | None = None
    agent_path: Annotated[str, StringConstraints(pattern=AGENT_PATH_PATTERN)] = AGENT_PATH
    catalogue: bool = True
    placeholder: bool = False
    page: bool = True
    rate: _Rate = ""
    rate_storage: _Storage = "memory://"
    proxies: _Networks = ()
    behind_proxy: bool = False
    threads: Annotated[int, Field(ge=4, le=256)] = 16
    workers: Annotated[int, Field(ge=1, le=MAX_WORKERS)] = 1
    access_log: bool = False
    metrics: bool = False


DEFAULT_SETTINGS: Final = ServerSettings()


def read_server_settings(path: Path) -> ServerSettings:
    """Return the settings of a file; other files that it names are relative to it.

    Raises:
        UsageFault: ``config.malformed``: no TOML, an unknown member, a wrong value; the message
            names the member and what is expected.
        FileFault: The file cannot be read.
    """
    data = read_bytes(path, max_bytes=MAX_SETTINGS_BYTES)
    settings = read_settings(data, path, ServerSettings, path.parent)
    if "format" not in settings.model_fields_set:
        raise bad_settings(path, "'format' is missing")
    return settings


def in_networks(text: str, networks: tuple[IPvAnyNetwork, ...]) -> bool:
    """Return whether a text is an address of one of the networks."""
    address = parse_address(text)
    return address is not None and any(address in network for network in networks)


def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address in a text; of IPv4 also where a socket of IPv6 writes ``::ffff:``."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
