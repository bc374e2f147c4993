"""The cards of a project: those of files, folders and URLs, linted together.

A folder is a stranger's word as well: no link is followed out of it, nothing in it is run, and
what is asked of git reads its index alone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from cardsign.card.extensions import is_contract
from cardsign.card.security import PROVIDERS, not_advertised, schemes_of
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.card.values import finding_at
from cardsign.errors import BuildRefused, FileFault, UsageFault
from cardsign.files import read_bytes, walk
from cardsign.findings import Finding
from cardsign.lint.cards import CardReport, lint_card, lint_references, with_findings
from cardsign.lint.rules import LintSettings
from cardsign.programs import ProgramError, inherited, run

if TYPE_CHECKING:  # what most cards do not need
    from cardsign.build.reading import SourceValue

_NAMED: Final = re.compile(r"agent\.json|.*agent[-_]?card.*\.json|.*\.card\.json", re.IGNORECASE)
# What a JSON file of another name must hold to be taken for a card.
_LIKE_A_CARD: Final = re.compile(rb'"(?:skills|supportedInterfaces|capabilities)"\s*:')
_WELL_KNOWN: Final = ".well-known"
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "venv", "dist", "target"})
_MAX_CODE_BYTES: Final = 1024 * 1024  # of an agent.py that is looked into
_MAX_INDEX_BYTES: Final = 16 * 1024 * 1024  # of the names that git tracks
#: Where an application says its version.
_VERSIONS: Final = {"pyproject.toml": ("project", "version"), "package.json": ("version",)}

#: Seconds; git reads its index.
_GIT_SECONDS: Final = 10.0
#: A repository is a stranger's word: git asks no remote, runs no helper and writes nothing.
_NO_NETWORK: Final = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_Index: TypeAlias = Callable[[Path], frozenset[str] | None]


def lint_sources(
    sources: Sequence[str], settings: LintSettings, read: Callable[[str], bytes]
) -> tuple[CardReport, ...]:
    """Lint cards by name, and what they say of one another.

    Args:
        sources: Files, folders or URLs. In a folder a file is a card if its name says so
            (agent.json, agent-card.json, *.card.json), or if it is a JSON file with members of a
            card.
        settings: What the project asks.
        read: Returns the bytes of the card in a file or at a URL.

    Raises:
        LocalFault: A source that was named cannot be read; inside a folder that is a finding.
        FetchFailed: ``fetch.*``.
        UsageFault: ``usage.conflict``: the settings name what there is not. ``usage.invalid``:
            a folder holds no card, so that nothing would be looked at.
    """
    reports: list[CardReport] = []
    tracked = cache(_tracked)
    for source in sources:
        path = Path(source)
        if os.path.isdir(path):
            folder_reports = tuple(_of_folder(path, settings, tracked))
            if not folder_reports:
                hint = "Name a folder that holds cards, or name the cards."
                message = "the folder holds no card"
                raise UsageFault("usage.invalid", message, path=source, hint=hint)
            reports += folder_reports
            continue
        report = lint_card(read(source), settings, name=source)
        beside = _beside(report, path, _agent_of(path), tracked) if os.path.isfile(path) else ()
        reports.append(with_findings(report, beside, settings))
    if len(sources) == 1 and not os.path.isdir(sources[0]):
        return tuple(reports)  # which other cards there are, nobody has said
    return lint_references(reports, settings)


def card_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that are cards by their names, or may be; sorted."""
    for place, folders, names in walk(folder):
        shown = {name for name in folders if name == _WELL_KNOWN or not name.startswith(".")}
        folders[:] = sorted(shown - _SKIPPED)
        for name in sorted(names):
            path = Path(place, name)
            if not name.endswith(".json") or path.is_symlink():
                continue
            if _NAMED.fullmatch(name) or _LIKE_A_CARD.search(_content(path)):
                yield path


def _content(path: Path, max_bytes: int = MAX_CARD_BYTES) -> bytes:
    """Return the content of a file that nobody has named; nothing where it cannot be read."""
    try:
        return read_bytes(path, max_bytes=max_bytes, plain=True)
    except FileFault:
        return b""


def _of_folder(folder: Path, settings: LintSettings, tracked: _Index) -> Iterator[CardReport]:
    files = tuple(card_files(folder))
    for path in files:
        try:
            data = read_bytes(path, max_bytes=MAX_CARD_BYTES, plain=True)
        except FileFault as fault:
            unread = finding_at("json.not-read", (), fault.message)
            yield with_findings(CardReport(str(path), ()), [unread], settings)
            continue
        report = lint_card(data, settings, name=str(path))
        yield with_findings(report, _beside(report, path, folder, tracked), settings)
    # Folders of agents next to those that have a card in .well-known.
    with_cards = {path.parents[1] for path in files if path.parent.name == _WELL_KNOWN}
    for above in sorted({agent.parent for agent in with_cards if agent.parent.name == "agents"}):
        for agent in sorted(above.iterdir()):
            plain = agent.is_dir() and not agent.is_symlink() and agent.name not in _SKIPPED
            if plain and not agent.name.startswith((".", "_")) and agent not in with_cards:
                message = "there is no .well-known/agent-card.json"
                finding = finding_at("contract.no-card", (), message)
                yield with_findings(CardReport(str(agent), ()), [finding], settings)


def _beside(report: CardReport, path: Path, folder: Path, tracked: _Index) -> Iterator[Finding]:
    """Yield what the project says around a card, most of it around a contract card."""
    if report.document is None:
        return
    with suppress(BuildRefused):  # `cardsign build` says what is wrong with forge.yaml
        document = _read_source(_agent_of(path) / "forge.yaml")
        for provider in document.rows("auth", "providers") if document else ():
            kind, name = provider.text("type"), provider.text("name")
            if kind and kind not in PROVIDERS and not {kind, name} & {*schemes_of(report.document)}:
                yield finding_at("meaning.not-advertised", (), not_advertised(kind))
    if not is_contract(report.document):
        return
    names = tracked(folder)
    if names is not None and os.path.relpath(path, folder) not in names:
        yield finding_at("contract.untracked", (), "git does not track this file")
    if path.parent.name == _WELL_KNOWN:
        code = path.parents[1] / "agent.py"
        if code.is_file() and b"AGENTCARD_PATH" not in _content(code, _MAX_CODE_BYTES):
            yield finding_at("contract.path-constant", (), "agent.py does not name AGENTCARD_PATH")
    version = _application_version(path, folder)
    own = report.document.get("version")
    if version is not None and isinstance(own, str) and version != own:
        message = f"the application's is {version[:40]!r}, and the card's is {own[:40]!r}"
        yield finding_at("contract.app-version", ("version",), message)


def _agent_of(card: Path) -> Path:
    """Return the folder of the agent whose card it is."""
    return card.parents[1] if card.parent.name == _WELL_KNOWN else card.parent


def _application_version(path: Path, folder: Path) -> str | None:
    """Return the version of the nearest pyproject.toml or package.json in the folder."""
    for place in path.parents:
        for name, at in _VERSIONS.items():
            document = _read_source(place / name)
            version = document.get(*at).value if document else None
            if isinstance(version, str):
                return version
        if place == folder:
            return None
    return None


def _read_source(path: Path) -> SourceValue | None:
    """Return a file beside a card; None for a link, and for what `build` would refuse."""
    if path.is_symlink() or not path.is_file():
        return None
    from cardsign.build.reading import read_one

    with suppress(BuildRefused, FileFault):
        return read_one(path)
    return None


def _tracked(folder: Path) -> frozenset[str] | None:
    """Return the files that git tracks below a folder; None without a repository or git."""
    if (git := shutil.which("git")) is None:
        return None
    # The settings of a repository may name a program for git to run.
    where = (git, "-C", os.path.abspath(folder), "-c", "core.fsmonitor=false")
    command = (*where, "ls-files", "-z", "--cached")
    environment = inherited(os.environ) | _NO_NETWORK
    try:
        names = run(command, environment, max_seconds=_GIT_SECONDS, max_answer=_MAX_INDEX_BYTES)
    except ProgramError:
        return None
    return frozenset(names.decode(errors="surrogateescape").split("\0"))
