"""Attack 39 as transcripts, and attack 42: many who ask, and many names."""

from __future__ import annotations

from corpus import JWKS_URL, NOW, Corpus, jwk_set, refused
from crafting import ORIGIN, Json
from stage import (
    RELEASE_URL,
    UNTRUSTED,
    Stage,
    status,
)
from statements import URL

#: Seconds between two requests out of turn.
COOLDOWN = 60
_STORE = [["Cache-Control", "no-store"]]
#: Names of keys that nobody has: 63 cards with 16 signatures each.
_CARDS, _EACH = 63, 16


def build(corpus: Corpus) -> None:
    """Register them."""
    _storm(corpus)
    herd = corpus.attack(
        42,
        "herd",
        "Fifty threads ask at once",
        "When an answer has grown old, everybody who needs it asks at the same moment, and the "
        "issuer is overrun by his own peers. One asks, the others wait for him.",
    )
    herd.tests(
        "tests/net/test_asker.py::test_fifty_threads",
        "tests/net/test_discovery_races.py::test_fifty_threads_ask_once",
    )


def _storm(corpus: Corpus) -> None:
    attack = corpus.attack(
        39,
        "storm",
        "A thousand names of keys that nobody has",
        "A key that is not known may be new, so a verifier asks the issuer again. Whoever shows "
        "him a thousand unknown names makes him ask a thousand times, or throw away what he has. "
        "He asks out of turn once in a minute, and keeps what is good.",
    )
    stage = Stage(attack)
    by_url, by_keyset = stage.by_url(), stage.by_keyset()
    attack.standard = by_url
    storm: Json = {
        "storm": {"card": stage.card, "seed": "storm", "signatures": _EACH},
        "headers": _STORE,
    }
    calm = stage.said(stage.card, headers=_STORE)
    no = refused(UNTRUSTED, "key.unknown")
    met = stage.step(stage.good(by_url), answers={URL: calm})
    blown = stage.step(
        {**no, "times": {JWKS_URL: 1}}, repeat=_CARDS, answers={URL: storm}, now=NOW + 1
    )
    stage.case("storm", "1,008 names in 63 cards: one request", met, blown, policy=by_url)
    agents = {f"{ORIGIN}/agents/*": storm}
    many = stage.step(
        {**no, "times": {JWKS_URL: 1}, "asked": [f"{ORIGIN}/agents/*", JWKS_URL]},
        url=f"{ORIGIN}/agents/{{n}}.json",
        repeat=_CARDS,
        answers=agents,
        now=NOW + 1,
    )
    stage.case("storm-of-agents", "The same from 63 agents of the issuer", met, many, policy=by_url)
    stage.case(
        "storm-at-first-sight",
        "The same, and nothing is known yet: one, and one out of turn",
        stage.step({**no, "times": {JWKS_URL: 2}}, repeat=_CARDS, answers={URL: storm}),
        policy=by_url,
    )
    stage.case(
        "storm-statements",
        "The same to one who has statements",
        stage.step(stage.good(by_keyset), answers={URL: calm}),
        stage.step(
            {**no, "times": {RELEASE_URL: 1}}, repeat=_CARDS, answers={URL: storm}, now=NOW + 1
        ),
        policy=by_keyset,
    )
    failing = {URL: storm, JWKS_URL: status(503)}
    overrun = stage.step(
        {**no, "times": {JWKS_URL: 1}}, repeat=_CARDS, answers=failing, now=NOW + 1
    )
    stage.case(
        "storm-and-failure",
        "The same while the key set gives no answer",
        met,
        overrun,
        policy=by_url,
        memory="fresh",
    )
    new = {
        URL: stage.said(stage.house.card("card2"), "card-new", headers=_STORE),
        JWKS_URL: stage.said(
            jwk_set(stage.house.key("card"), stage.house.key("card2")), "jwks-new"
        ),
    }
    after = stage.step(
        {**stage.good(by_url), "times": {JWKS_URL: 0}}, answers={URL: calm}, now=NOW + 2
    )
    stage.case(
        "kept",
        "The known key is known after the storm",
        met,
        blown,
        after,
        policy=by_url,
        twin=True,
    )
    stage.case(
        "kept-without-answers",
        "And after a storm in which nobody answered",
        met,
        overrun,
        stage.step(stage.good(by_url, ["refresh.no_answer"]), answers={URL: calm}, now=NOW + 2),
        policy=by_url,
        memory="fresh",
        twin=True,
    )
    stage.case(
        "new-key",
        "A new key is seen at once where no storm was",
        met,
        stage.step({**stage.good(by_url), "times": {JWKS_URL: 1}}, answers=new, now=NOW + 2),
        policy=by_url,
        twin=True,
    )
    stage.case(
        "new-key-after",
        "And after a storm, a minute later",
        met,
        blown,
        stage.step(
            {**stage.good(by_url), "times": {JWKS_URL: 1}}, answers=new, now=NOW + COOLDOWN + 9
        ),
        policy=by_url,
        twin=True,
    )
