"""Rules K1 and K12: a lawful successor in another envelope, or signed as something else."""

from __future__ import annotations

import json
from typing import Any

from corpus import NOW, Corpus, recipe
from crafting import Json, b64, encoded
from statements import KEYSET, RELEASE, Statement, compact, seal
from workbench import Bench

from cardsign.card import jcs


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_envelope, _header):
        make(corpus)


def _envelope(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        201,
        "envelope",
        "A statement in another envelope",
        "Each case is a rotation that the roots have signed, in an envelope that some JWS reader "
        "might take. One form has one reading; a second form is where readers come to differ.",
    )
    lawful = _rotated(bench)
    parts = lawful.parts
    [one] = parts["signatures"]
    text = compact(parts)
    shapes: list[tuple[str, str, Any]] = [
        ("flattened", "Flattened serialization", {"payload": parts["payload"], **one}),
        ("compact", "Compact serialization", f"{one['protected']}.{parts['payload']}.x".encode()),
        ("unprotected", "With an unprotected header", _with(parts, {**one, "header": {}})),
        ("extra-member", "With a member of its own", {**parts, "note": "lawful"}),
        ("no-signatures", "Without a signature", {**parts, "signatures": []}),
        ("null-signatures", "Signatures are null", {**parts, "signatures": None}),
        (
            "65-signatures",
            "65 signatures, the good one last",
            _with(parts, *[_stranger()] * 64, one),
        ),
        ("padding", "Padded base64url", {**parts, "payload": _padded(parts["payload"])}),
        ("other-alphabet", "The payload in base64", {**parts, "payload": parts["payload"] + "+/"}),
        ("object-payload", "The payload as an object", {**parts, "payload": lawful.members}),
        ("bom", "A byte order mark before it", b"\xef\xbb\xbf" + text),
        ("utf-16", "In UTF-16", text.decode().encode("utf-16")),
        ("two-payloads", "Two payloads", text[:-1] + b',"payload":"e30"}'),
        ("trailing", "Something behind it", text + b"{}"),
        ("65-kib", "65 KiB, of white space", bench.padded(lawful, 65 * 1024).data),
        ("deep", "Nested a hundred thousand deep", recipe(("[", 100_000), ("]", 100_000))),
    ]
    for id_, title, data in shapes:
        bad = lawful.sent(data, f"keyset-1.2-{id_}")
        bench.bad_successor(id_, title, "statement.shape", bad)
    _twin(bench, "The same rotation in its envelope", lawful)
    spaced = lawful.sent(json.dumps(parts, indent=2).encode(), "keyset-1.2-indented")
    release = bench.house.release(lawful)
    bench.honest("indented", "White space means nothing", bench.first, spaced, release, by="card2")
    full = bench.padded(lawful, 64 * 1024)
    bench.honest("64-kib", "64 KiB, of white space", bench.first, full, release, by="card2")
    many = lawful.sent(_with(parts, *[_stranger()] * 63, one), "keyset-1.2-64-signatures")
    bench.honest(
        "64-signatures",
        "63 signatures of strangers before it",
        bench.first,
        many,
        release,
        by="card2",
    )


def _rotated(bench: Bench, **changes: Any) -> Statement:
    """A lawful version 2, whose card key is card2."""
    keys = bench.house.entries("card2", "rel")
    return bench.house.after(bench.first, **{"keys": keys, **changes})


def _twin(bench: Bench, title: str, lawful: Statement, **more: Any) -> None:
    release = bench.house.release(lawful)
    bench.honest("lawful", title, bench.first, lawful, release, by="card2", **more)


def _with(parts: Json, *signatures: Json) -> Json:
    return {**parts, "signatures": list(signatures)}


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4 or 4)


def _stranger() -> Json:
    header = {"alg": "ES256", "kid": "A" * 43, "typ": KEYSET}
    return {"protected": encoded(header), "signature": b64(b"\x01" * 64)}


def _header(corpus: Corpus) -> None:
    bench = Bench(
        corpus,
        212,
        "statement-typ",
        "A signature made for one thing, shown for another",
        "The same keys sign in several contexts. What a signature is for stands in its typ, in "
        "exactly these letters, and a wrong typ is never tried as anything else; a header "
        "says nothing but alg, kid and typ.",
        source="rule K12",
    )
    house, lawful = bench.house, _rotated(bench)
    payload, ann = jcs(lawful.members), house.key("ann")
    for id_, title, code, header in (
        ("as-card", "Signed as a card", "typ", {"typ": "JOSE"}),
        ("no-typ", "Signed without typ", "header", {"typ": None}),
        ("as-release", "Signed as a release", "typ", {"typ": RELEASE}),
        ("capitals", "The typ in other letters", "typ", {"typ": "Cardsign-Keyset+JWS"}),
        ("media-type", "The typ as a media type", "typ", {"typ": f"application/{KEYSET}"}),
        ("as-jwt", "Signed as a token", "typ", {"typ": "JWT"}),
        ("crit", "With crit", "header", {"crit": []}),
        ("b64", "With b64", "header", {"b64": True}),
        ("jwk", "With the key itself", "header", {"jwk": ann.jwk()}),
        ("iat", "With a time of its own", "header", {"iat": NOW}),
        ("none", "Algorithm none", "header", {"alg": "none"}),
        ("hs256", "Algorithm HS256", "header", {"alg": "HS256"}),
        ("eddsa", "An algorithm that cards may have", "header", {"alg": "EdDSA"}),
        ("other-alg", "Another algorithm than the key's", "unsigned", {"alg": "RS256"}),
        ("own-kid", "Under the name that the key set gives it", "unsigned", {"kid": "ann"}),
    ):
        envelope = {"signatures": [seal(payload, ann, KEYSET, **header)]}
        bad = lawful.sent({**lawful.parts, **envelope}, f"keyset-1.2-{id_}")
        bench.bad_successor(id_, title, f"statement.{code}", bad)
    first, release = bench.first, bench.release
    as_keyset = Statement("keyset", release.label, release.members, release.data)
    bench.refused(
        "release-as-keyset",
        "A release in the place of a keyset statement",
        "indeterminate",
        "statement.typ",
        as_keyset,
    )
    as_release = Statement("release", first.label, first.members, first.data)
    bench.refused(
        "keyset-as-release",
        "A keyset statement in the place of a release",
        "indeterminate",
        "statement.typ",
        first,
        as_release,
    )
    card = json.loads(house.card())
    shown = {"payload": b64(compact(card)), "signatures": card["signatures"]}
    as_card = Statement("release", "card-as-release", {}, compact(shown))
    bench.refused(
        "card-as-release",
        "A card's signature in the place of a release",
        "indeterminate",
        "statement.typ",
        first,
        as_card,
    )
    for id_, title, typ in (
        ("card-by-keyset-typ", "A card signed with the typ of a keyset statement", KEYSET),
        ("card-by-release-typ", "A card signed with the typ of a release", RELEASE),
    ):
        unsigned = {name: one for name, one in card.items() if name != "signatures"}
        signature = seal(jcs(unsigned), house.key("card"), typ, kid="card")
        spoilt = (id_, {**unsigned, "signatures": [signature]})
        bench.refused(
            id_, title, "untrusted", "sig.typ_forbidden", first, bench.release, card=spoilt
        )
    _twin(bench, "The same rotation under its own typ", lawful)
    bench.honest("released", "Card, keyset and release, each as itself", first, bench.release)
