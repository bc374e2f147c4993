"""JSON Pointers (RFC 6901): how errors, coverage and findings name a place in a document."""

from __future__ import annotations

import re

_STRAY_TILDE = re.compile(r"~(?![01])")


def append(base: str, token: str | int) -> str:
    """The pointer to `token`, a member name or array index, inside the value at `base`."""
    return f"{base}/{str(token).replace('~', '~0').replace('/', '~1')}"


def pointer(*tokens: str | int) -> str:
    """The pointer that leads through `tokens` from the root; the root itself is ``""``."""
    base = ""
    for token in tokens:
        base = append(base, token)
    return base


def split(text: str) -> tuple[str, ...]:
    """The unescaped tokens of a pointer; array indices come back as text.

    Raises:
        ValueError: `text` is neither empty nor starts with ``/``, or holds a ``~`` that
            ``0`` or ``1`` does not follow (RFC 6901 section 3).
    """
    if not text:
        return ()
    if not text.startswith("/") or _STRAY_TILDE.search(text):
        raise ValueError("not a JSON Pointer: expected /token/..., with ~ written ~0 and / as ~1")
    # `~1` first: the other order would read `~01`, which means `~1`, as `/`.
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/"))
