"""Our signatures before the verifiers of others, and a2a-sdk's signatures before ours.

`table.py` asks the same of every shared card and many random ones, and holds that against
`exceptions.json`; that our payloads are the SDKs' own is in `test_payloads_are_the_sdks.py`. Here
are the answers that no count shows: edits, other keys, and what a verdict says of a stranger's
signature.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import rfc8785
from joserfc import jws
from joserfc.jwk import ECKey

from cardsign import JwkSet, PrivateKey, build_card, canonicalize, sign_card
from cardsign.card.profiles import FULL_PROFILES
from cardsign.errors import CardsignError
from cardsign.sign import SigningOptions, sign_with_notes
from tests.build.corpus_sources import SAID, URL, WITH, WITHOUT_SCHEMES, sources
from tests.interop.judges import Judge, Path_, private_jwk
from tests.interop.roster import Verifier
from tests.support import DUAL, LAX, OLD, PORTABLE, codes, dump, each_case, examine, put, signed

CARDS: Final[dict[str, dict[str, Any]]] = {
    **{"portable": PORTABLE, "lax": LAX, "of 0.3": OLD, "of both versions": DUAL},
    "without scopes": put(PORTABLE, "/securityRequirements/0/schemes/harbour/list", []),
    "with empties": {**PORTABLE, "iconUrl": "", "provider": {}},
}
every_card = pytest.mark.parametrize("card", [PORTABLE, LAX, OLD, DUAL], ids=[*CARDS][:4])


@every_card
def test_a_verifier_accepts_what_we_sign_and_notices_an_edit(
    card: dict[str, Any], verifier: Verifier, judge: Judge, alice: PrivateKey, bob: PrivateKey
) -> None:
    """By one key of two, with an unsigned header; not by another's, of whatever kid."""
    header = {"jku": "https://tides.example/keys", "x-team": "tides"}
    ours = signed(card, alice, bob, compat="all", header=header)
    ask = partial(judge.verify, path=verifier.path)
    keys = JwkSet.of([alice.public])
    if not canonicalize(card, verifier.payload).names_an_endpoint:
        assert ask(dump(ours), keys).outcome == "refused"
        return
    for key in (alice, bob):
        accepted = ask(dump(ours), JwkSet.of([key.public]))
        assert (accepted.outcome, accepted.callable) == ("accepted", True)
    assert ask(dump(put(ours, "/name", "x")), keys).outcome == "refused"
    for kid in (alice.public.kid, "carol"):
        stranger = JwkSet.of([PrivateKey.generate("ES256", kid=kid).public])
        assert ask(dump(ours), stranger).outcome == "refused"
    assert ask(b"[]", keys).outcome != "accepted"


def test_a_verifier_needs_its_own_payload(
    verifier: Verifier, judge: Judge, alice: PrivateKey
) -> None:
    """Without compat signatures the SDKs refuse a card whose payloads differ."""
    full = dump(signed(LAX, alice, compat="none"))
    outcome = judge.verify(full, JwkSet.of([alice.public]), path=verifier.path).outcome
    assert (outcome == "accepted") == (verifier.payload in FULL_PROFILES)


@every_card
def test_a_jose_library_finds_a_good_signature_first(
    card: dict[str, Any], alice: PrivateKey
) -> None:
    """joserfc, given the RFC 8785 bytes, as its documentation shows."""
    ours = signed(card, alice)
    first = ours.pop("signatures")[0]
    token = f"{first['protected']}..{first['signature']}"
    key = ECKey.import_key(dict(alice.public.jwk()))
    assert jws.deserialize_compact(token, key, ["ES256"], payload=rfc8785.dumps(ours))


@pytest.mark.needs_judges("py")
@pytest.mark.parametrize("card", [LAX, OLD, DUAL], ids=["lax", "of 0.3", "of both"])
def test_a_compat_payload_served_as_the_card_is_told_by_its_typ(
    card: dict[str, Any], alice: PrivateKey, sdk: Judge
) -> None:
    """a2a-sdk accepts it; we name what it is, and hand out no card."""
    ours = signed(card, alice)
    payload = canonicalize(card, "prune-empty-upgraded")
    served = dump({**payload.value, "signatures": ours["signatures"]})
    assert payload.data != canonicalize(card, "served-as-is").data

    assert sdk.verify(served, JwkSet.of([alice.public])).outcome == "accepted"
    report = examine(served, alice)
    assert (report.verdict, report.card) == ("untrusted", None)
    # Of the same key, the full signatures that went along fit no longer.
    assert {"sig.bad", "sig.compat"} <= set(codes(report))
    assert examine(dump(ours), alice).verdict == "trusted"


# ------------------------------------------------------------------ what a2a-sdk has signed

PROFILES: Final = {"full": FULL_PROFILES, "lossy": ("prune-empty", "prune-empty-upgraded")}


@pytest.fixture(scope="module", params=["ES256", "RS256"])
def key(request: pytest.FixtureRequest) -> PrivateKey:
    """A key of each kind in turn."""
    return PrivateKey.generate(request.param)


@pytest.mark.needs_judges("py")
@each_case(__file__, "verdicts", "card", "typ", "profiles", "expected")
def test_a_card_that_a2a_sdk_has_signed(
    card: str, typ: str, profiles: str, expected: list[str], key: PrivateKey, sdk: Judge
) -> None:
    """Its verdict and that on its signature, with and without the policy's consent to lossy
    profiles, and the reason that is put first; JWT is the typ that a2a-sdk writes by itself."""
    by_sdk = sdk.sign(dump(CARDS[card]), private_jwk(key), typ=None if typ == "JWT" else typ)
    assert by_sdk is not None
    report = examine(by_sdk, key, profiles=PROFILES[profiles])

    (signature,) = report.signatures
    assert signature.typ == typ
    assert [report.verdict, signature.verdict, codes(report)[0]] == expected
    assert (report.card is None) == (report.verdict != "trusted")


@pytest.mark.needs_judges("py")
def test_the_requirement_left_open_can_be_deleted(alice: PrivateKey, sdk: Judge) -> None:
    """Why it counts for nothing by default: for a2a-sdk the card is signed with or without it."""
    by_sdk = sdk.sign(dump(CARDS["without scopes"]), private_jwk(alice))
    assert by_sdk is not None
    edited = json.loads(by_sdk)
    del edited["securityRequirements"]

    assert examine(edited, alice).verdict == "trusted"


# ------------------------------------------------------------------ cards that are built


@pytest.fixture(scope="module")
def built(shared: Path, alice: PrivateKey) -> dict[str, dict[str, bytes]]:
    """By source and A2A version: the card, signed as by default."""
    corpus = shared / "corpus/sources"
    made: dict[str, dict[str, bytes]] = {}
    for name in sources(corpus):
        files = [corpus / one for one in (name, *WITH.get(name, ()))]
        try:
            card = build_card(*files, url=URL, members=SAID.get(name), a2a="both")
        except CardsignError:
            continue  # tests/build/test_corpus_sources.py lists these with their reasons
        made[name] = {key: sign_card(data, alice) for key, data in card.documents.items()}
    return made


@pytest.mark.needs_shared
@pytest.mark.needs_judges
@pytest.mark.parametrize(
    ("name", "version", "refused"),
    [("sdk", "1.0", set[str]()), ("js", "1.0", set[str]()), ("js", "0.3", WITHOUT_SCHEMES)],
)
def test_an_sdk_accepts_what_is_built(
    built: dict[str, dict[str, bytes]],
    alice: PrivateKey,
    bob: PrivateKey,
    name: str,
    version: str,
    refused: set[str],
    request: pytest.FixtureRequest,
) -> None:
    """Each card makes a client, the older one by the resolver, which converts it; not by bob's."""
    judge: Judge = request.getfixturevalue(name)
    path: Path_ = "resolver" if version == "0.3" else "plain"
    assert len(built) >= 50
    ours, theirs = JwkSet.of([alice.public]), JwkSet.of([bob.public])
    accepted = {
        source: judge.verify(one[version], ours, path=path) for source, one in built.items()
    }
    assert {source for source, one in accepted.items() if one.outcome != "accepted"} == refused
    assert all(one.callable for one in accepted.values())
    others = {judge.verify(one[version], theirs, path=path).outcome for one in built.values()}
    assert others == {"refused"}


@pytest.mark.needs_shared
def test_signing_says_which_card_an_sdk_refuses(
    built: dict[str, dict[str, bytes]], alice: PrivateKey
) -> None:
    """That one, and no other."""
    options = SigningOptions()
    told = {
        name
        for name, one in built.items()
        for note in sign_with_notes(one["0.3"], [alice], options).notes
        if note.code == "sign.sdk_refuses"
    }
    assert told == WITHOUT_SCHEMES
