"""The URIs of signers, read strictly: one spelling, nothing that is silently passed over."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NoReturn
from urllib.parse import unquote_to_bytes

from cardsign.errors import SignerFault
from cardsign.records import dataclass

MAX_URI_CHARS: Final = 2048
_URI: Final = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*):(?://(?P<authority>[^/?]*))?(?P<path>[^?]*)(?:\?(?P<query>.*))?"
)
_PLAIN: Final = re.compile(r"(?:[!\"$&-~]|%[0-9A-Fa-f]{2})*")  # no space, no '#', no lone '%'


@dataclass(frozen=True, slots=True)
class SignerUri:
    """The parts of a URI, percent-decoded but for the authority.

    Attributes:
        text: As it was given.
        authority: What stands between ``//`` and the path; empty where there is none.
        path: With its leading slash.
        query: Names and values in their order; a name may come several times.
    """

    text: str
    authority: str
    path: str
    query: tuple[tuple[str, str], ...]

    def only(self, *names: str) -> None:
        """Refuse a query that holds anything but `names`.

        Raises:
            SignerFault: ``signer.uri``.
        """
        for name, _ in self.query:
            if name not in names:
                known = f"known are {', '.join(names)}" if names else "there are none"
                refuse_uri(self.text, f"an attribute is unknown; {known}")

    def one(self, name: str) -> str | None:
        """The value of an attribute, or None.

        Raises:
            SignerFault: ``signer.uri``: it is there twice.
        """
        values = self.all(name)
        if len(values) > 1:
            refuse_uri(self.text, f"the attribute {name!r} is there twice")
        return values[0] if values else None

    def all(self, name: str) -> tuple[str, ...]:
        """The values of an attribute that may come several times."""
        return tuple(value for key, value in self.query if key == name)


def parse_uri(text: str) -> SignerUri:
    """Take a URI apart.

    Raises:
        SignerFault: ``signer.uri``.
    """
    check_characters(text)
    match = _URI.fullmatch(text)
    if match is None:
        refuse_uri(text, "expected SCHEME:PATH or SCHEME://AUTHORITY/PATH")
    query = match["query"]
    return SignerUri(
        text,
        match["authority"] or "",
        decode_part(text, match["path"]),
        attributes(text, query.split("&")) if query is not None else (),
    )


def check_characters(text: str) -> None:
    """Refuse what no URI holds: spaces, controls, a fragment, ``%`` without two digits.

    Raises:
        SignerFault: ``signer.uri``.
    """
    if len(text) > MAX_URI_CHARS:
        refuse_uri(text, f"a signer's URI has at most {MAX_URI_CHARS} characters")
    if not _PLAIN.fullmatch(text):
        refuse_uri(text, "expected printable ASCII without spaces, '#' or a lone '%'")


def attributes(text: str, pairs: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Read ``name=value`` pairs.

    Raises:
        SignerFault: ``signer.uri``.
    """
    found = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            refuse_uri(text, "expected attributes of the form NAME=VALUE")
        found.append((name, decode_part(text, value)))
    return tuple(found)


def decode_part(text: str, part: str) -> str:
    """Percent-decode a part of the URI `text`.

    Raises:
        SignerFault: ``signer.uri``: it is not UTF-8, or has control characters.
    """
    try:
        decoded = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        refuse_uri(text, "a part is not UTF-8")
    if not decoded.isprintable():
        refuse_uri(text, "a part has control characters")
    return decoded


# What a message shows of a value that may be the private key itself, given by mistake.


NOT_SHOWN: Final = "not shown: it may be a key"
_MAX_SHOWN: Final = 80  # characters; of keys only Ed25519 in base64 has less, 64
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{1,31}):")
# The last is how DER begins in base64: a sequence.
_NEVER_SHOWN: Final = re.compile(r"\s|\{|-----|:M[A-P][A-Za-z0-9+/=]{38}")


def scheme_of(uri: str) -> str:
    """The scheme with which a value begins; empty where it has none."""
    match = _SCHEME.match(uri)
    return match[1] if match else ""


def is_shown(uri: str) -> bool:
    """Whether a message may repeat what a user gave as the URI of a private key.

    They may have given the key itself, by mistake: ``--key "$(cat key.pem)"``.
    """
    return bool(scheme_of(uri)) and len(uri) < _MAX_SHOWN and not _NEVER_SHOWN.search(uri)


def shown(uri: str) -> str:
    """What a message calls a signer of which nobody has read the URI yet."""
    if is_shown(uri):
        return uri
    scheme = scheme_of(uri)
    return f"{scheme}:... {NOT_SHOWN}" if scheme else f"a value without a scheme ({NOT_SHOWN})"


def refuse_uri(uri: str, what: str) -> NoReturn:
    """Say what is wrong with the URI of a signer, which is repeated only as by :func:`shown`."""
    raise SignerFault("signer.uri", what, path=shown(uri))
