"""What is served now: an immutable site, exchanged whole when a publication changes."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import parse_object
from cardsign.errors import CardsignError, ServeFault
from cardsign.files import FileStamp, file_stamp
from cardsign.publish.generation import CURRENT_FILE, Generation, load_current, read_pointer
from cardsign.server.documents import Document, Paths, bare_host, find_paths, public_documents
from cardsign.server.events import log_publication
from cardsign.server.extended import ExtendedCards
from cardsign.server.page import Page
from cardsign.server.places import Places
from cardsign.server.providers import make_providers
from cardsign.server.settings import ServerSettings

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0  # between two looks at the one stamp
LOOK_AT_ALL_SECONDS: Final = 60.0  # between two looks at every agent
#: Seconds after the stamp's time at which all processes of a machine exchange their sites, so that
#: no client sees the old one after the new one.
EXCHANGE_SECONDS: Final = 1.5
MAX_WAIT_SECONDS: Final = 10.0  # while one publication follows another
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

    Args:
        location: A publication directory, or a folder of them, each named after its agent.
        settings: To whom they are served, and how.
        now: Unix seconds.
        is_quiet: Another process of this server says what is taken up, and what is wrong.

    Attributes:
        site: What is served now.
        places: For requests that may wait.

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
        is_quiet: bool = False,
    ) -> None:
        self.location, self.settings, self.now = location, settings, now
        self.places = Places(settings.threads)
        self.site = Site()
        self._is_quiet = is_quiet
        self._providers = make_providers(settings, self.places, now)
        self._stamps: dict[str, FileStamp | None] = {}
        self._complaints: dict[str, str] = {}
        self._absent: frozenset[str] = frozenset()
        self._started, self._stopped = threading.Lock(), threading.Event()
        self.is_single = (location / CURRENT_FILE).exists() or not any(_list_agents(location))
        self._stamp_path = location / CURRENT_FILE if self.is_single else location
        if self.is_single:
            read_pointer(location)  # a misspelt directory is heard of, also if nothing is served
        self._stamp = file_stamp(self._stamp_path)
        self._looked_at_all = time.monotonic()
        if self.is_single and settings.enabled:
            self._stamps[""] = self._stamp
            self._exchange({"": self._load("", None)})
        self.look_at_all()

    @property
    def complaints(self) -> Mapping[str, str]:
        """What is wrong with which agent."""
        return self._complaints

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
        """Take up what is new: look at one stamp, and once a minute at every agent."""
        began = time.monotonic()
        is_due = began - self._looked_at_all >= LOOK_AT_ALL_SECONDS
        while is_due or file_stamp(self._stamp_path) != self._stamp:
            is_due, self._stamp = False, file_stamp(self._stamp_path)
            agents = self._find_newest()
            self._wait_for_moment()
            # What was published meanwhile moves the moment, but not for ever.
            is_last = time.monotonic() - began >= MAX_WAIT_SECONDS
            if is_last or file_stamp(self._stamp_path) == self._stamp:
                self._exchange(agents)
                return
        if self._complaints:
            self._exchange({**self.site.agents, **self._take_up(self._complaints)})

    def look_at_all(self) -> None:
        """Take up what is new at once, whatever other processes do."""
        self._exchange(self._find_newest())

    def wait_after(self, began: float) -> None:
        """Wait until other processes have exchanged what was published after a Unix time."""
        if self._stamp is not None and self._stamp[1] / 1e9 > began:
            self._wait_for_moment()

    def _wait_for_moment(self) -> None:
        """Wait for the moment at which all processes of this machine exchange their sites."""
        changed_at = self._stamp[1] / 1e9 if self._stamp else 0.0
        seconds = changed_at + EXCHANGE_SECONDS - time.time()
        if 0 < seconds <= EXCHANGE_SECONDS:  # else the disk has another clock
            self._stopped.wait(seconds)

    def _find_newest(self) -> dict[str, Agent]:
        """Return the newest good state of every agent that there is."""
        self._looked_at_all = time.monotonic()
        try:
            names = [""] if self.is_single else sorted(_list_agents(self.location))
        except ServeFault as exc:  # nobody said that the agents are gone
            self._complain(_FOLDER, f"still serving the agents that were there: {exc}")
            return dict(self.site.agents)
        self._complaints.pop(_FOLDER, None)
        self._name_absent(names)
        served = set(names) - self.settings.disabled if self.settings.enabled else set[str]()
        for name in self._stamps.keys() - served:
            self._stamps.pop(name)
            self._complaints.pop(name, None)
        return self._take_up(sorted(served))

    def _take_up(self, names: Iterable[str]) -> dict[str, Agent]:
        """Return the newest good state of these agents; those without one are left out."""
        agents = {}
        for name in [name for name in names if name != _FOLDER]:
            agent = self.site.agents.get(name)
            stamp = file_stamp(self.location / name / CURRENT_FILE)
            if stamp != self._stamps.get(name) or name in self._complaints or agent is None:
                self._stamps[name] = stamp
                try:
                    agent = self._load(name, agent)
                    self._complaints.pop(name, None)
                except (CardsignError, _Unservable) as exc:
                    state = f"agent {name} is not served"
                    if agent is not None:
                        state = f"still serving generation {agent.generation.number}"
                    self._complain(name, f"{_prefix(name) if agent else ''}{state}: {exc}")
            if agent is not None:
                agents[name] = agent
        return agents

    def _exchange(self, agents: dict[str, Agent]) -> None:
        """Serve these agents from now on."""
        if agents == self.site.agents:
            return
        agents = dict(sorted(agents.items()))
        root = agents.get("") or agents.get(self.settings.root or "")
        if len(agents) == 1 and self.settings.root is None:
            (root,) = agents.values()
        before, self.site = self.site, Site(agents, root)
        for name, agent in agents.items():
            if agent is not before.agents.get(name):
                self._report(agent, is_first=name not in before.agents)
        for conflict in sorted({*self.site.find_conflicts()} - {*before.find_conflicts()}):
            self._say(logging.WARNING, conflict)

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

    def find_problems(self, agent: Agent) -> list[str]:
        """Return what is wrong with an agent that is served, a line each."""
        return [*agent.extended.find_problems(is_alone=self.is_single)]

    def _report(self, agent: Agent, *, is_first: bool) -> None:
        """Log that a generation is served from now on, and what of it does not fit together."""
        if self._is_quiet:
            return
        log_publication(
            agent.generation, parse_object(agent.generation.card), agent.name, self.now()
        )
        prefix = _prefix(agent.name)
        if not is_first:
            log.info("%sserving generation %d", prefix, agent.generation.number)
        for problem in self.find_problems(agent):
            log.warning("%s%s", prefix, problem)

    def _name_absent(self, names: Iterable[str]) -> None:
        """Name the agents that only the settings know: a misspelt one is on its routes still."""
        root = {self.settings.root} if self.settings.root else set()
        absent = (self.settings.disabled | root).difference(names)
        for name in sorted(absent - self._absent):
            self._say(logging.WARNING, f"the settings name agent {name}, which is not here")
        self._absent = absent

    def _complain(self, subject: str, message: str) -> None:
        """Log what is wrong, once."""
        if self._complaints.get(subject) != message:
            self._complaints[subject] = message
            self._say(logging.ERROR, message)

    def _say(self, level: int, message: str) -> None:
        if not self._is_quiet:
            log.log(level, "%s", message)


class _Unservable(Exception):
    """A generation that is sound, and may not follow the one that is served."""


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
