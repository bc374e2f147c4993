"""Base64url: one text for one value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.jose.base64url import decode, encode, encoded_length

# RFC 4648 section 10, and the two characters in which base64url differs from base64.
EXAMPLES = {"": b"", "Zg": b"f", "Zm8": b"fo", "Zm9v": b"foo", "-_8": b"\xfb\xff"}
# Padding, the other alphabet, white space, other characters, the length of no bytes, stray bits.
REFUSED = ["Zg==", "+_8", "-/8", "Zm9v\n", "Zm 9", "Zm9é", "Zm９v", "Zm9vY", "Zh", "Zm9", "Z_"]


@pytest.mark.parametrize(("text", "data"), EXAMPLES.items())
def test_example(text: str, data: bytes) -> None:
    """Text and bytes belong together in both directions."""
    assert decode(text) == data
    assert encode(data) == text
    assert encoded_length(len(data)) == len(text)


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    """A second spelling of some bytes, or of none, is refused."""
    with pytest.raises(ValueError):  # noqa: PT011  its message reaches nobody
        decode(text)


@given(st.text(alphabet=st.sampled_from("AQgwxZ09-_=+/ \n"), max_size=12))
def test_what_is_read_is_written_back(text: str) -> None:
    """Whatever is accepted is exactly what would be written for its bytes."""
    try:
        data = decode(text)
    except ValueError:
        return
    assert encode(data) == text
