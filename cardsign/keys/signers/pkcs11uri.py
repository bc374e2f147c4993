"""``pkcs11:`` URIs (RFC 7512): which key of which token, and by which library."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

from cardsign.keys.signers.access import refuse_uri
from cardsign.keys.signers.uri import attributes, check_characters

_PREFIX: Final = "pkcs11:"
_TOKEN: Final = ("token", "manufacturer", "model", "serial")
_PATH: Final = (*_TOKEN, "object", "id", "type")
_QUERY: Final = ("module-path", "pin-source")
_SECRET: Final = re.compile(r"[?&]pin-value=")


@dataclass(frozen=True, slots=True)
class Pkcs11Uri:
    """One private key of one token.

    Attributes:
        text: The URI.
        token: Label, manufacturer, model and serial number of the token, as far as given.
        label: CKA_LABEL of the key.
        id: CKA_ID of the key.
        module: The library to load, by the URI's word.
        pin_source: The file that holds the PIN, by the URI's word.
    """

    text: str
    token: Mapping[str, str]
    label: str | None
    id: bytes | None
    module: Path | None
    pin_source: Path | None

    @property
    def place(self) -> str:
        """The URI without what belongs to one machine."""
        return self.text.partition("?")[0]


def parse_pkcs11(text: str) -> Pkcs11Uri:
    """Take a URI apart; every attribute counts, and an unknown one is refused (RFC 7512 2.3).

    Raises:
        SignerFault: ``signer.uri``. A URI that holds a PIN is refused without being repeated.
    """
    if _SECRET.search(text):
        refuse_uri(_PREFIX + "...", "a PIN has no place in a URI, where others can read it")
    check_characters(text)
    path, mark, query = text.removeprefix(_PREFIX).partition("?")
    ids = [pair for pair in path.split(";") if pair.startswith("id=")]
    named = _named(text, [pair for pair in path.split(";") if pair not in ids], _PATH)
    local = _named(text, query.split("&") if mark else [], _QUERY)
    if len(ids) > 1:
        refuse_uri(text, "the attribute 'id' is there twice")
    if named.get("type", "private") != "private":
        refuse_uri(text, "expected type=private, or no type")
    token = {name: value for name, value in named.items() if name in _TOKEN}
    if not token or not ("object" in named or ids):
        refuse_uri(text, "expected a token or its serial, and the object or id of a key")
    pin_source = local.get("pin-source")
    return Pkcs11Uri(
        text,
        token,
        named.get("object"),
        unquote_to_bytes(ids[0].removeprefix("id=")) if ids else None,
        _absolute(text, local.get("module-path")),
        _absolute(text, pin_source.removeprefix("file:") if pin_source is not None else None),
    )


def _named(text: str, pairs: list[str], known: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in attributes(text, pairs):
        if name not in known:
            refuse_uri(text, f"unknown attribute {name!r}; known are {', '.join(known)}")
        if name in found:
            refuse_uri(text, f"the attribute {name!r} is there twice")
        found[name] = value
    return found


def _absolute(text: str, path: str | None) -> Path | None:
    if path is None:
        return None
    if not Path(path).is_absolute():
        refuse_uri(text, "expected an absolute path in module-path and pin-source")
    return Path(path)
