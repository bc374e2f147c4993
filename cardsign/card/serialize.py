"""From what a profile leaves of a card to the bytes that are signed.

This is the only module that uses rfc8785.
"""

from __future__ import annotations

import rfc8785

from cardsign.card.values import Json
from cardsign.errors import CanonicalizationError


def jcs(value: Json) -> bytes:
    """Return the RFC 8785 bytes of a JSON value.

    Raises:
        CanonicalizationError: A number or string has no canonical form (not finite, beyond
            +-(2^53-1), a lone surrogate), or the value is nested too deeply.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError) as exc:
        # rfc8785 0.1.4 lets UnicodeError and RecursionError through.
        raise CanonicalizationError(
            "canonical.no_form", f"the value has no RFC 8785 form: {exc}"
        ) from exc
