"""The messages that people meet most: each names what happened, where, and what to do next."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey
from cardsign.keys.stores.opening import create_store
from tests.cli import peer
from tests.cli.conftest import Cardsign
from tests.jose.statement_making import key
from tests.support import PORTABLE, dump, put, signed

JWKS = ("--jwks", "jwks.json")
PASSWORD = "hunter2"


def _write(name: str, data: bytes | str) -> Callable[[], object]:
    return lambda: Path(name).write_bytes(data.encode() if isinstance(data, str) else data)


def _edited(pointer: str, value: object) -> Callable[[], object]:
    card = signed(PORTABLE, key("card"))
    return _write("card.json", dump(put(card, pointer, value)))


def _not_canonical() -> None:
    """As PyJWT's ``jwt.encode`` signs a card: JSON in a form of its own."""
    signature = sign_payload(json.dumps(PORTABLE).encode(), key("card"), typ="JOSE")
    Path("card.json").write_bytes(dump({**PORTABLE, "signatures": [signature]}))


def _key_store() -> None:
    create_store(Path("keys"))


def _by_secret() -> None:
    """As PyJWT signs with a password; no library of ours makes such a header."""
    signature = sign_payload(b"{}", key("card"), typ="JOSE")
    header = json.dumps({"alg": "HS256", "kid": "card", "typ": "JOSE"}).encode()
    signature = {**signature, "protected": base64.urlsafe_b64encode(header).decode().rstrip("=")}
    Path("card.json").write_bytes(dump({**PORTABLE, "signatures": [signature]}))


def _keys_without_kid() -> None:
    jwk = dict(PrivateKey.generate("ES256").public.jwk())
    del jwk["kid"]
    Path("bare.json").write_bytes(dump({"keys": [jwk]}))


NOTHING: Callable[[], object] = lambda: None  # noqa: E731
CASES: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "no such file": (NOTHING, ("verify", "absent.json", *JWKS)),
    "a host without https": (NOTHING, ("verify", "weather.example", *JWKS)),
    "a folder for a card": (lambda: Path("dir").mkdir(), ("inspect", "dir")),
    "an empty folder": (lambda: Path("dir").mkdir(), ("verify", "dir", *JWKS)),
    "no JSON": (_write("card.json", "{"), ("verify", "card.json", *JWKS)),
    "a key in PEM": (_write("card.json", "-----BEGIN PUBLIC KEY-----"), ("inspect", "card.json")),
    "a member twice": (_write("card.json", '{"name": 1, "name": 2}'), ("inspect", "card.json")),
    "a list": (_write("card.json", "[]"), ("verify", "card.json", *JWKS)),
    "no card": (_write("card.json", "{}"), ("sign", "card.json", "--key", "file:key.pem")),
    "a card that is not signed": (NOTHING, ("verify", "unsigned.json", *JWKS)),
    "a key set for a card": (NOTHING, ("verify", "jwks.json", *JWKS)),
    "a card that was changed": (_edited("/name", "Other"), ("verify", "card.json", *JWKS)),
    "JSON that is not canonical": (_not_canonical, ("verify", "card.json", *JWKS)),
    "an unknown key": (
        _write("other.json", JwkSet.of([PrivateKey.generate("ES256").public]).to_bytes()),
        ("verify", "signed.json", "--jwks", "other.json"),
    ),
    "no policy": (NOTHING, ("verify", "signed.json")),
    "an issuer and no policy": (NOTHING, ("verify", "signed.json", "--issuer", "x")),
    "no URL": (NOTHING, ("fetch", "weather.example")),
    "no key set": (_write("keys.json", "{}"), ("verify", "signed.json", "--jwks", "keys.json")),
    "no key store": (NOTHING, ("keys", "list")),
    "no key to sign with": (NOTHING, ("sign", "unsigned.json")),
    "an option without its value": (NOTHING, ("verify", "signed.json", "--jwks")),
    "a command with a slip": (NOTHING, ("verfy", "signed.json")),
    "a card and nowhere to publish it": (NOTHING, ("publish", "signed.json")),
    "an issuer's host without https": (NOTHING, ("trust", "add", "weather.example")),
    "a name without an origin": (NOTHING, ("trust", "add", "weather", *JWKS)),
    "an origin in capitals": (
        NOTHING,
        ("trust", "add", "weather", "--origin", "https://Weather.example", *JWKS),
    ),
    "the URL of a key set for its file": (
        NOTHING,
        ("trust", "add", "https://weather.example", "--jwks", "https://weather.example/jwks.json"),
    ),
    "a policy that is not there": (NOTHING, ("trust", "list", "--trust", "own.toml")),
    "an algorithm that nobody may accept": (_by_secret, ("verify", "card.json", *JWKS)),
    "keys without a kid": (_keys_without_kid, ("verify", "signed.json", "--jwks", "bare.json")),
    "a private address": (NOTHING, ("verify", "https://192.168.3.9", *JWKS)),
    "a key that others can read": (
        lambda: Path("my key.pem").write_text("x"),
        ("sign", "unsigned.json", "--key", "file:my key.pem"),
    ),
    "a keyset without an origin": (_key_store, ("keyset", "draft")),
    "a keyset without a root key": (
        _key_store,
        ("keyset", "draft", "--origin", "https://tides.example"),
    ),
    "an option with a slip": (NOTHING, ("verify", "signed.json", "--jwk", "jwks.json")),
    "a missing argument": (NOTHING, ("verify",)),
    "two subjects": (
        NOTHING, ("verify", "signed.json", "--issuer", "x", "--origin", "https://x.example"),
    ),
    "settings that are no TOML": (_write("cardsign.toml", "format = 1\nissuer"), ("keys", "list")),
    "settings with a slip": (
        _write("cardsign.toml", 'format = 1\npublsh = "public"\n'), ("config", "check"),
    ),
    "settings of a wrong type": (
        _write("cardsign.toml", "format = 1\npublish = 7\n"), ("config", "check"),
    ),
    "a policy with a slip": (
        _write("trust.toml", "format = 1\nisuer = []\n"), ("verify", "signed.json"),
    ),
    "nothing published": (lambda: Path("public").mkdir(), ("serve", "public")),
    "no card to publish": (NOTHING, ("publish", "-o", "public")),
    "a password in a URL": (NOTHING, ("verify", f"https://me:{PASSWORD}@x.example/", *JWKS)),
    "a time without offset": (
        NOTHING, ("verify", "signed.json", *JWKS, "--at", "2026-01-31T18:00:00"),
    ),
}  # fmt: skip


#: Status, first message and first hint of each.
SAID: dict[str, tuple[int, str, str]] = {
    "no such file": (
        2,
        "file.not_found: there is no such file (absent.json)",
        "Check the path.",
    ),
    "a host without https": (
        2,
        "file.not_found: there is no such file (weather.example)",
        "For a card on the web give its URL: cardsign verify https://weather.example",
    ),
    "a folder for a card": (
        2,
        "file.unreadable: this is a folder, not a file (dir)",
        "Name a file.",
    ),
    "an empty folder": (
        2,
        "usage.invalid: the folder holds no *.json (dir)",
        "Name a folder that holds cards, or name the cards.",
    ),
    "no JSON": (
        1,
        "json.syntax: expected a member name in double quotes, found the end of the "
        "input (line 1, column 2)",
        "Fix the JSON at the place given, or name the right file.",
    ),
    "a key in PEM": (
        1,
        "json.syntax: expected a JSON value, found a PEM file, which holds a key (line 1, "
        "column 1)",
        "Name the file of the card, or the JWK Set in place of a PEM file.",
    ),
    "a member twice": (
        1,
        "json.duplicate_member: the object already has a member of this name (/name, "
        "line 1, column 13)",
        "Remove one of the two. Readers disagree on which of them counts.",
    ),
    "a list": (
        1,
        "json.not_object: the JSON value is not an object (line 1, column 1)",
        "An Agent Card, a key and a key set are each one JSON object: {...}.",
    ),
    "no card": (
        2,
        "file.not_found: there is no such file (key.pem)",
        "Check the path.",
    ),
    "a card that is not signed": (
        1,
        "sig.none: the card has no `signatures`",
        "Ask its issuer to sign it: cardsign sign CARD -o OUT",
    ),
    "a key set for a card": (
        1,
        "sig.none: this is a key set (a JWK Set) and no card",
        "Name the card, and the key set as its keys: cardsign verify CARD --jwks FILE",
    ),
    "a card that was changed": (
        1,
        "sig.bad: the signature does not fit this card: changed after signing, or signed by a "
        "rule that is not known here (a2a-sdk before 1.1.4, crewAI) "
        "(/signatures/0)",
        "Do not use this card. Fetch it again, or see why: "
        "cardsign explain card.json --jwks jwks.json",
    ),
    "JSON that is not canonical": (
        1,
        "sig.bad: the signature does not fit this card: changed after signing, or signed by a "
        "rule that is not known here (a2a-sdk before 1.1.4, crewAI) "
        "(/signatures/0)",
        "Do not use this card. Fetch it again, or see why: "
        "cardsign explain card.json --jwks jwks.json",
    ),
    "an unknown key": (
        1,
        "key.unknown: no accepted key has the kid KID; accepted are KIDS, named by "
        "thumbprint (/signatures/0)",
        "Get the issuer's current key set. If its keys have no kid, ask for kids.",
    ),
    "no policy": (
        3,
        "trust.no_anchor: there is no policy, so no issuer is trusted",
        "Add the issuer: cardsign trust init; cardsign trust add URL. Or name keys: --jwks FILE",
    ),
    "an issuer and no policy": (
        3,
        "trust.no_anchor: there is no policy, so no issuer is trusted",
        "Add the issuer: cardsign trust init; cardsign trust add URL. Or name keys: --jwks FILE",
    ),
    "no URL": (
        2,
        "usage.invalid: 'weather.example' is no URL",
        "Write https://weather.example",
    ),
    "no key set": (
        2,
        "jwks.malformed: `keys` is missing or no list (keys.json/keys)",
        'A JWK Set is {"keys": [...]} of at most 64 KiB. Yours: cardsign keys jwks -o jwks.json',
    ),
    "no key store": (
        2,
        "keystore.missing: no key store is named, and none is here (keys)",
        "Make one: cardsign keys generate. Or name it with --keystore DIR.",
    ),
    "no key to sign with": (
        2,
        "keystore.missing: no key store is named, and none is here (keys)",
        "Make one: cardsign keys generate. Or name it with --keystore DIR.",
    ),
    "an option without its value": (
        2,
        "usage.invalid: Option '--jwks' requires an argument",
        "See cardsign verify --help.",
    ),
    "a command with a slip": (
        2,
        "usage.invalid: No such command 'verfy'. Did you mean 'verify'?",
        "See cardsign --help.",
    ),
    "a card and nowhere to publish it": (
        2,
        "usage.conflict: no publication directory is named",
        "Name one: cardsign publish -o DIR",
    ),
    "an issuer's host without https": (
        2,
        "usage.conflict: 'weather.example' is a name, and no origin",
        "Write it as a URL: cardsign trust add https://weather.example",
    ),
    "a name without an origin": (
        2,
        "usage.conflict: 'weather' is a name, and no origin",
        "Add --origin https://HOST, the host where its cards are. Or give its URL in place of the "
        "name.",
    ),
    "an origin in capitals": (
        2,
        "card.interface_url: 'https://Weather.example' is not written as https://host, "
        "https://host:port or https://host/path in lower case (--origin)",
        "Write https://weather.example",
    ),
    "the URL of a key set for its file": (
        2,
        "usage.conflict: --jwks takes a file, and this is a URL",
        "Trust what is published there: --jwks-url https://weather.example/jwks.json",
    ),
    "a policy that is not there": (
        2,
        "file.not_found: there is no such policy file (own.toml)",
        "Check the path. A new one is begun by: cardsign trust init --trust own.toml",
    ),
    "an algorithm that nobody may accept": (
        1,
        "sig.alg_forbidden: `alg` of the protected header is 'HS256', expected one of ES256, "
        "ES384, ES512, EdDSA, RS256, RS384, RS512, PS256, PS384, PS512 (/signatures/0/protected)",
        "Ask the issuer to sign with ES256. No policy can accept this one.",
    ),
    "keys without a kid": (
        1,
        "key.unknown: no accepted key has the kid KID; accepted are KIDS, named by thumbprint "
        "(/signatures/0)",
        "Get the issuer's current key set. If its keys have no kid, ask for kids.",
    ),
    "a private address": (
        3,
        "fetch.forbidden_address: 192.168.3.9 is a private address",
        'If this is a network of your own, allow it for this issuer: networks = ["192.168.3.0/24"] '
        "in a policy file that you name with --trust.",
    ),
    "a key that others can read": (
        2,
        "file.permissions: group or others can access this file (mode 0644) (my key.pem)",
        "Run: chmod 600 'my key.pem'",
    ),
    "a keyset without an origin": (
        2,
        "usage.conflict: no origin of the issuer is known",
        "Name it: cardsign keyset draft --origin https://HOST",
    ),
    "a keyset without a root key": (
        2,
        "usage.conflict: there is no root key to sign a keyset",
        "Make one: cardsign keys generate --role root",
    ),
    "an option with a slip": (
        2,
        "usage.invalid: No such option '--jwk'. Did you mean '--jwks'?",
        "See cardsign verify --help.",
    ),
    "a missing argument": (
        2,
        "usage.invalid: no CARD is named",
        "See cardsign verify --help.",
    ),
    "two subjects": (
        2,
        "usage.conflict: --issuer and --origin both name the subject",
        "Leave one of the two out.",
    ),
    "settings that are no TOML": (
        2,
        "config.malformed: this is not TOML: expected '=' after a key in a key/value "
        "pair before the end of the file "
        "(cardsign.toml)",
        "Fix what is named. A new cardsign.toml is written by: cardsign init",
    ),
    "settings with a slip": (
        2,
        "config.malformed: unknown member 'publsh'; did you mean 'publish'? "
        "(cardsign.toml, line 2)",
        "Fix what is named. A new cardsign.toml is written by: cardsign init",
    ),
    "settings of a wrong type": (
        2,
        "config.malformed: 'publish' must be a text in quotes, such as \"value\" "
        "(cardsign.toml, line 2)",
        "Fix what is named. A new cardsign.toml is written by: cardsign init",
    ),
    "a policy with a slip": (
        2,
        "policy.malformed: 'isuer' is no member of the file; did you mean 'issuer'? "
        "(trust.toml, line 2)",
        "Members are format, limits, issuer.",
    ),
    "nothing published": (
        2,
        "serve.no_generation: the directory holds no publication (public)",
        "Publish first: cardsign publish CARD -o DIR.",
    ),
    "no card to publish": (
        2,
        "usage.conflict: no card is named",
        "Name CARD, or list the cards in cardsign.toml: [[card]] with source = "
        '"card.json" and signed = "signed.json".',
    ),
    "a password in a URL": (
        3,
        "fetch.url: 'https://...@x.example/' is not written as https://host, "
        "https://host:port or https://host/path in lower case",
        "Use https://host[:port]/path without user name, backslash or control characters.",
    ),
    "a time without offset": (
        2,
        "usage.invalid: --at '2026-01-31T18:00:00' says no offset from UTC",
        "Write it as 2026-01-31T18:00:00Z, for instance.",
    ),
}
_KID = re.compile(r"'[A-Za-z0-9_-]{43}'")
# The oldest click that is allowed words it so.
_OLD_CLICK = re.compile(r"No such option: (\S+) Did you mean (\S+)\?")
_SHORT_KID = re.compile(r"(?<=accepted are )[A-Za-z0-9_-]{8}\.\.\.")


@pytest.mark.parametrize("name", CASES)
def test_a_common_mistake_is_named_with_its_way_out(name: str, cardsign: Cardsign) -> None:
    """Word for word, so that who changes a message reads it; and short enough to be read once."""
    peer.write_cards()
    prepare, words = CASES[name]
    prepare()
    status, message, hint = SAID[name]

    ended = cardsign(*words)

    told = (ended.text + ended.err).replace(f"{Path.cwd()}/", "")
    told = _SHORT_KID.sub("KIDS", _KID.sub("KID", told))
    told = _OLD_CLICK.sub(r"No such option '\1'. Did you mean '\2'?", told)
    lines = [line.removeprefix("cardsign: ").strip() for line in told.splitlines()]
    assert (ended.status, message in lines) == (status, True), told
    assert lines[lines.index(message) + 1] == hint
    assert "Traceback" not in told
    assert PASSWORD not in told
    for sentence in re.split(r"[.:;] ", f"{message}. {hint}"):
        assert len(sentence.split()) <= 25, sentence


def test_each_of_these_messages_is_pinned() -> None:
    """No case without its words, and no words without a case."""
    assert SAID.keys() == CASES.keys()
    assert len(CASES) >= 30


SECRET_URL = f"https://me:{PASSWORD}@tides.example/x"


def _card_of_secrets() -> None:
    """A card with a password in the URL of every place that has one."""
    scheme = {"openIdConnectSecurityScheme": {"openIdConnectUrl": SECRET_URL}}
    flows = {"clientCredentials": {"tokenUrl": SECRET_URL, "scopes": {"a": SECRET_URL}}}
    interface = {**PORTABLE["supportedInterfaces"][0], "url": SECRET_URL}
    card = {
        **PORTABLE,
        "supportedInterfaces": [interface],
        "documentationUrl": SECRET_URL,
        "iconUrl": SECRET_URL,
        "provider": {"organization": SECRET_URL, "url": SECRET_URL},
        "securitySchemes": {"oidc": scheme, "oauth": {"oauth2SecurityScheme": {"flows": flows}}},
        "securityRequirements": [{"schemes": {"oidc": {}}}],
    }
    Path("card.json").write_bytes(dump(signed(card, key("card"))))
    other = {**card, "documentationUrl": f"{SECRET_URL}/2", "description": "See " + SECRET_URL}
    Path("other.json").write_bytes(dump(other))


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "JSON"])
@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "card.json"),
        ("explain", "card.json", *JWKS),
        ("lint", "card.json"),
        ("diff", "card.json", "other.json"),
        ("verify", "card.json", *JWKS),
        ("verify", "card.json", *JWKS, "--verbose"),
        ("sign", "other.json", "--key", "file:absent.pem"),
        ("fetch", SECRET_URL),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_command_repeats_the_password_of_a_url(
    cardsign: Cardsign, words: tuple[str, ...], form: tuple[str, ...]
) -> None:
    """Whatever it says of the card."""
    peer.write_cards()
    _card_of_secrets()
    ended = cardsign(*words, *form)
    told = ended.text + ended.err
    if form and words[0] == "verify":  # the card that was verified is data for programs
        verdict = ended.json
        assert PASSWORD in json.dumps(verdict.pop("card"))
        told = json.dumps(verdict) + ended.err
    assert told
    assert PASSWORD not in told


def test_what_a_signature_covers_is_printed_as_it_is(cardsign: Cardsign) -> None:
    """The twin: bytes that are data for programs are not changed."""
    _card_of_secrets()
    words = ("canonicalize", "card.json", "--profile", "served-as-is")
    plain, as_json = cardsign(*words), cardsign(*words, "--json")
    assert PASSWORD.encode() in plain.out
    assert as_json.json["payload"].encode() == plain.out
