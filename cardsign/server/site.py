"""What is served now: an immutable site, exchanged whole when a publication changes."""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import parse_object
from cardsign.errors import CardsignError, ServeFault
from cardsign.files import FileStamp, file_stamp
from cardsign.publish.generation import CURRENT_FILE, Generation, find_current, load_current
from cardsign.server.documents import Document, Paths, bare_host, find_paths, public_documents
from cardsign.server.events import log_publication
from cardsign.server.extended import ExtendedCards
from cardsign.server.page import Page
from cardsign.server.places import Places
from cardsign.server.providers import make_providers
from cardsign.server.settings import ServerSettings

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.2  # between two looks at the one stamp
LOOK_AT_ALL_SECONDS: Final = 60.0  # between two looks at every agent
BROKEN_SECONDS: Final = 5.0  # the same while anything is broken, which may be mended
#: Seconds after which a generation is served; by then every process has looked.
EXCHANGE_SECONDS: Final = 1.0
#: Stands among the agents for their folder, where that cannot be read.
_FOLDER: Final = "/"
#: An agent's name is a folder and one segment of a path.
AGENT_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Agent:
    """One agent's generation, ready to be served.

    Attributes:
        name: Of its folder; empty for the only publication.
        generation: What was published.
        documents: The public documents by path.
        extended: The extended cards.
        extended_paths: Where GET asks for one.
        rpc_paths: Where POST takes JSON-RPC.
        page: The card as a page for people.
    """

    name: str
    generation: Generation
    documents: Mapping[str, Document]
    extended: ExtendedCards
    extended_paths: Paths
    rpc_paths: Paths
    page: Page

    @cached_property
    def hosts(self) -> frozenset[str]:
        """The hosts that its card names."""
        return frozenset[str]().union(*self.extended_paths.values(), *self.rpc_paths.values())


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
    def _claims(self) -> dict[str, dict[str, set[str]]]:
        """By path: the agents whose cards name it, and with which hosts."""
        claims: dict[str, dict[str, set[str]]] = {}
        for name, agent in self.agents.items():
            for path, hosts in (*agent.extended_paths.items(), *agent.rpc_paths.items()):
                if hosts or agent is self.root:
                    claims.setdefault(path, {}).setdefault(name, set()).update(hosts)
        return claims

    def find_interface(self, path: str, authority: str) -> Agent | None:
        """Return the agent whose card names a path.

        Where several do, the host decides. What the root's card names is the root's, but on a
        host that only another card names. Nobody is served where two name the same host.
        """
        claims = self._claims.get(path, {})
        if len(claims) > 1:
            host = bare_host(authority)
            named = {name: hosts for name, hosts in claims.items() if host in hosts}
            root = self.root
            if root and root.name in claims and (host in root.hosts or not named):
                return root
            claims = named
        return self.agents[next(iter(claims))] if len(claims) == 1 else None

    def find_conflicts(self) -> Iterator[str]:
        """Yield a line for each place that two cards name, so that neither is served there."""
        for path, claims in self._claims.items():
            for host in sorted(set[str]().union(*claims.values())) if len(claims) > 1 else ():
                names = [name for name, hosts in claims.items() if host in hosts]
                if len(names) > 1:
                    both = " and ".join(names)
                    yield f"agents {both} both name {host}{path}; neither is served there"


class Publications:
    """The publications of a host, which a thread follows.

    A newer generation is taken up whole. Whatever is wrong with it, the last good one stays; a
    lower number is never taken, since it would revive withdrawn cards and keys.

    All processes of a machine exchange a generation at one moment, which the time of its `current`
    decides, so that no client sees the old one after the new one. If another is published before
    that moment, they all wait for the moment of that one.

    Args:
        location: A publication directory, or a folder of them, each named after its agent.
        settings: To whom they are served, and how.
        now: Unix seconds.

    Attributes:
        bodies: Places for requests whose bodies are read.

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
    ) -> None:
        self.location, self.settings, self.now = location, settings, now
        self.bodies, hosts = Places(settings.threads), Places(settings.threads)
        self._providers = make_providers(settings, hosts, now)
        self._site = Site()
        #: By name: what is served from a moment on, in Unix seconds; None for nothing.
        self._due: dict[str, tuple[Agent | None, float]] = {}
        self._stamps: dict[str, FileStamp | None] = {}
        self._complaints: dict[str, str] = {}
        self._absent: frozenset[str] = frozenset()
        self._looked_at_all = time.monotonic()
        self._exchanging = threading.Lock()
        self._started, self._stopped = threading.Lock(), threading.Event()
        self.is_single = (location / CURRENT_FILE).exists() or not any(_list_agents(location))
        self._stamp_path = location / CURRENT_FILE if self.is_single else location
        self._stamp = file_stamp(self._stamp_path)
        if self.is_single:
            find_current(location)  # a misspelt directory is heard of, also if nothing is served
            if settings.enabled:  # what is wrong is raised, where nothing good is there to keep
                self._load("", None)
        self.look_at_all()

    @property
    def site(self) -> Site:
        """What is served now; at the moment of a newer generation whoever asks exchanges it."""
        if self._due:
            self._exchange(time.time())
        return self._site

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits for its moment."""
        return not self._due

    def start_watching(self) -> None:
        """Start the thread that follows the publications, once in each process."""
        if self._started.acquire(blocking=False):
            threading.Thread(target=self._watch, name="cardsign-watch", daemon=True).start()

    def stop_watching(self) -> None:
        """End the thread."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception:  # nothing may end the only thread that follows the publications
                log.exception("the publications could not be looked at")

    def look(self) -> None:
        """Take up what is new: look at one stamp, and now and then at every agent."""
        self._exchange(time.time())  # what is due before anything newer takes its place
        now, stamp = time.monotonic(), file_stamp(self._stamp_path)
        seconds = BROKEN_SECONDS if self._complaints else LOOK_AT_ALL_SECONDS
        if stamp != self._stamp or now - self._looked_at_all >= seconds:
            self._stamp, self._looked_at_all = stamp, now
            self._find_newest()
        self._exchange(time.time())

    def look_at_all(self) -> None:
        """Take up what is new at once, whatever other processes do."""
        self._find_newest()
        self._exchange(math.inf)

    def _find_newest(self) -> None:
        """Find the newest good state of every agent that there is."""
        try:
            names = [""] if self.is_single else sorted(_list_agents(self.location))
        except ServeFault as exc:  # nobody said that the agents are gone
            self._complain(_FOLDER, f"still serving the agents that were there: {exc}")
            return
        self._complaints.pop(_FOLDER, None)
        # A misspelt agent is on its routes still.
        absent = self.settings.disabled.union(filter(None, [self.settings.root])).difference(names)
        for name in sorted(absent - self._absent):
            log.warning("the settings name agent %s, which is not here", name)
        self._absent = absent
        served = set(names) - self.settings.disabled if self.settings.enabled else set[str]()
        for name in self._stamps.keys() - served:
            self._stamps.pop(name)
            self._complaints.pop(name, None)
            self._set_due(name, None, 0.0)
        for name in sorted(served):
            stamp = file_stamp(self.location / name / CURRENT_FILE)
            is_known = name in self._stamps and stamp == self._stamps[name]
            if is_known and name not in self._complaints:
                continue
            self._stamps[name], agent = stamp, self._site.agents.get(name)
            try:
                newer = self._load(name, agent)
                self._complaints.pop(name, None)
                self._set_due(name, newer, _exchange_moment(stamp))
            except (CardsignError, _Unservable) as exc:
                state = f"agent {name} is not served"
                if agent is not None:
                    state = f"{_prefix(name)}still serving generation {agent.generation.number}"
                self._set_due(name, agent, 0.0)
                self._complain(name, f"{state}: {exc}")

    def _set_due(self, name: str, agent: Agent | None, moment: float) -> None:
        with self._exchanging:
            self._due[name] = agent, moment

    def _exchange(self, now: float) -> None:
        """Serve what is due at a time, in Unix seconds, and say what is new."""
        with self._exchanging:
            due = {
                name: agent
                for name, (agent, moment) in self._due.items()
                if moment <= now and (now == math.inf or self._is_newest(name, moment))
            }
            if not due:
                return
            self._due = {name: change for name, change in self._due.items() if name not in due}
            candidates = {**self._site.agents, **due}
            agents = {
                name: agent for name, agent in sorted(candidates.items()) if agent is not None
            }
            root = agents.get("") or agents.get(self.settings.root or "")
            if len(agents) == 1 and self.settings.root is None:
                (root,) = agents.values()
            replaced, self._site = self._site, Site(agents, root)
            self._report(replaced)

    def _is_newest(self, name: str, moment: float) -> bool:
        """Return whether nothing else of an agent was published by some moment."""
        stamp = file_stamp(self.location / name / CURRENT_FILE)
        return stamp in (None, self._stamps.get(name)) or stamp[1] / 1e9 > moment

    def _report(self, before: Site) -> None:
        """Log what is served from now on, and what of it does not fit together."""
        for name, agent in self._site.agents.items():
            if agent is before.agents.get(name):
                continue
            card = parse_object(agent.generation.card)
            log_publication(agent.generation, card, name, self.now())
            if name in before.agents:
                log.info("%sserving generation %d", _prefix(name), agent.generation.number)
            for problem in agent.extended.find_problems(is_alone=self.is_single):
                log.warning("%s%s", _prefix(name), problem)
        for conflict in sorted({*self._site.find_conflicts()} - {*before.find_conflicts()}):
            log.warning("%s", conflict)

    def find_problems(self) -> dict[str, list[str]]:
        """Return what is wrong with each agent, a line each."""
        problems = {
            name: [*agent.extended.find_problems(is_alone=self.is_single)]
            for name, agent in self.site.agents.items()
        }
        for name, complaint in self._complaints.items():
            problems.setdefault(name, []).append(complaint)
        return problems

    def _load(self, name: str, agent: Agent | None) -> Agent:
        """Return an agent's newest generation; what is served, where it is still the newest."""
        generation = load_current(self.location / name)
        if agent is not None:
            number = agent.generation.number
            if generation.number < number:
                raise _Unservable(f"generation {generation.number} is lower and is refused")
            if generation.number == number:
                if generation.files != agent.generation.files:
                    raise _Unservable(f"there is another generation {number} now")
                return agent
        card = parse_object(generation.card)
        older = [parse_object(generation.legacy_card)] if generation.legacy_card else []
        extended = ExtendedCards(generation, card, self._providers, self.now)
        documents = public_documents(generation, self.settings)
        paths = find_paths(card, *older)
        return Agent(name, generation, documents, extended, *paths, Page(generation))

    def _complain(self, subject: str, message: str) -> None:
        """Log what is wrong, once."""
        if self._complaints.get(subject) != message:
            self._complaints[subject] = message
            log.error("%s", message)


class _Unservable(Exception):
    """A generation that is sound, and may not follow the one that is served."""


def _exchange_moment(stamp: FileStamp | None) -> float:
    """Return when what has a stamp is served, in Unix seconds; at once if the disk's clock errs."""
    moment = stamp[1] / 1e9 + EXCHANGE_SECONDS if stamp else 0.0
    return moment if moment <= time.time() + EXCHANGE_SECONDS else 0.0


def _prefix(name: str) -> str:
    return f"agent {name}: " if name else ""


def _list_agents(location: Path) -> Iterator[str]:
    """Yield the names of the agents in a folder of publications.

    Raises:
        ServeFault: ``serve.no_generation``: it cannot be read.
    """
    try:
        for folder in location.iterdir():
            if AGENT_NAME.fullmatch(folder.name) and (folder / CURRENT_FILE).exists():
                yield folder.name
    except OSError as exc:
        message = f"the directory cannot be read: {exc.strerror}"
        raise ServeFault("serve.no_generation", message, path=str(location)) from exc
