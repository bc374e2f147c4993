"""Real checks of real signatures, each made once: the same question has the same answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from cardsign.errors import SignatureRefused
from cardsign.jose.keys import PublicKey
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release

_REAL_CHECK = PublicKey.check


class Checks:
    """What has been asked: (what is signed, key, signature), and whether it was good."""

    def __init__(self) -> None:
        self.distinct = 0
        self.asked = 0
        self._known: dict[tuple[Any, ...], SignatureRefused | None] = {}

    def forget(self) -> None:
        """Drop the answers, not the figures: another world has other keys."""
        self._known.clear()

    def _once(self, asked: tuple[Any, ...], check: Callable[[], None]) -> None:
        self.asked += 1
        if asked not in self._known:
            self.distinct += 1
            self._known[asked] = None
            try:
                check()
            except SignatureRefused as refusal:
                self._known[asked] = refusal
        refusal = self._known[asked]
        if refusal is not None:
            raise SignatureRefused(refusal.code, refusal.message)

    @contextmanager
    def everywhere(self) -> Iterator[Checks]:
        """Let all of cardsign ask here, as long as the context lasts.

        Issuer and verifiers read the same statements again and again; the same bytes are read once.
        """
        checks = self

        def check(key: PublicKey, protected: str, payload: bytes, signature: bytes) -> None:
            asked = (payload, key, protected, signature)
            checks._once(asked, lambda: _REAL_CHECK(key, protected, payload, signature))

        with ExitStack() as stack:
            stack.enter_context(patch.object(PublicKey, "check", check))
            for read in (read_keyset, read_release):
                once = functools.lru_cache(maxsize=1024)(read)
                for room in ("cardsign.keys.history", "cardsign.trust.session"):
                    stack.enter_context(patch(f"{room}.{read.__name__}", once))
            yield self
