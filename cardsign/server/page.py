"""The card as a page for people, for who asks the server for HTML."""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Final

from cardsign import html
from cardsign.inspect.page import card_page
from cardsign.jose.jwks import JwkSet
from cardsign.publish.generation import MAX_STATEMENT_AGE, Generation, PublicFile
from cardsign.server.documents import Document, public_document
from cardsign.statements.envelope import StatementRefused
from cardsign.times import utc

log = logging.getLogger(__name__)

#: Only who asks for HTML gets the page, so caches keep it apart from what else is at its path.
HEADERS: Final = (
    ("Content-Security-Policy", f"{html.POLICY}; frame-ancestors 'none'"),
    ("Referrer-Policy", "no-referrer"),
    ("Vary", "Accept"),
)


class Page:
    """The page of one generation, made when it is asked for, and again when its verdict ends."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._made: tuple[Document, float] | None = None

    def find_document(self, now: float) -> Document:
        """Return the page at a Unix time."""
        if self._made is None or now >= self._made[1]:
            self._made = _make_page(self._generation, now)
        return self._made[0]


def _make_page(generation: Generation, now: float) -> tuple[Document, float]:
    """Return the page, and when its verdict ends."""
    keysets, jwks = generation.keysets, JwkSet.from_bytes(generation.jwks)
    newest = max(keysets, key=lambda label: [*map(int, label.split("."))], default="")
    make = partial(card_page, generation.card, jwks=jwks, now=utc(now))
    try:
        text, until = make(keyset=keysets.get(newest), release=generation.release)
    except StatementRefused as refusal:
        log.error("the page leaves the statements out: %s", refusal)
        text, until = make()
    ends = until.timestamp() if until and until > utc(now) else math.inf
    age = min(generation.max_age, MAX_STATEMENT_AGE, max(0, int(min(ends - now, 1e6))))
    file = PublicFile(text.encode(), "text/html; charset=utf-8", age, HEADERS)
    return public_document(file, None), ends
