"""Cards by name: a file, a URL, or a file in a git revision. Nothing of a card is verified."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import FileMissing, LocalFault
from cardsign.files import read_bytes
from cardsign.net.fetcher import DocumentFetcher
from cardsign.programs import Program, ProgramError, inherited, run
from cardsign.urls import is_url

#: Seconds; git reads one object, or its index.
_GIT_SECONDS: Final = 10.0
#: A repository is a stranger's word: git asks no remote, runs no helper and writes nothing.
_NO_NETWORK: Final = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}


def load_card(source: str, fetcher: DocumentFetcher) -> bytes:
    """The bytes of the card that a person names; nothing about them is checked.

    Args:
        source: A URL, or the path of a file, or REVISION:PATH in the git repository of the
            working directory. Where a file has that very name, the file is read.
        fetcher: Asks for a URL; it also says whether this machine may be asked.

    Raises:
        LocalFault: ``file.*``; ``file.not_found`` where git knows no such revision or path.
        FetchFailed: ``fetch.*``.
    """
    if is_url(source):
        answer = fetcher.fetch_card(source)
        if answer.failure is not None:
            raise answer.failure
        return answer.untrusted_body
    revision, colon, path = source.partition(":")
    if not colon or Path(source).exists():
        return read_bytes(Path(source), max_bytes=MAX_CARD_BYTES)
    return _from_git(revision, path)


def ask_git(folder: Path, *question: str, max_answer: int) -> Program | None:
    """What asks git about a folder that may be a stranger's; None where git is not installed.

    Even reading the index may need objects that a partial clone lacks. Its settings say how git
    would fetch them, by a program if they like.
    """
    git = shutil.which("git")
    arguments = ("-C", os.path.abspath(folder), "-c", "core.fsmonitor=false", *question)
    environment = inherited(os.environ) | _NO_NETWORK
    return Program(git, arguments, environment, _GIT_SECONDS, max_answer) if git else None


def _from_git(revision: str, path: str) -> bytes:
    name = f"{revision}:{path if path.startswith('/') else './' + path}"
    question = ("cat-file", "blob", "--", name)
    program = ask_git(Path(), *question, max_answer=MAX_CARD_BYTES + 1)
    if program is None:
        raise LocalFault("file.not_found", "git is not installed", path=f"{revision}:{path}")
    try:
        return run(program)
    except ProgramError as failure:
        said = failure.complaint.removeprefix("fatal: ") or f"git {failure.what}"
        tree = shlex.quote(revision or "HEAD")
        raise FileMissing(
            "file.not_found",
            said,
            path=f"{revision}:{path}",
            hint=f"`git log --oneline` lists the revisions of a repository, and `git ls-tree "
            f"--name-only {tree}` the files of one.",
        ) from failure
