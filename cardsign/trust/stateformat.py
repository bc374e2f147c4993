"""One issuer's memory as JSON, `cardsign-state/1`; read back as strictly as what strangers send."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import CardRefused
from cardsign.jose import base64url
from cardsign.jose import members as read
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jwks import JwkSet, SkippedKey
from cardsign.jose.keys import PublicKey
from cardsign.jose.keyset import KeysetStatement, read_keyset
from cardsign.jose.release import ReleaseStatement, read_release
from cardsign.trust.known import Known
from cardsign.trust.lock import floor_of, floor_to_json, pin_of, pin_to_json, time_of
from cardsign.trust.origins import parse_url

STATE_FORMAT: Final = "cardsign-state/1"
#: Bytes. Two statements and a key set of 64 KiB each, escaped, and 256 URLs of 2 KiB.
MAX_STATE_BYTES: Final = 1024 * 1024

_MAX_DEPTH: Final = 8
_MEMBERS: Final = (
    *("format", "issuer", "anchor", "keyset", "release", "floor"),
    *("newest_iat", "jwks", "first_contact", "signed_before", "passed", "cards"),
)


def state_bytes(name: str, known: Known) -> bytes:
    """The file that holds what is known of the issuer `name`; the same for the same."""
    contact = known.first_contact
    document = {
        "format": STATE_FORMAT,
        "issuer": name,
        "anchor": known.anchor,
        "keyset": _statement_text(known.keyset),
        "release": _statement_text(known.release),
        "floor": floor_to_json(known.floor),
        "newest_iat": known.newest_iat,
        "jwks": None if known.jwks is None else _jwks_to_json(known.jwks),
        "first_contact": None if contact is None else pin_to_json(contact),
        "signed_before": known.signed_before,
        "passed": [pin_to_json(pin) for pin in known.passed],
        "cards": list(known.cards),
    }
    return json.dumps(document, indent=2, sort_keys=True).encode("ascii") + b"\n"


def read_state(data: bytes, name: str) -> Known:
    """Read what :func:`state_bytes` wrote for `name`. No signature is verified again.

    Raises:
        InputRefused: JsonRefused, StatementRefused or KeyRefused, for the reader of the file to
            place; ``statement.format`` also for that of a newer cardsign.
    """
    document = parse_object(data, max_bytes=MAX_STATE_BYTES, max_depth=_MAX_DEPTH)
    read.a_format(document.get("format"), STATE_FORMAT)
    # Files of before the member `cards` are read on: a memory is never begun anew for a version.
    members = read.exact_object({"cards": [], **document}, _MEMBERS, "")
    if members["issuer"] != name:
        raise read.refused("/issuer", f"the issuer {name!r}")
    signed_before = members["signed_before"]
    if not isinstance(signed_before, bool):
        raise read.refused("/signed_before", "true or false")
    keyset, release = (_bytes(members[one], f"/{one}") for one in ("keyset", "release"))
    jwks, contact = members["jwks"], members["first_contact"]
    return Known(
        read.digest(members["anchor"], "/anchor"),
        None if keyset is None else read_keyset(keyset),
        None if release is None else read_release(release),
        floor_of(members["floor"], "/floor"),
        time_of(members["newest_iat"], "/newest_iat"),
        None if jwks is None else _jwks_of(jwks),
        None if contact is None else pin_of(contact, "/first_contact"),
        signed_before,
        tuple(pin_of(pin, path) for pin, path in read.items(members["passed"], "/passed")),
        tuple(_url(url, path) for url, path in read.items(members["cards"], "/cards")),
    )


def _url(value: Json, path: str) -> str:
    try:
        if isinstance(value, str) and str(parse_url(value)) == value:
            return value
    except CardRefused:
        pass
    raise read.refused(path, "a URL inside the strict grammar")


def _bytes(value: Json, path: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise read.refused(path, "a document as text, or null")
    return value.encode()


def _statement_text(statement: KeysetStatement | ReleaseStatement | None) -> str | None:
    """The statement in its shortest form, so that it is never too long to be read again."""
    if statement is None:
        return None
    envelope = statement.envelope
    document = {
        "payload": base64url.encode(envelope.payload),
        "signatures": [signature.to_json() for signature in envelope.signatures],
    }
    return json.dumps(document, separators=(",", ":"))


def _jwks_to_json(jwks: JwkSet) -> dict[str, Json]:
    """A key set whatever its length: 64 KiB as its issuer wrote it may be more as we do."""
    return {
        "keys": [{**key.jwk()} for key in jwks.keys],
        "skipped": [[one.kid, one.code, one.message] for one in jwks.skipped],
    }


def _jwks_of(value: Json) -> JwkSet:
    members = read.exact_object(value, ("keys", "skipped"), "/jwks")
    keys, skipped = [], []
    for jwk, path in read.items(members["keys"], "/jwks/keys"):
        if not isinstance(jwk, dict):
            raise read.refused(path, "a public JWK")
        keys.append(PublicKey.from_jwk(jwk, algorithms=tuple(ALGORITHMS)))
    for one, path in read.items(members["skipped"], "/jwks/skipped"):
        match one:
            case [str(kid), str(code), str(message)]:
                skipped.append(SkippedKey(kid, code, message))
            case _:
                raise read.refused(path, "kid, code and message")
    return replace(JwkSet.of(keys), skipped=tuple(skipped))
