"""Serving a publication directory: the newest generation, exchanged whole as it is published."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from flask import Flask

from cardsign import html
from cardsign.errors import CardsignError
from cardsign.explain.page import Published, card_page
from cardsign.files import FileStamp, file_stamp
from cardsign.publish.generation import (
    CURRENT_FILE,
    MAX_STATEMENT_AGE,
    Generation,
    PublicFile,
    load_current,
)
from cardsign.server.answers import Answer
from cardsign.server.app import ExtendedCards, Views, public_answer, routes_of
from cardsign.server.documents import Paths, Representation, decoded
from cardsign.server.events import published_event, to_log, to_stderr
from cardsign.server.providers import WAITS, Provider
from cardsign.server.remote import make_providers
from cardsign.server.settings import DEFAULT_SETTINGS, ServerSettings
from cardsign.times import utc

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

#: Seconds between two tries at a publication that is broken.
BROKEN_SECONDS: Final = 1.0
#: Seconds for which what is served is not looked at again, and for which a server that meets
#: something newer answers nobody: by then no server of the disk answers the old one.
LOOK_SECONDS: Final = 0.025
PAGE_PATH: Final = "/"
PlaceKind: TypeAlias = Literal["public", "extended", "rpc"]
#: Of the page for people. Only who asks for HTML gets it, so caches keep it apart.
PAGE_HEADERS: Final = (
    ("Content-Security-Policy", f"{html.POLICY}; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Vary", "Accept"),
)


def place_of(paths: Paths, script: str, path: str) -> tuple[PlaceKind | None, str]:
    """What answers at a path, and the path as a generation knows it, public ones decoded.

    The interfaces of a card say whole paths, from the root of the host. The well-known paths
    are looked for below the place where an application is mounted.

    Args:
        paths: What the generation answers.
        script: Where the application is mounted, as WSGI writes it (``SCRIPT_NAME``).
        path: What follows (``PATH_INFO``).
    """
    if (name := decoded(path)) in paths.public:
        return "public", name
    for one in (script + path, path):
        name = decoded(one)
        if name in paths.extended:
            return "extended", one
        if name in paths.rpc:
            return "rpc", one
    return None, path


def look_at_all(agents: Iterable[LiveApplication]) -> None:
    """Let each look; for what is new they wait together."""
    looking = tuple(agents)
    for one in looking:
        one.notice()
    for one in looking:
        one.look()


class LiveApplication:
    """The WSGI application of a publication directory.

    Each generation is an application of its own. Whatever is wrong with a newer one, the last
    good one stays. A lower one is never taken, since a server that goes back revives withdrawn
    cards and keys. Public documents and extended cards are answered before Flask is entered.

    Args:
        directory: The publication directory.
        settings: To whom it is served, and how.
        clock: Seconds, monotonic; when to try a broken publication again.
        now: Unix seconds, as for :func:`cardsign.server.app.create_app`.
        log: Takes a line for the operator: each generation that is taken up, and what of the
            cards and tokens does not fit together in it. That stops nothing.
        events: Takes the event of each generation that is taken up, the first too, as
            :func:`cardsign.server.events.published_event` writes it.
        providers: Those of the settings, where several agents share them.

    Attributes:
        generation: What is served.
        views: What answers for it.

    Raises:
        ServeFault, FileFault: As :func:`cardsign.publish.generation.load_current`.
        JsonRefused: The published card is not strict JSON.
    """

    generation: Generation
    views: Views

    def __init__(
        self,
        directory: Path,
        settings: ServerSettings = DEFAULT_SETTINGS,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        log: Callable[[str], None] = to_stderr,
        events: Callable[[str], None] = to_log,
        providers: tuple[Provider, ...] | None = None,
    ) -> None:
        self._is_alone = providers is None
        if providers is None:
            providers = make_providers(settings.providers, settings.tokens, now, log)
        self._providers = providers
        self._directory = directory
        self._current = str(directory / CURRENT_FILE)
        self._settings = settings
        self._clock = clock
        self._now = now
        self._log = log
        self._events = events
        self._app: Flask | None = None
        self._complaint = ""
        self._page: tuple[Generation, float, Representation] | None = None
        self._looking = threading.Lock()
        self._look_again = self._met_at = -math.inf
        self._stamp: FileStamp | None = None
        self._met: FileStamp | None = None
        while (generation := self._load(stamp := self.notice())) is None:
            pass
        self._serve(generation)
        self._stamp = self._seen = stamp
        self._looked_at = clock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request by the newest generation."""
        self.look()
        answer = self._answer(environ)
        if answer is not None:
            return answer(environ, start_response)
        views, path = self.views, environ["PATH_INFO"]
        _, found = place_of(views.paths, environ.get("SCRIPT_NAME", ""), path)
        if found != path:
            environ = {**environ, "SCRIPT_NAME": "", "PATH_INFO": found}
        return self._routes(views).wsgi_app(environ, start_response)

    def at_once(self, environ: WSGIEnvironment) -> Answer | None:
        """The answer to a GET where neither Flask nor another host is needed for it; else None."""
        self.look()
        before = WAITS.set(False)
        try:
            return self._answer(environ)
        finally:
            WAITS.reset(before)

    def _answer(self, environ: WSGIEnvironment) -> Answer | None:
        """The answer about a public document, or to a GET of an extended card; else None."""
        views = self.views
        kind, found = place_of(views.paths, environ.get("SCRIPT_NAME", ""), environ["PATH_INFO"])
        if kind == "public":
            return public_answer(views.paths.public[found], environ, self._now())
        if kind != "extended" or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return None
        try:
            return views.extended_card(environ)
        except Exception:  # noqa: BLE001  the boundary: Flask meets it again, logs it, says 500
            return None  # or who asked may not wait

    @property
    def app(self) -> Flask:
        """The routes of the generation that is served."""
        return self._routes(self.views)

    def _routes(self, views: Views) -> Flask:
        """Flask's, made when the first request needs them: of 1,000 agents few ever do."""
        app = self._app
        if app is None or app.extensions["cardsign.views"] is not views:
            app = self._app = routes_of(views)
        return app

    def may_wait(self, environ: WSGIEnvironment) -> bool:
        """Whether the answer to a request may wait for another host: about an extended card."""
        if not any(one.asks_peers for one in self._providers):
            return False
        script, path = environ.get("SCRIPT_NAME", ""), environ["PATH_INFO"]
        return place_of(self.views.paths, script, path)[0] in ("extended", "rpc")

    @property
    def problem_count(self) -> int:
        """How many things the log says are wrong with it now."""
        return bool(self._complaint) + len(self._problems(self.views))

    def page(self) -> Representation:
        """The card as a page for people, made for each generation, and when its verdict ends."""
        held, generation, now = self._page, self.generation, self._now()
        if held is None or held[0] is not generation or now >= held[1]:
            beside = tuple(generation.keysets.values()), generation.release, generation.jwks
            time = utc(now)
            text, until = card_page(generation.card, Published(*beside), now=time)
            ends = until.timestamp() if until and until > time else math.inf
            age = min(generation.max_age, MAX_STATEMENT_AGE, max(0, int(min(ends - now, 1e6))))
            file = PublicFile(text.encode(), "text/html; charset=utf-8", age, headers=PAGE_HEADERS)
            self._page = held = generation, ends, Representation.of_public(file, None)
        return held[2]

    def look(self) -> None:
        """Take up a newer generation, if there is one, :data:`LOOK_SECONDS` after it was met.

        A server that answered the old one after another had answered the new one would look to a
        verifier like one that withholds a statement. No time of the disk's decides that, since its
        clock may be another one.
        """
        began = self._clock()
        if began < self._look_again:
            return
        stamp = self.notice()
        # No thread answers the old one while another reads the new one.
        if self._is_due(stamp) and self._looking.acquire(blocking=stamp != self._seen):
            try:
                while self._is_due(stamp := self.notice()):
                    self._wait()
                    self._look(stamp)
            finally:
                self._looking.release()
        self._wait()  # others may still answer what was before the one that this server began with
        self._look_again = began + LOOK_SECONDS

    def notice(self) -> FileStamp | None:
        """What `current` says. :func:`look_at_all` lets each agent notice first, and waits once."""
        if self._clock() < self._look_again:
            return self._stamp
        stamp = file_stamp(self._current)
        if stamp != self._met:
            self._met_at = self._clock()  # first, for threads that find the stamp
            self._met = stamp
        return stamp

    def _wait(self) -> None:
        """Until no server of the disk answers what was before the one that was met last."""
        if (left := self._met_at + LOOK_SECONDS - self._clock()) > 0:
            time.sleep(left)

    def _is_due(self, stamp: FileStamp | None) -> bool:
        """Whether `current` is another, or it is time to try a broken one again."""
        if stamp is not None and stamp == self._stamp:
            return False
        return stamp != self._seen or self._clock() - self._looked_at >= BROKEN_SECONDS

    def _look(self, stamp: FileStamp | None) -> None:
        try:
            if generation := self._load(stamp):
                held = self.generation
                if generation.number > held.number:
                    self._serve(generation, f"serving generation {generation.number}")
                elif generation.number < held.number:
                    self._complain(f"generation {generation.number} is lower and is refused")
                elif generation.files != held.files:
                    self._complain(f"there is another generation {held.number} now")
                else:
                    self._complaint = ""  # it is what is served again
                self._stamp = stamp
        except CardsignError as exc:
            self._complain(str(exc))
        finally:
            self._seen, self._looked_at = stamp, self._clock()

    def _load(self, stamp: FileStamp | None) -> Generation | None:
        """What `current` says; None where it says another by now."""
        generation = load_current(self._directory)
        return generation if file_stamp(self._current) == stamp else None

    def _serve(self, generation: Generation, line: str = "") -> None:
        # Whatever can fail comes before the exchange: a generation is taken up whole or not at all.
        cards = ExtendedCards(generation, self._providers, self._now)
        views = Views(Paths.of(generation, self._settings), cards, self._now)
        event = published_event(generation, self._now())
        self.views, self.generation, self._complaint = views, generation, ""
        self._events(event)
        for one in [*([line] if line else []), *self._problems(views)]:
            self._log(one)

    def _problems(self, views: Views) -> list[str]:
        # Of several agents, another may have the audience that a provider opens.
        return [f"warning: {one}" for one in views.cards.problems(are_all=self._is_alone)]

    def _complain(self, problem: str) -> None:
        if problem != self._complaint:
            self._complaint = problem
            self._log(f"still serving generation {self.generation.number}: {problem}")
