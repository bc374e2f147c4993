"""Attacks 25 to 30: headers that bring a key along or say where to get one. All are ignored."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from corpus import NOW, Attack, Corpus, issuer, jwk_set, pinned
from crafting import CARD, Key, ec_key, header_of, signed, with_entry
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from inside import reached_inside
from named_hosts import jku_followed

EVIL = "https://evil.example/jwks.json"


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_jwk, _x5c, _x5u, _no_kid, _jku, _jku_inside):
        make(corpus)


def _open(corpus: Corpus, number: int, name: str, title: str, why: str) -> tuple[Attack, Key, Key]:
    attack = corpus.attack(number, name, title, why)
    key, evil = ec_key("harbour-1"), ec_key("evil-1")
    attack.policy(issuer(pinned(key)))
    return attack, key, evil


def _jwk(corpus: Corpus) -> None:
    attack, key, evil = _open(
        corpus,
        25,
        "embedded-jwk",
        "The header brings its own key",
        "A verifier that takes the key from the `jwk` member trusts whoever signed "
        "(CVE-2018-0114). It is ignored: only an enrolled key verifies.",
    )
    for id_, title, header, code in (
        ("own-name", "The stranger's key under its own name", {"jwk": evil.jwk()}, "key.unknown"),
        (
            "honest-name",
            "The stranger's key under the honest name",
            {"jwk": evil.jwk(kid=key.kid), "kid": key.kid},
            "sig.bad",
        ),
        (
            "honest-key",
            "The stranger signs and shows the honest key",
            {"jwk": key.jwk(), "kid": key.kid},
            "sig.bad",
        ),
        (
            "no-kid",
            "The stranger's key and no name",
            {"jwk": evil.jwk(), "kid": None},
            "sig.kid_missing",
        ),
    ):
        verdict = "invalid" if code == "sig.bad" else "untrusted"
        card = signed(CARD, evil, header_of(evil, **header))
        attack.attack(id_, title, card, verdict, code)
    beside = with_entry(signed(CARD, evil), header={"jwk": evil.jwk()})
    attack.attack("unprotected", "In the unprotected header", beside, "untrusted", "key.unknown")
    attack.twin(
        "honest", "The honest key shows itself", signed(CARD, key, header_of(key, jwk=key.jwk()))
    )
    shown = signed(CARD, key, header_of(key, jwk=evil.jwk()))
    attack.twin("other-shown", "The honest key shows another", shown)
    attack.twin("without", "Without jwk", signed(CARD, key))


def _x5c(corpus: Corpus) -> None:
    attack, key, evil = _open(
        corpus,
        26,
        "x5c",
        "The header brings certificates",
        "No certificate authority speaks for an agent here: `x5c` and `x5t` in a header, and "
        "beside a key, are ignored, so neither a good chain helps nor a bad one hurts.",
    )
    own = [_certificate(evil, "tides.example")]
    authority = ec_key("authority")
    issued = [_certificate(evil, "tides.example", by=authority), _certificate(authority, "root")]
    for id_, title, header, code in (
        ("self-signed", "Self-signed for our host", {"x5c": own}, "key.unknown"),
        ("chain", "Issued by an authority for our host", {"x5c": issued}, "key.unknown"),
        ("claimed", "The same under the honest name", {"x5c": issued, "kid": key.kid}, "sig.bad"),
        (
            "honest-leaf",
            "The honest key's certificate, and a stranger signs",
            {"x5c": [_certificate(key, "tides.example")], "kid": key.kid},
            "sig.bad",
        ),
        (
            "thumbprint",
            "The certificate's digest, and no name",
            {"x5t#S256": _digest(own[0]), "kid": None},
            "sig.kid_missing",
        ),
        ("fifty", "A chain of fifty", {"x5c": own * 50}, "sig.header"),
    ):
        verdict = "invalid" if code == "sig.bad" else "untrusted"
        card = signed(CARD, evil, header_of(evil, **header))
        attack.attack(id_, title, card, verdict, code)
    for id_, title, certificate in (
        ("honest", "A certificate of the honest key", _certificate(key, "tides.example")),
        ("expired", "One that has expired", _certificate(key, "tides.example", days=-1)),
        ("other-use", "One for TLS clients", _certificate(key, "tides.example", client=True)),
        ("other-key", "One of another key", own[0]),
        ("junk", "No certificate", "AAAA"),
    ):
        card = signed(CARD, key, header_of(key, x5c=[certificate]))
        attack.twin(id_, f"{title}: ignored", card)
    fetched = attack.policy(
        issuer({"jwks": "https://tides.example/.well-known/jwks.json"}), name="jwks.toml"
    )
    attack.twin(
        "in-the-set",
        "A certificate of another key beside the honest one in the key set",
        signed(CARD, key),
        jwks=jwk_set(key.jwk(x5c=own)),
        policy=fetched,
    )


def _certificate(
    key: Key, name: str, *, by: Key | None = None, days: int = 30, client: bool = False
) -> str:
    now = datetime.fromtimestamp(NOW, UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    root = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
    use = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(root if by else subject)
        .public_key(key.native.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        .sign((by or key).native, hashes.SHA256())
    )
    return base64.b64encode(made.public_bytes(Encoding.DER)).decode()


def _digest(certificate: str) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(base64.b64decode(certificate))
    return base64.urlsafe_b64encode(digest.finalize()).rstrip(b"=").decode()


def _x5u(corpus: Corpus) -> None:
    attack, key, evil = _open(
        corpus,
        27,
        "x5u",
        "The header says where certificates are",
        "A verifier that follows `x5u` lets a card choose its key, and whom the verifier's machine "
        "connects to. It is ignored, and nothing is fetched.",
    )
    for id_, title, header, verdict, code in (
        ("named", "A stranger's URL", {}, "untrusted", "key.unknown"),
        ("claimed", "The same under the honest name", {"kid": key.kid}, "invalid", "sig.bad"),
        ("alone", "A URL instead of a name", {"kid": None}, "untrusted", "sig.kid_missing"),
    ):
        card = signed(CARD, evil, header_of(evil, x5u="https://evil.example/c.pem", **header))
        attack.attack(id_, title, card, verdict, code)
    honest = signed(CARD, key, header_of(key, x5u="https://tides.example/c.pem"))
    attack.twin("honest", "In an honest header", honest)
    metadata = header_of(key, x5u="http://169.254.169.254/latest/meta-data/")
    attack.twin("metadata", "A host inside: not asked", signed(CARD, key, metadata))


def _no_kid(corpus: Corpus) -> None:
    attack, key, _ = _open(
        corpus,
        28,
        "no-kid",
        "A header without the name of a key",
        "A2A 1.0 8.4.2 demands a kid. Without one a verifier would have to guess, and the guess "
        "changes on the day when a second key is enrolled.",
    )
    two = attack.policy(issuer(pinned(key, ec_key("harbour-2"))), name="two-keys.toml")
    bare = signed(CARD, key, header_of(key, kid=None))
    attack.attack("one-key", "One key is enrolled", bare, "untrusted", "sig.kid_missing")
    attack.attack("two-keys", "Two are", bare, "untrusted", "sig.kid_missing", policy=two)
    null = signed(CARD, key, {**header_of(key), "kid": None})
    attack.attack("null", "The kid is null", null, "untrusted", "sig.kid_missing")
    nameless = attack.policy(issuer(pinned(key.jwk(kid=None))), name="nameless.toml")
    attack.attack(
        "nameless-key",
        "Neither the header nor the one enrolled key has a name",
        bare,
        "untrusted",
        "sig.kid_missing",
        policy=nameless,
    )
    attack.twin("kid", "With its kid", signed(CARD, key))
    attack.twin("kid-of-two", "With its kid, of two keys", signed(CARD, key), policy=two)


def _jku(corpus: Corpus) -> None:
    attack = corpus.attack(
        29,
        "jku",
        "The header says where keys are",
        "A2A 1.0 8.4.3 lets a verifier get the key from `jku`, which the signer chose: then "
        "whoever signs is trusted. It is always ignored; the policy names the one source.",
    )
    key, evil = ec_key("harbour-1"), ec_key("evil-1")
    home = "https://tides.example/.well-known/jwks.json"
    attack.policy(issuer(pinned(key)))
    fetched = attack.policy(issuer({"jwks": home}), name="jwks.toml")

    def with_jku(signer: Key, jku: Any, **members: Any) -> dict[str, Any]:
        return signed(CARD, signer, header_of(signer, jku=jku, **members))

    attack.attack(
        "stranger", "A stranger's URL and key", with_jku(evil, EVIL), "untrusted", "key.unknown"
    )
    claimed = with_jku(evil, EVIL, kid=key.kid)
    attack.attack("claimed", "The same under the honest name", claimed, "invalid", "sig.bad")
    beside = with_entry(signed(CARD, evil), header={"jku": EVIL})
    attack.attack("unprotected", "In the unprotected header", beside, "untrusted", "key.unknown")
    attack.attack(
        "fetched",
        "Somebody followed it and brings the stranger's set",
        with_jku(evil, EVIL),
        "indeterminate",
        "trust.no_keys",
        jwks=jwk_set(evil),
        jwks_url=EVIL,
        policy=fetched,
    )
    attack.attack(
        "home",
        "It names our own set, in which the stranger's key is not",
        with_jku(evil, home),
        "untrusted",
        "key.unknown",
        jwks=jwk_set(key),
        policy=fetched,
    )
    attack.attack(
        "brought-to-pinned",
        "The stranger's set comes along, and the policy pins keys",
        with_jku(evil, EVIL),
        "untrusted",
        "key.unknown",
        jwks=jwk_set(evil),
        jwks_url=EVIL,
    )
    attack.twin("honest", "The honest key names its own set", with_jku(key, home))
    attack.twin("elsewhere", "The honest key names another set", with_jku(key, EVIL))
    attack.twin(
        "honest-fetched",
        "The honest key, from the one source that the policy names",
        with_jku(key, EVIL),
        jwks=jwk_set(key),
        policy=fetched,
    )
    jku_followed(attack)


def _jku_inside(corpus: Corpus) -> None:
    attack, key, evil = _open(
        corpus,
        30,
        "jku-inside",
        "A host inside",
        "Who asks for what a stranger names reaches what the stranger cannot: the metadata service "
        "of a cloud, a database, a file. Nothing is fetched that a header names; a URL that was "
        "given is asked only at a public address, however it is spelt and whatever has that name.",
    )
    for id_, title, jku in (
        ("metadata", "A cloud's metadata service", "http://169.254.169.254/latest/meta-data/"),
        ("mapped", "The same as a mapped IPv6 address", "https://[::ffff:169.254.169.254]/"),
        ("decimal", "This machine as one number", "https://2130706433/jwks.json"),
        ("file", "A file", "file:///etc/passwd"),
        ("data", "The key itself", "data:application/json,%7B%22keys%22:[]%7D"),
        ("number", "A number", 7),
        ("null", "Null", None),
    ):
        header = {**header_of(evil), "jku": jku}
        attack.attack(id_, title, signed(CARD, evil, header), "untrusted", "key.unknown")
    honest = signed(CARD, key, header_of(key, jku="http://127.0.0.1:6379/"))
    attack.twin("honest", "An honest signature with such a jku is none the worse", honest)
    reached_inside(attack)
