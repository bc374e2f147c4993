"""Signatures that were found good before: the same octets by the same key stay good.

A verifier holds the same release statement for a day and establishes from it, for every card, who
may speak. Whether the statement still counts is asked each time; whether its signature fits is
asked once in a process. Only the digest of what was good is kept: what was bad is checked again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from threading import Lock
from typing import Final

from cardsign.jose.keys import PublicKey

#: Digests; some 400 KiB, and two for each of a thousand issuers with room for their co-signers.
CAPACITY: Final = 4096


class GoodSignatures:
    """A bounded memory of good signatures, for any number of threads."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._lock = Lock()

    def check(self, key: PublicKey, signing_input: bytes, signature: bytes) -> None:
        """As :meth:`PublicKey.check`, at most once for what is good.

        Raises:
            SignatureRefused: ``sig.bad``.
        """
        who = f"{key.alg} {key.thumbprint} {len(signature)}\n".encode("ascii")
        matter = hashlib.sha256(who + signature + signing_input).digest()
        with self._lock:
            if matter in self._good:
                self._good.move_to_end(matter)
                return
        key.check(signing_input, signature)
        with self._lock:
            self._good[matter] = None
            if len(self._good) > self._capacity:
                self._good.popitem(last=False)
