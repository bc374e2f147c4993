"""The one boundary at which what SQLAlchemy and the driver raise becomes ours.

Their exceptions are not kept as causes: a traceback would print statements and connection
parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from cardsign.errors import StoreFault
from cardsign.keys.postgres.address import DatabaseUrl
from cardsign.keys.postgres.schema import GENERATION, KEYSET, RELEASE

#: SQLSTATEs, or their classes; whatever else there is keeps the database from being used.
_CODES: Final = {
    "22": "keystore.corrupt",  # data exception
    "23": "keystore.corrupt",  # an invariant would be broken
    "40": "keystore.changed",  # serialization failure, deadlock
    "42": "keystore.corrupt",  # other columns than ours
    "P0": "keystore.corrupt",  # refused by a trigger of ours
    "3F000": "keystore.missing",  # no such schema
    "42501": "keystore.unreachable",  # no privilege
    "42P01": "keystore.missing",  # no such table
    "55P03": "keystore.busy",  # lock timeout
    "57014": "keystore.busy",  # statement timeout
}
#: Tables of numbers that only one of two processes gets.
_NUMBERED: Final = frozenset({GENERATION.name, KEYSET.name, RELEASE.name})


@contextmanager
def converted(url: DatabaseUrl) -> Iterator[None]:
    """Convert what goes wrong with the database at `url`.

    Raises:
        StoreFault: ``keystore.unreachable``, ``keystore.missing``, ``keystore.corrupt``,
            ``keystore.changed`` or ``keystore.busy``.
    """
    try:
        yield
    except SQLAlchemyError as exc:
        raise _fault(exc, url) from None


def _fault(exc: SQLAlchemyError, url: DatabaseUrl) -> StoreFault:
    driver: Any = getattr(exc, "orig", None)
    state: str = getattr(driver, "sqlstate", None) or ""
    code = _CODES.get(state) or _CODES.get(state[:2], "keystore.unreachable")
    if state[:2] == "23" and driver.diag.table_name in _NUMBERED:
        code = "keystore.changed"  # another process has committed this number
    if code == "keystore.missing":
        return StoreFault(code, "there is no key store here", path=url.shown)
    words = str(driver or type(exc).__name__).strip().partition("\n")[0]
    return StoreFault(code, f"the database says: {url.without_password(words)}", path=url.shown)
