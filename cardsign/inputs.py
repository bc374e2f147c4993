"""The cards that somebody names: files, folders, URLs, standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import FileFault, UsageFault
from cardsign.files import file_fault, leads_outside, read_bytes, walk
from cardsign.urls import JWKS_PATH, STATEMENTS_PATH, is_url


def read_card(name: str, folder: str = "") -> bytes | None:
    """Return the bytes of a card on this machine; None for a URL.

    Args:
        name: A file, a URL, or ``-`` for standard input.
        folder: The folder that was named in its place; empty where the card itself was.

    Raises:
        FileFault: The file cannot be read, or leads out of its folder.
    """
    if name == "-":
        return sys.stdin.buffer.read(MAX_CARD_BYTES + 1)
    if is_url(name):
        return None
    # A stranger's folder may link to the user's own files, and messages would show a piece.
    if folder and os.path.islink(name) and leads_outside(folder, name):
        raise FileFault("file.not_plain", "this link leads out of the folder", path=name)
    return read_bytes(name, max_bytes=MAX_CARD_BYTES, is_found=bool(folder), is_cut=True)


def list_cards(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the cards that are named; of a folder, the ``*.json`` in it and below.

    Each is a name and a folder, as :func:`read_card` takes them.

    Statements and key sets of an exported site are left out, and links to folders.

    Raises:
        UsageFault: ``usage.invalid``: a folder holds no card.
        FileFault: ``file.unreadable``.
    """
    cards: list[tuple[str, str]] = []
    for name in names:
        if is_url(name) or not os.path.isdir(name):
            cards.append((name, ""))
            continue
        below = sorted(_cards_below(str(Path(name))))
        if not below:
            hint = "Name a folder that holds cards, or name the cards."
            raise UsageFault("usage.invalid", "the folder holds no *.json", path=name, hint=hint)
        cards += ((path, name) for path in below)
    return cards


def _cards_below(folder: str) -> Iterator[str]:
    def unreadable(exc: OSError) -> None:
        raise file_fault(exc, exc.filename, "file.unreadable") from exc

    for place, _, files in walk(folder, onerror=unreadable):
        for path in (os.path.join(place, entry) for entry in files):
            url_path = path.replace(os.sep, "/")
            is_statement = STATEMENTS_PATH in url_path or url_path.endswith(JWKS_PATH)
            if url_path.lower().endswith(".json") and not is_statement:
                yield path


def load_card(source: str, *, insecure: bool = False) -> bytes:
    """Return the bytes of the card in a file or at a URL; nothing about them is checked.

    Args:
        source: The file or URL.
        insecure: Whether this machine may be asked without TLS.

    Raises:
        FileFault: ``file.*``.
        FetchFailed: ``fetch.*``.
    """
    if is_url(source):
        from cardsign.net.fetch import FetchSettings, fetch_card

        settings = FetchSettings(insecure_loopback_http=insecure)
        return fetch_card(source, settings).untrusted_body
    return read_bytes(Path(source), max_bytes=MAX_CARD_BYTES, is_cut=True)
