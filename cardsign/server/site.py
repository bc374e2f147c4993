"""What is served now: an immutable site, exchanged whole when a publication changes.

A public document is for everybody: a file of the publication with its headers, or what is made
here, the OAuth metadata of RFC 9728 and the page for people.

Each publication is named by an event, for an operator's audit: which card is served since when, by
its digest and its keys. The card itself is not in it, so that a log holds nothing that is published
elsewhere, and nothing of an extended card at all.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from werkzeug.http import http_date

from cardsign.card.document import Interface, current_interfaces, interfaces_of
from cardsign.card.extensions import declares_extended_card
from cardsign.card.security import schemes_of
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, elements_of, members_of
from cardsign.errors import CardRefused, CardsignError, ServeFault, SignatureRefused
from cardsign.files import CURRENT_FILE, FileStamp, file_stamp
from cardsign.jose.jws import read_entry
from cardsign.jose.keys import JwkSet
from cardsign.page import POLICY, card_page
from cardsign.publish.generation import (
    DEPRECATED,
    MAX_STATEMENT_AGE,
    Generation,
    load_current,
    public_files,
    public_headers,
)
from cardsign.server.a2a import Document, ExtendedCards, etag_of
from cardsign.server.providers import make_providers
from cardsign.server.settings import ServerSettings
from cardsign.statements.envelope import StatementRefused
from cardsign.times import utc
from cardsign.urls import AGENT_NAME, CARD_PATH, EXTENDED_PATH, STATEMENTS_PATH, Headers, parse_url

log = logging.getLogger(__name__)
#: Its messages are lines of JSON; `cardsign serve` writes them to stderr as they are.
events = logging.getLogger("cardsign.events")
MAX_TEXT: Final = 256  # characters of a text of the card
MAX_NAMES: Final = 32  # of security schemes, and of signatures

LOOK_SECONDS: Final = 0.2  # between two looks at the one stamp
LOOK_AT_ALL_SECONDS: Final = 60.0  # between two looks at every agent
#: Seconds after which a publication is served; by then every process has looked.
EXCHANGE_SECONDS: Final = 1.0


METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
_OIDC: Final = "/.well-known/openid-configuration"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
#: The page is for clients that ask for HTML, so caches keep it apart from others at its path.
PAGE_HEADERS: Final = (
    ("Content-Security-Policy", f"{POLICY}; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Vary", "Accept"),
)


@dataclass(eq=False)
class Agent:
    """One agent's generation, ready to be served.

    Attributes:
        name: Of its folder; empty for the only publication.
        generation: What was published.
        documents: The public documents by path.
        extended: The extended cards.
        paths: By method: where its card's interfaces give the extended card and take JSON-RPC.
        page: The card as a page for people, once it was asked for, and when its verdict ends.
    """

    name: str
    generation: Generation
    documents: Mapping[str, Document]
    extended: ExtendedCards
    paths: Mapping[str, Set[str]]
    page: tuple[Document, float] = (Document(b"", ()), -math.inf)

    def find_page(self, now: float) -> Document:
        """Return the page at a Unix time."""
        if now >= self.page[1]:
            self.page = _make_page(self.generation, now)
        return self.page[0]


@dataclass(frozen=True)
class Site:
    """All agents of a host at one moment.

    Attributes:
        agents: By name, sorted.
        root: The agent whose card is at the root of the host: the only one, or the chosen one.
    """

    agents: Mapping[str, Agent] = field(default_factory=dict)
    root: Agent | None = None

    @cached_property
    def documents(self) -> Mapping[str, Document]:
        """The public documents at the root of the host: of its agent, or else of the issuer.

        Those are the newest statements. There are none where the agents have several issuers:
        nobody says whose the host is.
        """
        if self.root:
            return self.root.documents
        issued = [agent for agent in self.agents.values() if agent.generation.keysets]
        if len({agent.generation.keysets.get("1.1") for agent in issued}) != 1:
            return {}
        documents = max(issued, key=lambda agent: agent.generation.published_at).documents
        return {path: documents[path] for path in documents if path.startswith(STATEMENTS_PATH)}

    @cached_property
    def _claims(self) -> dict[str, list[str]]:
        """By path: the agents whose cards name it."""
        claims = defaultdict[str, list[str]](list)
        for name, agent in self.agents.items():
            for path in sorted(set[str]().union(*agent.paths.values())):
                claims[path].append(name)
        return claims

    def find_interface(self, path: str) -> Agent | None:
        """Return the root, if its card names a path, or else the only agent whose card does."""
        names = self._claims.get(path, ())
        if self.root and (self.root.name in names or path == EXTENDED_PATH):
            return self.root
        return self.agents[names[0]] if len(names) == 1 else None

    def find_conflicts(self) -> Iterator[str]:
        """Yield a line for each place that several cards name; at most the root is served there."""
        for path, names in self._claims.items():
            if len(names) > 1:
                yield f"agents {' and '.join(names)} name {path}; none but the root is served there"


class Publications:
    """The publications of a host, which a thread follows.

    A newer generation is taken up whole. Whatever is wrong with it, the last good one stays; an
    earlier one is never taken, since it would revive withdrawn cards and keys.

    All processes of a machine exchange their site at one moment, which the time of the last
    publication decides, so that no client sees the old one after the new one. If another is
    published before that moment, they all wait for the moment of that one.

    Args:
        location: A publication directory, or a folder of them, each named after its agent.
        settings: To whom they are served, and how.
        now: Unix seconds.
        previous: Whose place these take, by other settings: what it serves counts as served.

    Attributes:
        bodies: Places for requests whose bodies are read.
        problems: What is wrong with each agent, by name, a line each; of the host by no name.
        stopped: Ends the thread, once it is set.

    Raises:
        ServeFault, FileFault: As :func:`cardsign.publish.generation.load_current`, for one
            publication; ``serve.no_generation``, where there is none.
        JsonRefused: The published card is not strict JSON.
        UsageFault: ``config.malformed``: a secret of the settings is not there.
    """

    def __init__(
        self,
        location: Path,
        settings: ServerSettings,
        *,
        now: Callable[[], float] = time.time,
        previous: Publications | None = None,
    ) -> None:
        self.location, self.settings, self.now = location, settings, now
        quarter = settings.threads // 4  # so that GET always finds a thread
        self.bodies = threading.BoundedSemaphore(quarter)
        self._providers = make_providers(settings, threading.BoundedSemaphore(quarter), now)
        self._site = self._newest = Site()
        self._moment = 0.0  # of the newest site, in Unix seconds
        self._stamps: dict[str, FileStamp | None] = {}
        self.problems: dict[str, list[str]] = {}
        self._exchanging = threading.Lock()
        self._started, self.stopped = threading.Lock(), threading.Event()
        self.is_single = True
        if previous is None:
            with suppress(OSError):  # which is told below
                has_current = (location / CURRENT_FILE).is_file()  # an agent may be called so
                self.is_single = has_current or not any(_list_agents(location))
        else:
            self.is_single, self.problems = previous.is_single, previous.problems
            self._site, self._moment = previous._newest, previous._moment
            agents: dict[str, Agent] = {}
            for name, agent in self._site.agents.items():
                try:
                    if settings.enabled and name not in settings.disabled:
                        agents[name] = self._make_agent(name, agent.generation)
                except ServeFault as exc:
                    raise ServeFault(exc.code, f"{_prefix(name)}{exc.message}") from exc
            self._newest = Site(agents, self._choose_root(agents))
        self._stamp_path = location / CURRENT_FILE if self.is_single else location
        self.look_at_all()

    @property
    def site(self) -> Site:
        """What is served now; whoever asks after the moment of a newer site exchanges it."""
        if self._newest is not self._site:
            self._exchange()
        return self._site

    def start_watching(self) -> None:
        """Start the thread that follows the publications, once in each process."""
        if self._started.acquire(blocking=False):
            threading.Thread(target=self._watch, name="cardsign-watch", daemon=True).start()

    def _watch(self) -> None:
        while not self.stopped.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception:  # nothing may end the only thread that follows the publications
                log.exception("the publications could not be looked at")

    def look(self) -> None:
        """Take up what is new: look at one stamp, and once a minute at every agent."""
        self._exchange()  # what is due before anything newer takes its place
        is_old = time.monotonic() - self._looked_at >= LOOK_AT_ALL_SECONDS
        if is_old or file_stamp(self._stamp_path) != self._stamp:
            self._find_newest()

    def look_at_all(self) -> None:
        """Take up what is new at once, whatever other processes do."""
        self._find_newest()
        self._exchange(at_once=True)

    def wait_for_others(self) -> None:
        """Wait until every process of this machine serves what this one does."""
        while (seconds := self._moment - time.time()) > 0:
            time.sleep(seconds)
            self.look()

    def _exchange(self, *, at_once: bool = False) -> None:
        """Serve the newest site once its moment has come, and say what of it is new."""
        with self._exchanging:
            old, newest = self._site, self._newest
            if newest is old or not (at_once or self._is_due()):
                return
            self._site = newest
            served = {name: agent.generation for name, agent in old.agents.items()}
            for name, agent in newest.agents.items():
                if agent.generation is not served.get(name):
                    if agent.generation.card:
                        log_publication(agent.generation, name, self.now())
                    else:
                        log.info("%sserving no card: it was withdrawn", _prefix(name))

    def _is_due(self) -> bool:
        """Return whether the moment of the newest site has come, and nothing else came by then."""
        if time.time() < self._moment:  # before the stamp is looked at, which may change by then
            return False
        stamp = file_stamp(self._stamp_path)
        return stamp in (None, self._stamp) or stamp[1] / 1e9 > self._moment

    def _find_newest(self) -> None:
        """Find the newest good state of every agent that there is, and log what is wrong."""
        self._looked_at, self._stamp = time.monotonic(), file_stamp(self._stamp_path)
        problems = defaultdict[str, list[str]](list)
        agents: dict[str, Agent] = {}
        for name in self._find_names(problems[""]):
            served = self._newest.agents.get(name)
            agent, problem = self._update(name, served)
            if problem:
                number = f"still serving generation {served.generation.number}" if served else ""
                problems[name].append(f"{number or 'not served'}: {problem}")
            if agent is not None:
                agents[name] = agent
        if agents != self._newest.agents:
            moment = self._stamp[1] / 1e9 + EXCHANGE_SECONDS if self._stamp else 0.0
            # At once if the stamp is in the future: the disk's clock is wrong.
            self._moment = moment if moment <= time.time() + EXCHANGE_SECONDS else 0.0
            self._newest = Site(agents, self._choose_root(agents))
        problems[""] += self._newest.find_conflicts()
        for name, lines in problems.items():
            for line in lines:
                if line not in self.problems.get(name, ()):
                    log.warning("%s%s", _prefix(name), line)
        self.problems = problems

    def _find_names(self, problems: list[str]) -> list[str]:
        """Return the names of the agents that are to be served."""
        try:
            names = {""} if self.is_single else {*_list_agents(self.location)}
        except OSError as exc:  # nobody said that the agents are gone
            problems.append(f"still serving the agents that were there: {exc}")
            return [*self._newest.agents]
        # A misspelt agent of `disabled` is served still.
        missing = self.settings.disabled.union(filter(None, [self.settings.root])) - names
        problems += (f"agent {name} of the settings is not here" for name in sorted(missing))
        return sorted(names - self.settings.disabled) if self.settings.enabled else []

    def _choose_root(self, agents: Mapping[str, Agent]) -> Agent | None:
        shown = [agent for agent in agents.values() if agent.generation.card or self.is_single]
        if len(shown) == 1 and (self.is_single or self.settings.root is None):
            return shown[0]
        return agents.get(self.settings.root or "")

    def _update(self, name: str, served: Agent | None) -> tuple[Agent | None, str]:
        """Return the newest good state of an agent, if there is any, and what keeps a newer one."""
        stamp = file_stamp(self.location / name / CURRENT_FILE)
        if served and stamp and stamp == self._stamps.get(name):
            return served, ""
        try:
            newest = load_current(self.location / name)
            # A pipeline that begins with an empty folder publishes generation 1 each time.
            if served is None or newest.published_at > served.generation.published_at:
                served = self._make_agent(name, newest)
            elif newest.files != served.generation.files:
                return served, f"generation {newest.number} is not newer, and is refused"
        except CardsignError as exc:
            if served is None and self.is_single:
                raise
            return served, str(exc)
        self._stamps[name] = stamp
        return served, ""

    def _make_agent(self, name: str, generation: Generation) -> Agent:
        card = parse_object(generation.card) if generation.card else {}
        older = [parse_object(generation.legacy_card)] if generation.legacy_card else []
        extended = ExtendedCards(generation, card, self._providers, self.now)
        if extended.are_published and not self._providers:
            message = "%snobody can get the extended cards: name --token-file, or a [[provider]]"
            log.warning(message, _prefix(name))
        documents = public_documents(generation, card, self.settings)
        return Agent(name, generation, documents, extended, find_paths(card, *older))


def _prefix(name: str) -> str:
    return f"agent {name}: " if name else ""


def _list_agents(location: Path) -> Iterator[str]:
    """Yield the names of the agents in a folder of publications; OSError where it is not there."""
    for folder in location.iterdir():
        if AGENT_NAME.fullmatch(folder.name) and (folder / CURRENT_FILE).exists():
            yield folder.name


# The documents of an agent.


def public_document(body: bytes, headers: Headers, published: datetime | None) -> Document:
    """Return a document for everybody, which pages of any origin may read."""
    changed = (("Last-Modified", http_date(published)),) if published else ()
    return Document(body, (*headers, *changed, ("ETag", etag_of(body))))


def public_documents(
    generation: Generation, card: Mapping[str, Json], settings: ServerSettings
) -> dict[str, Document]:
    """Return what a generation shows to everybody, by path; `card` is its public card, parsed."""
    legacy = DEPRECATED
    if settings.deprecated:  # RFC 9745
        midnight = datetime.combine(settings.deprecated, datetime.min.time(), UTC)
        legacy = (("Deprecation", f"@{int(midnight.timestamp())}"),)
    if settings.sunset:  # RFC 8594
        legacy += (("Sunset", http_date(settings.sunset)),)
    files = public_files(generation, legacy=legacy if settings.legacy else None)
    issuers = [provider.issuer for provider in settings.providers if provider.issuer]
    for path, body in resource_metadata(card, issuers).items():
        files[path] = body, public_headers("application/json", generation.max_age)
    published = generation.published_at
    documents = {path: public_document(*file, published) for path, file in files.items()}
    if generation.legacy_card is not None:
        headers = public_headers("application/json", generation.max_age, ("Vary", "A2A-Version"))
        older = public_document(generation.legacy_card, headers, published)
        current = public_document(generation.card, headers, published)
        documents[CARD_PATH] = replace(current, older=older)
    return documents


def resource_metadata(card: Mapping[str, Json], issuers: Iterable[str]) -> dict[str, bytes]:
    """Return the metadata of each interface by its path (RFC 9728); none without OAuth or OIDC.

    Args:
        card: The public card.
        issuers: Whose tokens the server takes, where the card declares that it takes some.
    """
    servers = set[str]()
    for scheme in schemes_of(card).values():
        servers.update(issuers if scheme.type in ("oauth2", "openIdConnect") else ())
        # An issuer, which its metadata's URL ends or, with a path, is put into (RFC 8414 3.1).
        for member, part in (("openIdConnectUrl", _OIDC), ("oauth2MetadataUrl", _OAUTH)):
            url = scheme.members.get(member)
            if scheme.type is not None and isinstance(url, str) and part in url:
                servers.add(url.replace(part, "", 1))
    members = {"authorization_servers": sorted(servers), "bearer_methods_supported": ["header"]}
    metadata = {}
    for interface in interfaces_of(card) if servers else ():
        with suppress(CardRefused):
            resource = parse_url(str(interface.url))
            body = json.dumps({"resource": str(resource), **members}, separators=(",", ":"))
            # The path of a resource comes after the well-known one (3.1).
            path = METADATA_PATH + (unquote(resource.path) if resource.path != "/" else "")
            metadata[path] = body.encode()
    return metadata


def find_paths(*cards: Mapping[str, Json]) -> dict[str, set[str]]:
    """Return, by method, where GET asks for the extended card, and where POST takes JSON-RPC."""
    extended, rpc = set[str](), set[str]()
    for interface in chain(*map(interfaces_of, cards)):
        with suppress(ValueError):  # of urlsplit
            parts = urlsplit(str(interface.url))
            if parts.scheme in ("http", "https"):
                path = unquote(parts.path).rstrip("/")
                extended.update(_extended_paths(path, interface))
                if str(interface.binding).upper() == "JSONRPC":
                    # Some clients add a final slash. The root path has only that form.
                    rpc.update((path, f"{path}/") if path else ("/",))
    return {"GET": extended, "HEAD": extended, "POST": rpc}


def _extended_paths(path: str, interface: Interface) -> Iterator[str]:
    """Yield where clients of each A2A version ask for the extended card of an interface."""
    yield path + EXTENDED_PATH
    if isinstance(interface.tenant, str) and interface.tenant:
        yield f"{path}/{interface.tenant}{EXTENDED_PATH}"
    silent = "1.0" if interface.written_in == "1.0" else "0.3"
    if str(interface.version or silent).startswith("0."):
        yield f"{path}/v1/card"  # A2A 0.3
        yield f"{path.rpartition('/')[0]}/agent/authenticatedExtendedCard"  # up to A2A 0.2


# The page for people.


def _make_page(generation: Generation, now: float) -> tuple[Document, float]:
    """Return the page, and when its verdict ends."""
    keysets, jwks = generation.keysets, JwkSet.from_bytes(generation.jwks)
    newest = next(reversed(keysets.values()), None)
    make = partial(card_page, generation.card, jwks=jwks, now=utc(now))
    try:
        text, until = make(keyset=newest, release=generation.release)
    except StatementRefused as refusal:
        log.error("the page leaves the statements out: %s", refusal)
        text, until = make()
    ends = until.timestamp() if until and until > utc(now) else math.inf
    age = int(min(generation.max_age, MAX_STATEMENT_AGE, ends - now))
    headers = public_headers("text/html; charset=utf-8", age, *PAGE_HEADERS)
    return public_document(text.encode(), headers, None), ends


# The event of a publication.


def log_publication(generation: Generation, agent: str, now: float) -> None:
    """Log that a generation is served from now on.

    Texts of the card are cut off at 256 characters, lists at 32 entries. Line ends and all that is
    not ASCII are escaped. The signatures are named, and not checked.

    Args:
        generation: What is served.
        agent: Its name on the host; empty for the only one.
        now: Unix seconds.
    """
    card = parse_object(generation.card)
    interface = next(iter(current_interfaces(card)), None)
    skills, declared = card.get("skills"), members_of(card.get("capabilities"))
    fields = {
        "agent": agent or None,
        "generation": generation.number,
        "name": _cut(card.get("name")),
        "version": _cut(card.get("version")),
        "protocol_version": _cut(interface.version if interface else card.get("protocolVersion")),
        "url": _cut(interface.url if interface else None),
        "skill_count": len(skills) if isinstance(skills, list) else 0,
        # Those that A2A defines as yes or no. Extensions have free content, and are left out.
        "capabilities": {
            "streaming": declared.get("streaming") is True,
            "push_notifications": declared.get("pushNotifications") is True,
            "state_transition_history": declared.get("stateTransitionHistory") is True,
            "extended_agent_card": declares_extended_card(card),
        },
        "security_schemes": [_cut(name) for name in schemes_of(card)][:MAX_NAMES],
        "card_size_bytes": len(generation.card),
        "card_sha256": hashlib.sha256(generation.card).hexdigest(),
        "signatures": read_signers(card)[:MAX_NAMES],
    }
    moment = utc(now).isoformat(timespec="milliseconds")
    line = {"time": moment, "event": "agent_card_published", "fields": fields}
    events.info("%s", json.dumps(line, separators=(",", ":")))


def _cut(value: Json) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) else None


def read_signers(card: Mapping[str, Json]) -> list[dict[str, str | None]]:
    """Return kid and algorithm of each signature that can be read, once."""
    signers: dict[tuple[str | None, str | None], None] = {}
    for untrusted_entry in elements_of(card.get("signatures")):
        with suppress(SignatureRefused):
            entry = read_entry(untrusted_entry)
            signers[entry.kid, entry.alg] = None
    return [{"kid": kid, "alg": alg} for kid, alg in signers]
