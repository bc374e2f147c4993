"""The URL of a key store in PostgreSQL, taken apart strictly so that its password is never shown.

::

    postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=verify-full

A character that means something in a URL has to be percent-encoded: what one reader takes for
the end of a password, another would print as the name of a host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from cardsign.errors import StoreFault

FORM: Final = "postgresql://USER@HOST:PORT/DATABASE"

#: Of the parameters of libpq that say where and how to connect, none of which is a secret, what a
#: committed file may say: nothing that names a file of this machine, and nothing that lowers what
#: its user has set. None: any value; an empty text: nothing.
PARAMETERS: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(("application_name", "connect_timeout", "options"), None),
    **dict.fromkeys(("host", "passfile", "sslcert", "sslcrl", "sslkey", "sslrootcert"), ""),
    "channel_binding": "require",
    "sslmode": "verify-full",
    "target_session_attrs": None,
}
USUAL_PORT: Final = 5432
CONNECT_PATIENCE: Final = 10  # seconds to connect, unless the URL says otherwise

_LOGIN: Final = ("username", "password")
_URL: Final = re.compile(
    r"postgresql://"
    r"(?:(?P<username>[^:@/?#]*)(?::(?P<password>[^:@/?#]*))?@)?"
    r"(?P<host>[A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"/(?P<database>[^:@/?#]+)(?:\?(?P<query>[^@?#]*))?"
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """Where a database is, and how to get in.

    Attributes:
        shown: The place, for people; neither user nor password.
        username: None for the one that the operating system suggests.
        password: None where a password file, the environment or a certificate stands for it.
        host: A name or address; None for the local socket.
        query: Parameters of libpq, each of :data:`PARAMETERS`.
    """

    shown: str
    username: str | None = field(repr=False)
    password: str | None = field(repr=False)
    host: str | None
    port: int | None
    database: str
    query: Mapping[str, str] = field(hash=False)

    def __str__(self) -> str:
        return self.shown

    @property
    def server(self) -> str:
        """Whom a password would be sent to, ``HOST:PORT``; ``:PORT`` for the local socket."""
        host = (self.host or "").lower()
        return f"{f'[{host}]' if ':' in host else host}:{self.port or USUAL_PORT}"

    @property
    def uncommitted(self) -> tuple[str, ...]:
        """The parameters that a committed file may not say, or not so, sorted."""
        return tuple(
            name
            for name, value in sorted(self.query.items())
            if PARAMETERS[name] not in (None, value or "-")
        )

    def to_file(self) -> str:
        """Return the URL without its password and what a committed file may not say."""
        user = "" if self.username is None else f"{quote(self.username, safe='')}@"
        kept = {name: self.query[name] for name in self.query if name not in self.uncommitted}
        query = f"?{urlencode(kept, quote_via=quote)}" if kept else ""
        return self.shown.replace("://", f"://{user}", 1) + query

    def without_password(self, text: str) -> str:
        """Return what another program wrote about the connection, the password taken out."""
        return text.replace(self.password, "***") if self.password else text


def is_database_url(text: str) -> bool:
    """Say whether a place is meant as a URL rather than as a directory."""
    return "://" in text


def parse_database_url(text: str) -> DatabaseUrl:
    """Take the URL of a key store apart.

    Raises:
        StoreFault: ``keystore.url``; the text is not repeated, since a password may stand in it.
    """
    match = _URL.fullmatch(text)
    if match is None:
        raise StoreFault("keystore.url", f"the URL of the key store is not of the form {FORM}")
    query = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    if not query.keys() <= PARAMETERS.keys():
        names = ", ".join(sorted(PARAMETERS))
        raise StoreFault("keystore.url", f"a parameter of the URL is none of {names}")
    port = f":{match['port']}" if match["port"] else ""
    username, password = (unquote(match[part]) if match[part] else None for part in _LOGIN)
    return DatabaseUrl(
        shown=f"postgresql://{match['host']}{port}/{match['database']}",
        username=username,
        password=password,
        host=match["host"].strip("[]") or None,
        port=int(match["port"]) if match["port"] else None,
        database=unquote(match["database"]),
        query=query,
    )
