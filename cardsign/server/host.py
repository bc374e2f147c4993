"""Several agents on one host: their cards by path, the root's card, and the catalogue of all.

A directory that holds publications, one for each agent, is served as a whole. Each agent has
everything that is its own below the path that the template says. What the interfaces of its card
name is found by its whole path. At the root stands a card only where it is clear whose.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from cardsign.errors import CardsignError, ServeFault, UsageFault
from cardsign.publish.generation import CURRENT_FILE, NO_SNIFF, PublicFile, read_pointer
from cardsign.server.answers import (
    HEALTH_PATH,
    READY_PATH,
    UNCACHED,
    Answer,
    allow,
    error_answer,
    json_answer,
)
from cardsign.server.app import Views, public_answer
from cardsign.server.documents import Representation, bare_host, decoded
from cardsign.server.events import to_log, to_stderr
from cardsign.server.live import PAGE_PATH, LiveApplication, look_at_all, place_of
from cardsign.server.providers import Provider
from cardsign.server.remote import make_providers
from cardsign.server.settings import DEFAULT_SETTINGS, ServerSettings
from cardsign.urls import CARD_PATH, EXTENDED_PATH, LEGACY_CARD_PATH

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

#: Seconds between two looks at which agents there are; each of them looks at its own.
POLL_SECONDS: Final = 1.0
#: Agents on one page of the catalogue; at most 25 MiB of the largest cards.
MAX_PAGE: Final = 100
#: An agent's name is a folder and one segment of a path.
AGENT_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
#: What is served at the root where there is no agent, if that is asked for. It has no signature,
#: so that nobody can take it for a card.
PLACEHOLDER: Final = (
    b'{"name":"No agent","description":"No agent is published on this host yet.",'
    b'"version":"0.0.0","supportedInterfaces":[],"capabilities":{},'
    b'"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}'
)
_PLACEHOLDER_DOCUMENT: Final = Representation.of_public(
    PublicFile(PLACEHOLDER, "application/json", 60), None
)


class Host:
    """The WSGI application of all agents of a host.

    Args:
        directory: One publication directory, or a folder of them, each named after its agent.
            Agents that come later are taken up; one whose publication is broken is a line for
            the operator, and harms no other.
        settings: To whom they are served, and how.
        clock: Seconds, monotonic.
        now: Unix seconds.
        log: Takes a line for the operator.
        events: Takes the event of each publication that is taken up.

    Attributes:
        settings: As given.

    Raises:
        ServeFault, FileFault, JsonRefused: As :class:`cardsign.server.live.LiveApplication`, where
            `directory` is one publication.
        UsageFault: ``config.malformed``: `agent_path` holds no ``{name}``, or `catalogue` is where
            something else is.
    """

    def __init__(
        self,
        directory: Path,
        settings: ServerSettings = DEFAULT_SETTINGS,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        log: Callable[[str], None] = to_stderr,
        events: Callable[[str], None] = to_log,
    ) -> None:
        self._directory, self.settings = directory, settings
        self._clock, self._now, self._log, self._events = clock, now, log, events
        self._looking = Lock()
        self._agents: dict[str, LiveApplication] = {}
        self._broken: dict[str, str] = {}
        self._complaint = ""
        #: By path: which agents' cards name it, and the hosts that each names with it.
        self._claims: dict[str, dict[str, set[str]]] = {}
        self._contested: set[str] = set()
        self._absent: AbstractSet[str] = frozenset()
        self._views: list[Views] = []
        self._below = _template(settings.agent_path)
        taken = settings.catalogue in (PAGE_PATH, HEALTH_PATH, READY_PATH, EXTENDED_PATH)
        if taken or settings.catalogue.startswith("/.well-known/"):
            problem = f"catalogue = {settings.catalogue!r}: something else is at this path"
            raise UsageFault("config.malformed", problem, hint='catalogue = "/a2a/agents"')
        self._is_one = (directory / CURRENT_FILE).exists() or not (
            directory.is_dir() and _agents_in(directory)
        )
        self._providers: tuple[Provider, ...] | None = None
        if not self._is_one:
            self._providers = make_providers(settings.providers, settings.tokens, now, log)
        elif settings.enabled:
            self._agents[""] = self._open("")
        else:
            read_pointer(directory)  # a misspelt directory is heard of here too
        self._looked_at = clock()
        if self._is_one:
            self._say_absent(())
        self._look()

    @property
    def number(self) -> int:
        """The generation of the only agent; 0 where there are several, or none."""
        return self._agents[""].generation.number if self._is_one and self._agents else 0

    @property
    def agents(self) -> Mapping[str, LiveApplication]:
        """What is served, by name; the only publication has an empty one."""
        return self._agents

    @property
    def broken(self) -> AbstractSet[str]:
        """The agents that cannot be served."""
        return self._broken.keys() - self._agents.keys()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request by the agent that it is for."""
        application, environ = self._route(environ)
        return application(environ, start_response)

    def may_wait(self, environ: WSGIEnvironment) -> bool:
        """As :meth:`cardsign.server.live.LiveApplication.may_wait`."""
        application, environ = self._route(environ)
        return isinstance(application, LiveApplication) and application.may_wait(environ)

    def at_once(self, environ: WSGIEnvironment) -> Answer | None:
        """As :meth:`cardsign.server.live.LiveApplication.at_once`."""
        application, environ = self._route(environ)
        return application if isinstance(application, Answer) else application.at_once(environ)

    def _route(self, environ: WSGIEnvironment) -> tuple[LiveApplication | Answer, WSGIEnvironment]:
        if not self._is_one and self._clock() - self._looked_at >= POLL_SECONDS:
            self._look()
        path = environ["PATH_INFO"]
        if path == self.settings.catalogue != "":
            return self._catalogue(environ), environ
        if path in (HEALTH_PATH, READY_PATH) and self.settings.health:
            return self._probe(environ), environ
        root = next(iter(self._agents.values())) if len(self._agents) == 1 else None
        if self.settings.root is not None and not self._is_one:
            root = self._agents.get(self.settings.root)
        below = self._below.fullmatch(path)
        if below and below["name"] in self._agents:
            script = environ.get("SCRIPT_NAME", "") + below["script"]
            moved = {**environ, "SCRIPT_NAME": script, "PATH_INFO": below["path"]}
            return self._of(self._agents[below["name"]], moved), moved
        if self._claims and root is not None and self._is_of_root(root, environ):
            return self._of(root, environ), environ
        for whole in (environ.get("SCRIPT_NAME", "") + path, path) if self._claims else ():
            if claims := self._claims.get(decoded(whole)):
                named = self._named(claims, environ)
                answer = error_answer(404, "Not Found")
                return (self._of(named, environ) if named else answer), environ
        if root is not None:
            return self._of(root, environ), environ
        if not self._agents and self.settings.placeholder and path in (CARD_PATH, LEGACY_CARD_PATH):
            return public_answer(_PLACEHOLDER_DOCUMENT, environ, self._now()), environ
        return error_answer(404, "Not Found"), environ

    def _is_of_root(self, root: LiveApplication, environ: WSGIEnvironment) -> bool:
        """Whether the agent at the root answers here, whatever the card of another one names.

        Another one has what the root knows only on a host that the root's own card does not name.
        """
        script, path = environ.get("SCRIPT_NAME", ""), environ["PATH_INFO"]
        kind, _ = place_of(root.views.paths, script, path)
        if kind is None:
            return False
        host = bare_host(environ.get("HTTP_HOST", ""))
        places = (*root.views.paths.extended.values(), *root.views.paths.rpc.values())
        if kind == "public" or any(host in hosts for hosts in places):
            return True
        claims = self._claims.get(decoded(script + path), self._claims.get(decoded(path), {}))
        return not any(host in hosts for hosts in claims.values())

    def _named(
        self, claims: Mapping[str, AbstractSet[str]], environ: WSGIEnvironment
    ) -> LiveApplication | None:
        """The agent whose card names the path; where several do, the host decides, or nobody is."""
        names = list(claims)
        if len(names) > 1:
            host = bare_host(environ.get("HTTP_HOST", ""))
            names = [name for name in names if host in claims[name]]
        return self._agents.get(names[0]) if len(names) == 1 else None

    def _of(self, agent: LiveApplication, environ: WSGIEnvironment) -> LiveApplication | Answer:
        """What an agent answers with: its application, or its page for who asks for HTML."""
        is_read = environ["REQUEST_METHOD"] in ("GET", "HEAD")
        if not (self.settings.page and is_read and environ["PATH_INFO"] == PAGE_PATH):
            return agent
        if "text/html" not in environ.get("HTTP_ACCEPT", ""):
            return agent
        agent.look()
        return public_answer(agent.page(), environ, self._now())

    # ------------------------------------------------------------------ which agents there are

    def _open(self, name: str) -> LiveApplication:
        told = f"agent {name}: " if name else ""
        return LiveApplication(
            self._directory / name,
            self.settings,
            clock=self._clock,
            now=self._now,
            log=lambda line: self._log(told + line),
            events=self._events,
            providers=self._providers,
        )

    def _look(self) -> None:
        """Take up agents that are new, and drop those whose folder is gone."""
        if self._is_one or not self._looking.acquire(blocking=False):
            return
        try:
            self._looked_at = self._clock()
            try:
                there = _agents_in(self._directory)
            except ServeFault as exc:  # nobody said that the agents are gone
                if self._complaint != str(exc):
                    self._complaint = str(exc)
                    self._log(f"still serving the agents that were there: {exc}")
                return
            self._complaint = ""
            self._say_absent(there)
            names = {*there} - self.settings.disabled
            agents = {name: one for name, one in self._agents.items() if name in names}
            for name in sorted(names - agents.keys()):
                try:
                    agents[name] = self._open(name)
                except CardsignError as exc:
                    if self._broken.get(name) != str(exc):
                        self._log(f"agent {name} is not served: {exc}")
                        self._broken[name] = str(exc)
            look_at_all(agents.values())
            self._agents = dict(sorted(agents.items()))
            self._claim()
        finally:
            self._looking.release()

    def _say_absent(self, there: Iterable[str]) -> None:
        """Name the agents that only the settings know: a misspelt one is on its routes still."""
        root = {self.settings.root} if self.settings.root else set()
        absent = (self.settings.disabled | root).difference(there)
        for name in sorted(absent - self._absent):
            self._log(f"the settings name agent {name}, which is not here")
        self._absent = absent

    def _claim(self) -> None:
        """Take up which paths the cards name; two agents at one place are a line, once."""
        views = [one.views for one in self._agents.values()]
        if views == self._views:
            return
        claims: dict[str, dict[str, set[str]]] = {}
        for name, one in self._agents.items():
            paths = one.views.paths
            for path, hosts in (*paths.extended.items(), *paths.rpc.items()):
                if hosts:  # else every agent has it
                    claims.setdefault(path, {}).setdefault(name, set()).update(hosts)
        contested = {
            f"agents {' and '.join(names)} both name {host}{path}; neither is served there"
            for path, by in claims.items()
            if len(by) > 1
            for host in sorted(set().union(*by.values()))
            if len(names := [name for name in by if host in by[name]]) > 1
        }
        for line in sorted(contested - self._contested):
            self._log(line)
        self._views, self._claims, self._contested = views, claims, contested

    # ------------------------------------------------------------------ what the host itself says

    def _probe(self, environ: WSGIEnvironment) -> Answer:
        """The process answers; it is ready if there is an agent."""
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return error_answer(405, "Method Not Allowed", allow({"GET", "HEAD"}))
        if agent := self._agents.get(""):
            agent.look()
        status = "ok"
        if environ["PATH_INFO"] == READY_PATH:
            status = "ready" if self._agents else "no agent"
        count = {"generation": self.number} if self.number else {"agents": len(self._agents)}
        body = json.dumps({"status": status, **count}, separators=(",", ":")).encode()
        return json_answer(body, 503 if status == "no agent" else 200, UNCACHED, NO_SNIFF)

    def _catalogue(self, environ: WSGIEnvironment) -> Answer:
        """The cards of all agents, as signed: ``{"agents": [...], "total": N}``."""
        asked = parse_qs(environ.get("QUERY_STRING", ""))
        limit, offset = asked.get("limit", [str(MAX_PAGE)])[0], asked.get("offset", ["0"])[0]
        is_page = _NUMBER.fullmatch(limit) and _NUMBER.fullmatch(offset) and int(limit) > 0
        if not is_page or asked.keys() - {"limit", "offset"}:
            what = f"limit is 1 to {MAX_PAGE}, offset 0 or more, and nothing else is asked"
            return error_answer(400, what)
        look_at_all(self._agents.values())
        agents = tuple(self._agents.values())
        page = agents[int(offset) : int(offset) + min(int(limit), MAX_PAGE)]
        return public_answer(_page_of(page, len(agents)), environ, self._now())


def _page_of(agents: tuple[LiveApplication, ...], total: int) -> Representation:
    """One page of the catalogue, which lives as long as each card on it."""
    shown = [one.generation for one in agents]
    body = b'{"agents":[%b],"total":%d}' % (b",".join(one.card for one in shown), total)
    changes = [change.timestamp() for one in shown if (change := one.changes_at)]
    age = min((one.max_age for one in shown), default=0)
    file = PublicFile(body, "application/json", age, min(changes, default=None))
    newest = max((one.published_at for one in shown), default=None)
    return Representation.of_public(file, newest)


def _agents_in(directory: Path) -> list[str]:
    try:
        return [
            one.name
            for one in directory.iterdir()
            if AGENT_NAME.fullmatch(one.name) and (one / CURRENT_FILE).exists()
        ]
    except OSError as exc:
        raise ServeFault(
            "serve.no_generation",
            f"the directory cannot be read: {exc.strerror}",
            path=str(directory),
        ) from exc


def _template(agent_path: str) -> re.Pattern[str]:
    """What the path of an agent looks like, and what follows it."""
    before, found, after = agent_path.partition("{name}")
    if not found or not before.startswith("/") or "{name}" in after:
        raise UsageFault(
            "config.malformed",
            f"agent_path = {agent_path!r}: expected a path with one {{name}}",
            hint='agent_path = "/agents/{name}"',
        )
    script = f"{re.escape(before)}(?P<name>{AGENT_NAME.pattern}){re.escape(after.rstrip('/'))}"
    return re.compile(f"(?P<script>{script})(?P<path>/.*)", re.DOTALL)
