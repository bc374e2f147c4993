"""What commands read and write: files, standard input and standard output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.cli.dry_run import to_change
from cardsign.cli.printer import is_json
from cardsign.errors import UsageFault
from cardsign.files import read_bytes, write_atomic

STDIO: Final = "-"


def read_input(name: str, *, max_bytes: int = MAX_CARD_BYTES) -> bytes:
    """A file's bytes, or standard input's for ``-``; one byte over the limit is read at most."""
    if name == STDIO:
        return sys.stdin.buffer.read(max_bytes + 1)
    return read_bytes(Path(name), max_bytes=max_bytes)


def write_output(name: str, data: bytes, *, plain: bool = False) -> None:
    """Write a file whole or not at all; ``-`` is standard output.

    With `plain` no link is followed: of names that the user did not type, a cloned folder may
    have made links.
    """
    if name == STDIO:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_atomic(to_change(Path(name)), data, plain=plain)


def refuse_two_documents(output: str | None) -> None:
    """Standard output takes one document."""
    if output == STDIO and is_json():
        why = "the file and --json would both be written to standard output"
        raise UsageFault("usage.conflict", why, hint="Add -o FILE.")
