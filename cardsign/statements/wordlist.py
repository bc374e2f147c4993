"""A keyset's digest as words, for two people who compare it by telephone.

The words are those of BIP-39's English list, which was made to be heard and typed: 2,048 words, no
two with the same first four letters. Eight of them say the first 88 bits of the digest, 11 bits
each. To make another keyset with the same words an attacker has to try 2^88 of them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from cardsign.errors import UsageFault, closest

#: Words of a digest; 88 bits.
WORDS: Final = 8
_BITS: Final = 11  # of a word


def digest_words(digest: str) -> str:
    """The first 88 bits of a SHA-256 digest as eight words.

    Args:
        digest: In hex.
    """
    number = int(digest, 16) >> (4 * len(digest) - WORDS * _BITS)
    places = (number >> (_BITS * at) & (1 << _BITS) - 1 for at in reversed(range(WORDS)))
    return " ".join(_wordlist()[place] for place in places)


def read_words(text: str) -> str:
    """Eight words as a person typed them, in the form of :func:`digest_words`.

    Capitals, hyphens and white space between the words do not matter.

    Raises:
        UsageFault: ``usage.invalid``: they are not eight, or one is not on the list.
    """
    words = re.split(r"[\s-]+", text.strip().lower())
    known = _wordlist()
    for word in words:
        if word not in known:
            raise UsageFault(
                "usage.invalid",
                f"{word!r} is no word of a keyset digest{closest(word, known)}",
                hint=f"Give the {WORDS} words that `cardsign keyset show` prints.",
            )
    if len(words) != WORDS:
        raise UsageFault(
            "usage.invalid",
            f"a keyset digest has {WORDS} words, and {len(words)} are given",
            hint="Ask the issuer for all words that `cardsign keyset show` prints.",
        )
    return " ".join(words)


@cache
def _wordlist() -> list[str]:
    from mnemonic import Mnemonic  # loaded for people only: no verdict needs it

    return list(Mnemonic("english").wordlist)
