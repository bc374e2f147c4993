"""Make the vectors of this folder that are missing, with keys that are forgotten afterwards.

``python tests/vectors/make.py`` writes the files under ``cards/`` that are not there; what others
may hold already stays as it is. What each vector holds and what must come out of it is declared
here, by hand; nothing is copied from a run of the verifier. The private halves are never written,
so a vector that is made anew has other signatures, and nothing else changes.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from cardsign.card import FULL_PROFILES, canonicalize  # noqa: E402
from cardsign.card.values import count_values  # noqa: E402
from cardsign.jose import (  # noqa: E402
    JwkSet,
    PrivateKey,
)
from tests.support import (  # noqa: E402
    DUAL,
    LAX,
    OLD,
    PORTABLE,
    WITH_DEFAULTS,
    by_another_sdk,
    dump,
    put,
    signed,
    under_header,
    without,
)

CARDS: Final = Path(__file__).resolve().parent / "cards"
LOSSY: Final = ("prune-empty", "prune-empty-upgraded")
ES: Final = PrivateKey.generate("ES256", kid="vector-es256")
RS: Final = PrivateKey.generate("RS256", kid="vector-rs256")
STRANGER: Final = PrivateKey.generate("ES256", kid="stranger")


@dataclass(frozen=True, slots=True)
class Vector:
    """One declared case; see README.md for the members of the file."""

    id: str
    says: str
    card: Callable[[], dict[str, Any] | bytes]
    verdict: str
    signatures: tuple[str, ...] = ()
    reason: str | None = None
    uncovered: tuple[str, ...] = ()
    profiles: tuple[str, ...] = FULL_PROFILES


def _served_as_card(card: dict[str, Any], profile: str) -> dict[str, Any]:
    """What an attacker makes of a signed card: its lossy payload, with all signatures."""
    whole = signed(card, ES)
    return {**canonicalize(card, profile).value, "signatures": whole["signatures"]}


def _header(**members: Any) -> dict[str, Any]:
    header = {"alg": "ES256", "kid": ES.public.kid, "typ": "JOSE", **members}
    given = {name: value for name, value in header.items() if value is not None}
    return under_header(PORTABLE, ES, given, profile="served-as-is")


#: Characters of a member `x` with which the protected header has 4,096 bytes.
_ROOM: Final = 4096 - len(dump({"alg": "ES256", "kid": ES.public.kid, "typ": "JOSE", "x": ""}))


def _unprotected(header: Any, **members: Any) -> dict[str, Any]:
    """Signed, and this beside it, which nobody has signed."""
    card = _header(**members)
    return {**card, "signatures": [{**entry, "header": header} for entry in card["signatures"]]}


def _of_values(number: int) -> dict[str, Any]:
    """A card of so many values, its root included; most of them are in a member of nobody's."""
    card = {**PORTABLE, "x": []}
    return {**card, "x": [0] * (number - count_values(card))}


def _damaged(change: Callable[[dict[str, str]], Any]) -> dict[str, Any]:
    card = signed(PORTABLE, ES)
    return {**card, "signatures": [change(entry) for entry in card["signatures"]]}


def _text(card: dict[str, Any], old: bytes, new: bytes) -> bytes:
    document = dump(signed(card, ES))
    assert document.count(old) >= 1
    return document.replace(old, new, 1)


VECTORS: Final = (
    # ------------------------------------------------------------------ honest cards
    Vector("portable-es256", "All default profiles agree: one signature.",
           lambda: signed(PORTABLE, ES), "trusted", ("valid",)),
    Vector("portable-rs256", "The same under RS256.",
           lambda: signed(PORTABLE, RS), "trusted", ("valid",)),
    Vector("two-keys", "Two keys sign, the older one first.",
           lambda: signed(PORTABLE, RS, ES), "trusted", ("valid", "valid")),
    Vector("defaults", "Defaults on the wire: rule 1 drops them, and so has a payload of its own.",
           lambda: signed(WITH_DEFAULTS, ES), "trusted", ("valid", "valid")),
    Vector("lax", "As most real cards are: a compat signature stands beside the full ones.",
           lambda: signed(LAX, ES), "trusted", ("not-tried", "valid", "valid")),
    Vector("a2a-0.3", "A 0.3 card: what a2a-sdk upgrades it to has a compat signature.",
           lambda: signed(OLD, ES), "trusted", ("not-tried", "valid")),
    Vector("dual", "A document for both generations.",
           lambda: signed(DUAL, ES), "trusted", ("not-tried", "valid")),
    Vector("reordered", "Member order and white space do not matter.",
           lambda: json.dumps(dict(reversed(signed(PORTABLE, ES).items())), indent=9).encode(),
           "trusted", ("valid",)),
    Vector("stranger-beside", "An unknown key's signature never blocks a good one.",
           lambda: {**PORTABLE, "signatures": signed(PORTABLE, STRANGER)["signatures"]
                    + signed(PORTABLE, ES)["signatures"]}, "trusted", ("unknown-key", "valid")),
    Vector("jku-ignored", "jku, x5u and an embedded key are ignored; nothing is fetched.",
           lambda: _header(jku="https://attacker.example/keys", x5u="https://attacker.example/c",
                           jwk=STRANGER.public.jwk()), "trusted", ("valid",)),
    # ------------------------------------------------------------------ edits in transit
    Vector("edited", "A covered member was changed.",
           lambda: put(signed(PORTABLE, ES), "/supportedInterfaces/0/url", "https://evil.example/"),
           "invalid", ("invalid",), "sig.bad"),
    Vector("unknown-added", "An unknown member was added: pruning readers would not notice it.",
           lambda: {**signed(PORTABLE, ES), "x-more": 1}, "untrusted", ("other-profile",),
           "sig.other_profile", ("/x-more",)),
    Vector("legacy-url-added", "A 0.3 url was added: only the compat signature still fits.",
           lambda: {**signed(LAX, ES), "url": "https://evil.example/"},
           "untrusted", ("valid", "invalid", "invalid"), "sig.bad",
           ("/iconUrl", "/securityRequirements", "/x-berth", "/url")),
    Vector("requirement-deleted", "The authentication requirement was deleted.",
           lambda: without(signed(LAX, ES), "/securityRequirements"),
           "untrusted", ("valid", "invalid", "invalid"), "sig.bad", ("/iconUrl", "/x-berth")),
    Vector("lossy-payload-served", "The payload of prune-empty is served as the card.",
           lambda: _served_as_card(LAX, "prune-empty"),
           "untrusted", ("valid", "invalid", "invalid"), "sig.bad"),
    Vector("stripped", "The signatures were removed.", lambda: dict(PORTABLE), "untrusted", (),
           "sig.none"),
    Vector("by-a-stranger", "Signed by a key that nobody pinned.",
           lambda: signed(PORTABLE, STRANGER), "untrusted", ("unknown-key",), "key.unknown"),
    Vector("empty-interface-first", "An empty interface was put first: raw readers would take it.",
           lambda: put(signed(LAX, ES), "/supportedInterfaces",
                       [{}, *LAX["supportedInterfaces"]]),
           "untrusted", ("valid", "invalid", "invalid"), "sig.bad",
           ("/supportedInterfaces/0", "/iconUrl", "/securityRequirements", "/x-berth")),
    # ------------------------------------------------------------------ signatures of others
    Vector("pruned-only", "An unmarked prune-empty signature, which the policy does not name.",
           lambda: by_another_sdk(LAX, ES, "prune-empty"), "untrusted", ("other-profile",),
           "sig.other_profile", ("/iconUrl", "/securityRequirements", "/x-berth")),
    Vector("pruned-accepted", "The policy names the pruning profiles; only empty values are open.",
           lambda: by_another_sdk(without(LAX, "/x-berth"), ES, "prune-empty"),
           "trusted", ("valid",), None, ("/iconUrl", "/securityRequirements"), profiles=LOSSY),
    Vector("pruned-accepted-unknown", "The same with an unknown member, which it does not excuse.",
           lambda: by_another_sdk(LAX, ES, "prune-empty"), "untrusted", ("valid",),
           "coverage.uncovered", ("/iconUrl", "/securityRequirements", "/x-berth"),
           profiles=LOSSY),
    Vector("dual-accepted", "0.3 members that equal the covered 1.0 data are excused.",
           lambda: by_another_sdk(DUAL, ES, "prune-empty"), "trusted", ("valid",),
           profiles=LOSSY),
    Vector("dual-url-elsewhere", "The 0.3 url differs from every covered interface.",
           lambda: {**by_another_sdk(DUAL, ES, "prune-empty"), "url": "https://evil.example/"},
           "untrusted", ("valid",), "coverage.uncovered",
           ("/url", "/preferredTransport", "/protocolVersion"), profiles=LOSSY),
    Vector("rule-1-only", "A rule 1 signature alone; the dropped defaults are excused.",
           lambda: by_another_sdk(WITH_DEFAULTS, ES, "rule-1-as-written"), "trusted", ("valid",)),
    Vector("opt-in-sdk-0.3", "What a2a-sdk 0.3 signs: no accepted profile, but nobody tampered.",
           lambda: by_another_sdk(OLD, ES, "sdk-0.3"), "untrusted", ("other-profile",),
           "sig.other_profile",
           ("/protocolVersion", "/preferredTransport", "/securitySchemes/harbour/type")),
    Vector("opt-in-sdk-1.0-legacy", "What a2a-sdk 1.0 to 1.1.3 signs, non-ASCII text escaped.",
           lambda: by_another_sdk({**PORTABLE, "name": "Gezeiten f\u00fcr alle"}, ES,
                                  "sdk-1.0-legacy"),
           "untrusted", ("other-profile",), "sig.other_profile"),
    Vector("opt-in-js-instance", "What @a2a-js/sdk signs of its own form: no security schemes.",
           lambda: by_another_sdk(PORTABLE, ES, "js-instance"), "untrusted", ("other-profile",),
           "sig.other_profile", ("/securitySchemes",)),
    Vector("opt-in-descriptor-scope", "Rule 1 over the schema: an absent REQUIRED one is put in.",
           lambda: by_another_sdk(without(PORTABLE, "/description"), ES,
                                  "rule-1-descriptor-scope"),
           "untrusted", ("other-profile",), "sig.other_profile"),
    # ------------------------------------------------------------------ headers
    Vector("typ-absent", "No typ.", lambda: _header(typ=None), "trusted", ("valid",)),
    Vector("typ-jose-json", "typ JOSE+JSON.", lambda: _header(typ="JOSE+JSON"), "trusted",
           ("valid",)),
    Vector("typ-jwt", "typ JWT goes with every accepted profile.", lambda: _header(typ="JWT"),
           "trusted", ("valid",)),
    Vector("typ-jwt-pruning", "typ JWT under an accepted pruning profile.",
           lambda: _header(typ="JWT"), "trusted", ("valid",), profiles=LOSSY),
    Vector("typ-compat", "A compat typ never counts, whatever it covers.",
           lambda: _header(typ="cardsign-compat+jws"), "untrusted", ("valid",), "sig.compat"),
    Vector("typ-keyset", "Another document's typ.",
           lambda: _header(typ="cardsign-keyset+jws"), "untrusted", ("refused",),
           "sig.typ_forbidden"),
    Vector("kid-missing", "No kid, although one key only could be meant.",
           lambda: _header(kid=None), "untrusted", ("refused",), "sig.kid_missing"),
    Vector("kid-crlf", "A kid with a line break.", lambda: _header(kid="a\r\nb"), "untrusted",
           ("refused",), "sig.kid_form"),
    Vector("alg-none", "alg none.", lambda: _header(alg="none"), "untrusted", ("refused",),
           "sig.alg_forbidden"),
    Vector("alg-other", "The header names another algorithm than the key's.",
           lambda: _header(alg="RS256"), "untrusted", ("refused",), "key.alg_mismatch"),
    Vector("crit", "crit, though it names what everybody knows.", lambda: _header(crit=["alg"]),
           "untrusted", ("refused",), "sig.crit"),
    Vector("b64", "b64, though true.", lambda: _header(b64=True), "untrusted", ("refused",),
           "sig.b64"),
    Vector("unprotected-kid", "The unprotected header repeats the kid.",
           lambda: _damaged(lambda entry: {**entry, "header": {"kid": ES.public.kid}}),
           "untrusted", ("refused",), "sig.header_overlap"),
    Vector("padding", "base64url with padding.",
           lambda: _damaged(lambda entry: {**entry, "signature": entry["signature"] + "=="}),
           "untrusted", ("refused",), "sig.base64url"),
    Vector("no-object", "A signature that is no object.", lambda: _damaged(lambda entry: None),
           "untrusted", ("refused",), "sig.shape"),
    # ------------------------------------------------------------------ cards that read two ways
    Vector("duplicate-member", "A member stands twice.",
           lambda: _text(PORTABLE, b'"name"', b'"name": "Other", "name"'), "invalid", (),
           "json.duplicate_member"),
    Vector("duplicate-escaped", "The same, spelled with an escape.",
           lambda: _text(PORTABLE, b'"name"', b'"n\\u0061me": "Other", "name"'), "invalid", (),
           "json.duplicate_member"),
    Vector("two-spellings", "Two spellings of one schema name.",
           lambda: {**signed(PORTABLE, ES), "supported_interfaces": []}, "invalid", (),
           "card.two_spellings"),
    Vector("two-cases", "Two spellings that differ in case.",
           lambda: {**signed(PORTABLE, ES), "SupportedInterfaces": []}, "invalid", (),
           "card.two_spellings"),
    Vector("not-finite", "A number that no double holds.",
           lambda: _text({**PORTABLE, "x": 1}, b'"x": 1', b'"x": 1e999'), "invalid", (),
           "json.number"),
    Vector("too-exact", "An integer that a double would round.",
           lambda: _text({**PORTABLE, "x": 1}, b'"x": 1', b'"x": 9007199254740993'), "invalid", (),
           "json.integer_range"),
    Vector("lone-surrogate", "Half of a character.",
           lambda: _text(PORTABLE, b'"Tides"', b'"\\ud800"'), "invalid", (), "json.surrogate"),
    Vector("byte-order-mark", "A byte order mark.",
           lambda: b"\xef\xbb\xbf" + dump(signed(PORTABLE, ES)), "invalid", (), "json.bom"),
    Vector("not-utf-8", "Bytes that are not UTF-8.",
           lambda: _text(PORTABLE, b"Tides", b"Tid\xffs"), "invalid", (), "json.not_utf8"),
    Vector("trailing", "Something after the card.",
           lambda: dump(signed(PORTABLE, ES)) + b"{}", "invalid", (), "json.trailing"),
    Vector("a-list", "A list.", lambda: b"[]", "invalid", (), "json.not_object"),
    Vector("too-deep", "33 levels of nesting.",
           lambda: dump({**PORTABLE, "x": json.loads("[" * 32 + "]" * 32)}), "invalid", (),
           "json.depth"),
    Vector("seventeen", "More signatures than are read.",
           lambda: {**PORTABLE, "signatures": signed(PORTABLE, ES)["signatures"] * 17}, "invalid",
           (), "card.signatures_too_many"),
    Vector("no-interface", "Signed, but nothing in it can be called.",
           lambda: signed(without(PORTABLE, "/supportedInterfaces"), ES, force=True), "untrusted",
           ("valid",), "card.no_interface"),
    # ------------------------------------------------------------------ added in the second edition
    Vector("typ-lower-case", "Media types are compared without regard to case.",
           lambda: _header(typ="jose"), "trusted", ("valid",)),
    Vector("unprotected-other", "An unprotected header with a member that decides nothing.",
           lambda: _unprotected({"x": 1}), "trusted", ("valid",)),
    Vector("unprotected-list", "An unprotected header that is no object.",
           lambda: _unprotected([]), "untrusted", ("refused",), "sig.shape"),
    Vector("unprotected-crit", "crit in the unprotected header.",
           lambda: _unprotected({"crit": ["alg"]}), "untrusted", ("refused",), "sig.crit"),
    Vector("unprotected-b64", "b64 in the unprotected header.",
           lambda: _unprotected({"b64": True}), "untrusted", ("refused",), "sig.b64"),
    Vector("unprotected-typ", "typ in the unprotected header, and none in the protected one.",
           lambda: _unprotected({"typ": "JOSE"}, typ=None), "untrusted", ("refused",),
           "sig.header_overlap"),
    Vector("header-of-4-kib", "A protected header of 4,096 bytes.",
           lambda: _header(x="x" * _ROOM), "trusted", ("valid",)),
    Vector("header-over-4-kib", "A protected header of 4,097 bytes.",
           lambda: _header(x="x" * (_ROOM + 1)), "untrusted", ("refused",), "sig.header"),
    Vector("signed-two-spellings", "Two spellings of one schema name, and both are signed.",
           lambda: by_another_sdk({**PORTABLE, "supported_interfaces": []}, ES, "served-as-is"),
           "invalid", (), "card.two_spellings"),
    Vector("signed-two-cases", "The same in a skill: two spellings that differ in case.",
           lambda: by_another_sdk(put(PORTABLE, "/skills/0/ID", "x"), ES, "served-as-is"),
           "invalid", (), "card.two_spellings"),
    Vector("signed-10-000-values", "As many values as a card may be made of.",
           lambda: by_another_sdk(_of_values(10_000), ES, "served-as-is"), "trusted", ("valid",)),
    Vector("signed-10-001-values", "One value more.",
           lambda: by_another_sdk(_of_values(10_001), ES, "served-as-is"), "invalid", (),
           "json.too_many_values"),
    # ------------------------------------------------------------------ added in the third edition
    Vector("interface-without-url", "One of two endpoints has no URL.",
           lambda: by_another_sdk({**PORTABLE, "supportedInterfaces":
                                   [*PORTABLE["supportedInterfaces"], {}]}, ES, "served-as-is"),
           "untrusted", ("valid",), "card.interface_url"),
    Vector("additional-without-url", "The same of 0.3's additional interfaces.",
           lambda: by_another_sdk({**OLD, "additionalInterfaces": [{}]}, ES, "served-as-is"),
           "untrusted", ("valid",), "card.interface_url"),
    Vector("old-url-beside-none", "A card of 0.3 with an empty list of 1.0's interfaces.",
           lambda: by_another_sdk({**OLD, "supportedInterfaces": []}, ES, "served-as-is"),
           "trusted", ("valid",)),
)  # fmt: skip


def main() -> None:
    """Write the vectors that are missing, and remove what is none any more."""
    CARDS.mkdir(exist_ok=True)
    jwks = json.loads(JwkSet.of([ES.public, RS.public]).to_bytes())
    names = set()
    for number, vector in enumerate(VECTORS, 1):
        path = CARDS / f"{number:02}-{vector.id}.json"
        names.add(path)
        if not path.exists():
            path.write_text(json.dumps(_file(vector, jwks), indent=1, ensure_ascii=True) + "\n")
    for path in set(CARDS.glob("*.json")) - names:
        path.unlink()


def _file(vector: Vector, jwks: Any) -> dict[str, Any]:
    made = vector.card()
    document = made if isinstance(made, bytes) else dump(made)
    return {
        "id": vector.id,
        "says": vector.says,
        "origin": "cardsign tests/vectors/make.py",
        "card_base64": base64.b64encode(document).decode(),
        "jwks": jwks,
        "accepted_profiles": list(vector.profiles),
        "expect": {
            "verdict": vector.verdict,
            "signatures": list(vector.signatures),
            "reason": vector.reason,
            "uncovered": sorted(vector.uncovered),
        },
    }


if __name__ == "__main__":
    main()
