"""A keyset's digest as words: what two people compare by telephone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import UsageFault
from cardsign.statements import digest_words, read_words

ZEROS, ONES = "0" * 64, "f" * 64


def test_words_that_anybody_can_look_up() -> None:
    """11 bits a word, from the left: the first and the last word of BIP-39's English list."""
    assert digest_words(ZEROS) == " ".join(["abandon"] * 8)
    assert digest_words(ONES) == " ".join(["zoo"] * 8)
    assert digest_words("00000001" + "0" * 56).split()[:3] == ["abandon", "abandon", "able"]


@given(st.binary(min_size=32, max_size=32), st.integers(0, 87))
def test_each_of_the_first_88_bits_counts(digest: bytes, bit: int) -> None:
    """Another keyset has other words, whichever bit differs."""
    other = (int.from_bytes(digest) ^ 1 << (255 - bit)).to_bytes(32)
    assert digest_words(digest.hex()) != digest_words(other.hex())


@given(st.binary(min_size=32, max_size=32))
def test_words_may_be_typed_as_they_are_heard(digest: bytes) -> None:
    """Capitals, hyphens and white space change nothing."""
    words = digest_words(digest.hex())
    assert read_words(words) == words
    assert read_words(f"  {words.upper().replace(' ', '-')}\n") == words


BAD = {
    "none": ("", "no word"),
    "seven": ("abandon " * 7, "8 words, and 7 are given"),
    "nine": ("abandon " * 9, "8 words, and 9 are given"),
    "a word that is not on the list": ("abandon " * 7 + "zzz", "'zzz' is no word"),
    "a word misheard": ("abandon " * 7 + "abandn", "'abandn' is no word"),
}


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD)
def test_what_are_no_words_of_a_digest(text: str, said: str) -> None:
    """A slip of the tongue is no difference of keysets, and is said to be one."""
    with pytest.raises(UsageFault) as refused:
        read_words(text)
    assert refused.value.code == "usage.invalid"
    assert said in refused.value.message
