"""The cards that somebody names: files, folders, URLs, objects of stores, git revisions.

Object stores are read by fsspec (extra ``cluster``): ``s3://bucket/cards/``. What it raises
depends on the store, so it is turned into a fault of the file here.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import FileFault, FileMissing, LocalFault, UsageFault, install_hint
from cardsign.files import MAX_INPUT_BYTES, file_fault, leads_outside, read_bytes, walk
from cardsign.urls import JWKS_PATH, STATEMENTS_PATH, is_url

if TYPE_CHECKING:  # what a verdict on a file does not need
    from cardsign.programs import Program

#: Of the names that fsspec knows, those of stores that hold nothing of this machine.
STORES: Final = ("abfs", "abfss", "az", "gcs", "gs", "s3")
#: A host, as the first part of a URL that lacks its scheme.
_HOST: Final = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,63}(?::[0-9]+)?(?:/|$)")


@dataclass(frozen=True, slots=True)
class Inputs:
    """Cards, each under the name by which its verdict is shown.

    Attributes:
        names: Files, URLs and objects; a folder stands here no more, but what it holds.
        folders: The folder of each name that only a folder brought.
        passed: How many of what a folder holds were passed over: links to folders, and what an
            exported site has in addition to its cards.
        contents: What was read already, by name: ``-`` is standard input.
    """

    names: tuple[str, ...] = ()
    folders: dict[str, str] = field(default_factory=dict)
    passed: Counter[str] = field(default_factory=Counter)
    contents: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Iterable[str]) -> Inputs:
        """Put the ``*.json`` of a folder and below, or of a store, in its place.

        Raises:
            UsageFault: ``usage.invalid``: a folder or store holds none; ``usage.not_installed``.
            FileFault: ``file.unreadable``.
        """
        named = list(names)
        expanded: list[str] = []
        inputs = cls()
        for name in named:
            if is_object(name):
                expanded += list_objects(name)
            elif is_url(name) or not os.path.isdir(name):
                expanded.append(name)
            else:
                cards = sorted(_cards_below(str(Path(name)), inputs.passed))
                if not cards:
                    hint = "Name a folder that holds cards, or name the cards."
                    why = "the folder holds no *.json"
                    raise UsageFault("usage.invalid", why, path=name, hint=hint)
                expanded += cards
                inputs.folders.update(dict.fromkeys(set(cards).difference(named), name))
        return replace(inputs, names=tuple(expanded))

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a card on this machine; None for a URL or an object of a store.

        Raises:
            LocalFault: The file cannot be read, or leads out of its folder.
        """
        if name in self.contents:
            return self.contents[name]
        if is_url(name) or is_object(name):
            return None
        folder = self.folders.get(name)
        # A stranger's folder may link to the user's own files, and messages would show a piece.
        if folder is not None and os.path.islink(name) and leads_outside(Path(folder), Path(name)):
            raise FileFault("file.not_plain", "this link leads out of the folder", path=name)
        try:
            return read_bytes(name, max_bytes=MAX_INPUT_BYTES, is_found=folder is not None)
        except FileMissing as missing:
            if _HOST.match(name) and not name.endswith(".json"):
                fix = f"For a card on the web give its URL: cardsign verify https://{name}"
                missing.finding = replace(missing.finding, fix=fix)
            raise


def _cards_below(folder: str, passed: Counter[str]) -> Iterator[str]:
    """Yield the ``*.json`` of a folder; what is passed over is counted."""

    def unreadable(exc: OSError) -> None:
        raise file_fault(exc, exc.filename, "file.unreadable") from exc

    for place, below, files in walk(folder, onerror=unreadable):
        links = sum(os.path.islink(os.path.join(place, entry)) for entry in below)
        passed["linked folder"] += links
        for path in (os.path.join(place, entry) for entry in files):
            # Not all that an issuer publishes is a card.
            url_path = path.replace(os.sep, "/")
            if STATEMENTS_PATH in url_path:
                passed["statement"] += url_path.endswith(".json")
            elif url_path.endswith(JWKS_PATH):
                passed["key set"] += 1
            elif url_path.lower().endswith(".json"):
                yield path


# Objects of stores.


def is_object(name: str) -> bool:
    """Return whether a name means an object or folder of a store, such as ``s3://bucket/a.json``.

    A chain of stores is none: what it reads, nobody can see from the name.
    """
    scheme, separator, path = name.partition("://")
    return bool(separator) and scheme in STORES and "::" not in path


def list_objects(name: str) -> list[str]:
    """Return the objects that a name means: one, the ``*.json`` below a ``/``, or a pattern.

    Raises:
        UsageFault: ``usage.not_installed``; ``usage.invalid``: there are none.
        FileFault: ``file.unreadable``.
    """
    if not name.endswith("/") and "*" not in name:
        return [name]
    with _opened(name) as (store, path):
        objects = store.glob(f"{path.rstrip('/')}/**/*.json" if name.endswith("/") else path)
        names = sorted(store.unstrip_protocol(object_path) for object_path in objects)
    if not names:
        raise UsageFault("usage.invalid", "no object has such a name", path=name)
    return names


def read_object(name: str, *, max_bytes: int) -> bytes:
    """Return the bytes of an object, at most one over the limit.

    Raises:
        UsageFault: ``usage.not_installed``.
        FileFault: ``file.not_found``, ``file.unreadable``.
    """
    with _opened(name) as (store, path), store.open(path, "rb") as stream:
        data: bytes = stream.read(max_bytes + 1)
        return data


@contextmanager
def _opened(name: str) -> Iterator[tuple[Any, str]]:
    """Yield the store that holds a name, and the path in it."""
    try:
        import fsspec

        yield fsspec.url_to_fs(name)
    except ImportError as exc:
        why = f"the library for this store cannot be loaded: {exc}"
        hint = f"{install_hint('cluster')}; s3:// needs s3fs, gs:// gcsfs, az:// adlfs"
        raise UsageFault("usage.not_installed", why, path=name, hint=hint) from exc
    except FileNotFoundError as exc:
        raise FileMissing("file.not_found", "the store has no such object", path=name) from exc
    except Exception as exc:  # what a store's own library raises
        raise FileFault("file.unreadable", f"the store says: {exc}"[:200], path=name) from exc


# One card: a file, a URL, or a file in a git revision.

#: Seconds; git reads one object, or its index.
_GIT_SECONDS: Final = 10.0
#: A repository is a stranger's word: git asks no remote, runs no helper and writes nothing.
_NO_NETWORK: Final = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}


def load_card(source: str, *, insecure: bool = False) -> bytes:
    """Return the bytes of the card that a person names; nothing about them is checked.

    Args:
        source: A URL, or the path of a file, or REVISION:PATH in the git repository of the
            working directory. Where a file has that very name, the file is read.
        insecure: Whether this machine may be asked without TLS.

    Raises:
        LocalFault: ``file.*``; ``file.not_found`` where git knows no such revision or path.
        FetchFailed: ``fetch.*``.
    """
    if is_url(source):
        from cardsign.net.fetch import FetchSettings, fetch_card

        settings = FetchSettings(insecure_loopback_http=insecure)
        return fetch_card(source, settings).untrusted_body
    revision, colon, path = source.partition(":")
    if not colon or os.path.exists(source):
        return read_bytes(Path(source), max_bytes=MAX_CARD_BYTES, is_cut=True)
    return _from_git(revision, path)


def ask_git(folder: Path, *question: str, max_answer: int) -> Program | None:
    """Return what asks git about a folder that may be a stranger's; None without git.

    Even reading the index may need objects that a partial clone lacks. Its settings say how git
    would fetch them, by a program if they like.
    """
    import shutil  # most cards are no git's

    from cardsign.programs import Program, inherited

    git = shutil.which("git")
    arguments = ("-C", os.path.abspath(folder), "-c", "core.fsmonitor=false", *question)
    environment = inherited(os.environ) | _NO_NETWORK
    return Program(git, arguments, environment, _GIT_SECONDS, max_answer) if git else None


def _from_git(revision: str, path: str) -> bytes:
    from cardsign.programs import ProgramError, run

    name = f"{revision}:{path if path.startswith('/') else './' + path}"
    question = ("cat-file", "blob", "--", name)
    program = ask_git(Path(), *question, max_answer=MAX_CARD_BYTES + 1)
    if program is None:
        raise LocalFault("file.not_found", "git is not installed", path=f"{revision}:{path}")
    try:
        return run(program)
    except ProgramError as failure:
        complaint = failure.complaint.removeprefix("fatal: ") or f"git {failure.what}"
        raise FileMissing("file.not_found", complaint, path=f"{revision}:{path}") from failure
