"""What a kind of source is, what a build is told, and how a folder is searched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, TypeVar

from cardsign.build.draft import Draft
from cardsign.build.reading import Document, Location, Place, refusal
from cardsign.card.convert import CardForm
from cardsign.config import BuildSettings, OrlojSettings
from cardsign.errors import BuildRefused, FetchFailed, FileFault
from cardsign.files import leads_outside
from cardsign.records import dataclass

#: Files of one source; a card of more skills would be refused for its size.
MAX_FILES: Final = 20_000

_Source = TypeVar("_Source")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What the person who builds says; it wins over every source.

    Attributes:
        a2a: The form of the card; ``both`` gives 1.0 and 0.3. None: as the first source has it.
        base_url: Where the server is reached; the kind of the first source adds its path.
        url: Where the agent is called, with ``{name}`` for the card's name.
        members: Values by member of A2A 1.0, such as ``provider.url`` or ``skills.ID.name``.
        agent: Which of several agents in the sources; None where there is one.
        keep_going: Leave out what is refused, and build the rest.
        prompt_excerpt: Take a missing description from the first sentence of a prompt.
        orloj: What Orloj takes from its server.
        live: What asks MCP servers, after all sources; see :mod:`cardsign.build.live`.
    """

    a2a: CardForm | str | None = None
    base_url: str | None = None
    url: str | None = None
    members: Mapping[str, str] = field(default_factory=dict, hash=False)
    agent: str | None = None
    keep_going: bool = False
    prompt_excerpt: bool = False
    orloj: OrlojSettings = OrlojSettings()
    live: tuple[Callable[[], Document], ...] = ()

    @classmethod
    def of(cls, settings: BuildSettings) -> BuildOptions:
        """What the project says."""
        return cls(settings.a2a, settings.base_url, settings.url, orloj=settings.orloj)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of source: how it is recognised, and how its facts are taken.

    Attributes:
        name: As in ``KIND:PATH``.
        summary: What it is, for the help text.
        take: Takes the facts of all sources of the kind, in the order given.
        is_file: Whether a document that was read is of this kind.
        folder: A file that a folder of the kind has; ``*`` may stand for a name.
        a2a: The form that its cards have unless another is asked for.
        modes: What input and output modes default to.
        path: What follows the base URL; ``{name}`` is the card's name.
    """

    name: str
    summary: str
    take: Callable[[Sequence[Path], Draft, BuildOptions], None]
    is_file: Callable[[Document], bool]
    folder: tuple[str, ...] = ()
    a2a: CardForm = "1.0"
    modes: tuple[str, ...] = ("text/plain",)
    path: str | Callable[[Draft], str] = ""


def each(sources: Sequence[_Source], draft: Draft, take: Callable[[_Source], None]) -> None:
    """Take source by source; one that is refused is raised or left out, as the draft says."""
    for source in sources:
        try:
            take(source)
        except (BuildRefused, FileFault, FetchFailed) as refused:
            draft.leave_out(refused)


def found_in(folder: Path, patterns: Sequence[str], draft: Draft) -> Iterator[Path]:
    """The files of a folder that fit a pattern, each once, sorted by path.

    A link that leads out of the folder is refused: the folder may be a stranger's.

    Raises:
        BuildRefused: ``build.limit``; ``build.unsupported`` for such a link.
    """
    found: set[Path] = set()
    for pattern in patterns:
        for path in folder.glob(pattern):
            found.add(path)
            if len(found) > MAX_FILES:
                message = f"more than {MAX_FILES} files"
                raise refusal("build.limit", message, Place(str(folder)))
    for path in sorted(found):
        if leads_outside(folder, path):
            message = "it is a link that leads out of its folder"
            hint = "Put the file itself there, or leave it out with --keep-going."
            draft.leave_out(refusal("build.unsupported", message, Place(str(path)), hint=hint))
        elif os.path.isfile(path):
            yield path


def first_in(folder: Path, names: Sequence[str], draft: Draft) -> Path | None:
    """The first of these files that a folder has; links as in :func:`found_in`."""
    found = (one for name in names for one in found_in(folder, (name,), draft))
    return next(found, None)


def take_prompt(document: Document, at: Location, draft: Draft, options: BuildOptions) -> None:
    """Take a missing description from a prompt, if that was asked for."""
    prompt = excerpt(document.text(*at)) if options.prompt_excerpt else None
    place = document.place(*at)
    if prompt and draft.take(("description",), prompt, place):
        draft.warn("build.prompt", f"taken from the prompt: {prompt!r}", place)


def excerpt(prompt: str | None) -> str | None:
    """The first sentence of a prompt, in one line of at most 200 characters."""
    words = " ".join((prompt or "").split())
    sentence, stop, _ = words.partition(". ")
    text = sentence + stop.strip()
    return (text if len(text) <= 200 else f"{text[:197]}...") or None
