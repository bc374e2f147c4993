"""Strict readers of a statement's members: the right type in the one right form, or a refusal.

Times are whole seconds since 1970 UTC, as in JWT (RFC 7519 2, without fractions): an integer has
one spelling in RFC 8785, no zone, and is compared without a parser. Digests are SHA-256 in
lower-case hex, which `sha256sum` prints; thumbprints are base64url, as RFC 7638 writes them.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

from cardsign.card.strictjson import MAX_INTEGER
from cardsign.card.values import Json
from cardsign.errors import CardRefused, KeyRefused
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.keys import PublicKey
from cardsign.statements.envelope import StatementRefused, exact_object
from cardsign.urls import parse_origin, parse_url

#: Seconds; the end of the year 9999, beyond which calendars of common languages end.
MAX_TIME: Final = 253_402_300_799
DAY: Final = 24 * 60 * 60  # seconds

ISSUER: Final = re.compile(r"[\x21-\x7e]{1,256}")
#: Lower case alone: "Ann" and "ann" must not count as two persons.
HOLDER: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
#: 32 bytes of base64url; of the last character two bits must be zero.
THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")


def refused(path: str, expected: str) -> StatementRefused:
    """The refusal of a member."""
    return StatementRefused("statement.members", f"expected {expected}", path=path)


def items(value: Json, path: str) -> list[tuple[Json, str]]:
    """The elements of a list, each with its path."""
    if not isinstance(value, list):
        raise refused(path, "a list")
    return [(item, f"{path}/{index}") for index, item in enumerate(value)]


def text(value: Json, form: re.Pattern[str], path: str, expected: str) -> str:
    """A string of this form."""
    if not isinstance(value, str) or not form.fullmatch(value):
        raise refused(path, expected)
    return value


def origin(value: Json, path: str) -> str:
    """An origin in its one spelling."""
    expected = "an origin such as https://agents.example, in its one spelling"
    return one_spelling(value, lambda text: str(parse_origin(text)), path, expected)


def url(value: Json, path: str, expected: str) -> str:
    """A URL without query and fragment, in its one spelling."""
    return one_spelling(
        value,
        lambda text: str(replace(parse_url(text), query="")),
        path,
        f"{expected}, without query",
    )


def one_spelling(value: Json, spelt: Callable[[str], str], path: str, expected: str) -> str:
    """A text that is as `spelt` makes it; that one raises CardRefused for what it cannot read."""
    if isinstance(value, str):
        with contextlib.suppress(CardRefused):
            if spelt(value) == value:
                return value
    raise refused(path, expected)


def integer(value: Json, path: str, *, most: int = MAX_INTEGER) -> int:
    """A whole number from 1 to `most`; true and 1.0 are none."""
    if type(value) is not int or not 1 <= value <= most:
        raise refused(path, f"a whole number from 1 to {most}")
    return value


def digest(value: Json, path: str) -> str:
    """A SHA-256 digest."""
    return text(value, DIGEST, path, "a SHA-256 digest in lower-case hex")


def issuer(value: Json) -> str:
    """Whose statement it is: a name that is compared and never looked up."""
    return text(value, ISSUER, "/issuer", "1 to 256 visible ASCII characters")


def document(members: Json, form: str, names: tuple[str, ...]) -> Mapping[str, Json]:
    """A whole document of ours: first its format, then that it has exactly these members.

    Raises:
        StatementRefused: ``statement.format``, also for that of a newer cardsign;
            ``statement.members``.
    """
    if not isinstance(members, dict) or members.get("format") != form:
        raise StatementRefused("statement.format", f"expected {form}", path="/format")
    return exact_object(members, names, "")


def span(
    members: Mapping[str, Json], names: tuple[str, str], path: str, *, most: int = MAX_TIME
) -> tuple[int, int]:
    """Two times of which the second is later, by at most so many seconds (K9)."""
    start, end = (integer(members[name], f"{path}/{name}", most=MAX_TIME) for name in names)
    if not 0 < end - start <= most:
        message = f"expected {names[1]} after {names[0]}, by at most {most // DAY} days"
        raise StatementRefused("statement.time_span", message, path=f"{path}/{names[1]}")
    return start, end


def revoked(value: Json) -> frozenset[str]:
    """The thumbprints of revoked keys, in ascending order, so that one set has one spelling."""
    thumbprints = [
        text(item, THUMBPRINT, at, "an RFC 7638 thumbprint")
        for item, at in items(value, "/revoked")
    ]
    if any(first >= right for first, right in itertools.pairwise(thumbprints)):
        raise refused("/revoked", "thumbprints in ascending order, each once")
    return frozenset(thumbprints)


def public_key(
    value: Json, path: str, *, algorithms: Collection[str] = STATEMENT_ALGORITHMS
) -> PublicKey:
    """A public JWK in its one spelling: minimal numbers, kid, use and alg, nothing else (K4).

    What signs statements is for ES256 or RS256.
    """
    if not isinstance(value, dict):
        raise StatementRefused("statement.bad_key", "expected a public JWK", path=path)
    try:
        key = PublicKey.from_jwk(value, algorithms=algorithms)
    except KeyRefused as exc:
        raise StatementRefused(
            "statement.bad_key", f"{exc.message} ({exc.code})", path=path + exc.path
        ) from exc
    if key.jwk() != value:
        raise StatementRefused(
            "statement.bad_key", f"expected exactly the members {', '.join(key.jwk())}", path=path
        )
    return key
