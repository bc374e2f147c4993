"""Base64url: one text for one value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.jose.base64url import Base64urlError, decode, encode, encoded_length

# RFC 4648 section 10, and the two characters in which base64url differs from base64.
EXAMPLES = {
    "": b"",
    "Zg": b"f",
    "Zm8": b"fo",
    "Zm9v": b"foo",
    "Zm9vYmFy": b"foobar",
    "-_8": b"\xfb\xff",
}
REFUSED = {
    "padding": "Zg==",
    "the other alphabet, plus": "+_8",
    "the other alphabet, slash": "-/8",
    "a line feed at the end": "Zm9v\n",
    "a blank inside": "Zm 9",
    "a character beyond ASCII": "Zm9é",
    "a fullwidth digit": "Zm９v",
    "the length of no bytes": "Zm9vY",
    "four stray bits": "Zh",
    "two stray bits": "Zm9",
    "all stray bits": "Z_",
}


@pytest.mark.parametrize(("text", "data"), EXAMPLES.items())
def test_example(text: str, data: bytes) -> None:
    """Text and bytes belong together in both directions."""
    assert decode(text) == data
    assert encode(data) == text


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: str) -> None:
    """A second spelling of some bytes, or of none, is refused."""
    with pytest.raises(Base64urlError):
        decode(text)


@given(st.text(alphabet=st.sampled_from("AQgwxZ09-_=+/ \n"), max_size=12))
def test_what_is_read_is_written_back(text: str) -> None:
    """Whatever is accepted is exactly what would be written for its bytes."""
    try:
        data = decode(text)
    except Base64urlError:
        return
    assert encode(data) == text


@given(st.binary(max_size=64))
def test_round_trip(data: bytes) -> None:
    """Any bytes come back."""
    assert decode(encode(data)) == data
    assert len(encode(data)) == encoded_length(len(data))
