"""Attacks 40 and 41 as transcripts: what a verifier keeps of answers."""

from __future__ import annotations

from typing import Any

from corpus import JWKS_URL, NOW, Corpus, issuer, jwk_set, refused, trusted
from crafting import CARD, ORIGIN, Json, at_url, signed
from stage import (
    CEILING,
    HOME,
    HOST,
    INDETERMINATE,
    RELEASE_URL,
    UNTRUSTED,
    WAIVED,
    Stage,
    status,
    text,
    tls,
)
from statements import HOUR, URL, House


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_evicting, _validators):
        make(corpus)


def _evicting(corpus: Corpus) -> None:
    attack = corpus.attack(
        40,
        "failures",
        "An answer that is missing is taken for an answer",
        "A cache that keeps a failure in the place of what was good makes every outage, and "
        "everybody who can cause one, a way to take the keys away. What could not be had changes "
        "nothing; what the issuer himself says does.",
    )
    stage = Stage(attack)
    by_url = stage.by_url()
    attack.standard = by_url
    house = stage.house
    stranger = House()
    theirs = stage.said(signed(CARD, stranger.key("card").called("card-new")), "by-stranger")
    met, later = stage.step(stage.good(by_url)), NOW + CEILING + 1
    told = {"policy": by_url, "memory": "fresh"}
    failures: tuple[tuple[str, str, Any, str], ...] = (
        ("500", "500", status(500), ""),
        ("503", "503, and when to come again", status(503, ["Retry-After", "86400"]), ""),
        ("403", "403", status(403), ""),
        ("404", "404", status(404), "statement.vanished"),
        ("410", "410", status(410), "statement.vanished"),
        ("redirect", "A redirect", status(302, ["Location", f"{ORIGIN}/other.json"]), ""),
        ("html", "A page", stage.said(text("<p>"), headers=[["Content-Type", "text/html"]]), ""),
        ("empty", "An empty body", {}, "jwks.malformed"),
        ("malformed", "No key set", stage.said({"keys": None}, "jwks-null"), "jwks.malformed"),
        (
            "cut",
            "One that is cut off",
            stage.said(stage.jwks, headers=[["Content-Length", "9999"]]),
            "",
        ),
        ("garbage", "No HTTP", {"raw": text("\0\x01" * 99)}, ""),
        ("hung-up", "It hangs up", {"raw": text("")}, ""),
        ("silence", "Nothing", {"raw": text(""), "then": "silence"}, ""),
        ("gzip", "Compressed", stage.said(stage.jwks, headers=[["Content-Encoding", "gzip"]]), ""),
        ("unchanged", "304 to one who has nothing to compare", status(304), ""),
    )
    for id_, title, answer, code in failures:
        warnings = ["refresh.no_answer", *([code] if code else [])]
        stage.case(
            f"{id_}-kept",
            f"{title}: the keys stay",
            met,
            stage.step(stage.good(by_url, warnings), now=later, answers={JWKS_URL: answer}),
            **told,
            twin=True,
        )
        first = code if code == "jwks.malformed" else "trust.no_keys"
        stage.case(
            f"{id_}-first",
            f"{title}, at first sight: there are none",
            stage.step(refused(INDETERMINATE, first), answers={JWKS_URL: answer}),
            **told,
        )
    outage = {JWKS_URL: status(500)}
    stage.case(
        "stranger",
        "An unknown key during an outage",
        met,
        stage.step(refused(UNTRUSTED, "key.unknown"), now=later, answers={URL: theirs, **outage}),
        **told,
    )
    stage.case(
        "restarted",
        "An outage, and the verifier is started anew",
        met,
        stage.step(
            stage.good(by_url, ["refresh.no_answer"]), now=later, restart=True, answers=outage
        ),
        **told,
        twin=True,
    )
    stage.case(
        "forgotten",
        "The same to one who remembers nothing",
        met,
        stage.step(
            refused(INDETERMINATE, "trust.no_keys"), now=later, restart=True, answers=outage
        ),
        policy=by_url,
    )
    stage.case(
        "emptied",
        "The issuer publishes an empty set: that is an answer",
        met,
        stage.step(
            refused(UNTRUSTED, "key.unknown"),
            now=later,
            answers={JWKS_URL: stage.said(jwk_set(), "jwks-empty")},
        ),
        **told,
    )
    stage.case(
        "removed",
        "After an outage the key is gone",
        met,
        stage.step(stage.good(by_url, ["refresh.no_answer"]), now=later, answers=outage),
        stage.step(
            refused(UNTRUSTED, "key.unknown"),
            now=later + HOUR,
            answers={JWKS_URL: stage.said(jwk_set(house.key("card2")), "jwks-without")},
        ),
        **told,
    )
    stage.case(
        "over",
        "After an outage the key is there",
        met,
        stage.step(stage.good(by_url, ["refresh.no_answer"]), now=later, answers=outage),
        stage.step(
            stage.good(by_url), now=later + HOUR, answers={JWKS_URL: stage.said(stage.jwks)}
        ),
        **told,
        twin=True,
    )


def _validators(corpus: Corpus) -> None:
    attack = corpus.attack(
        41,
        "validators",
        "Nothing has changed, says somebody who was not asked",
        "304 stands for an answer of before. It means something for exactly the URL that gave it; "
        "a validator that is taken elsewhere lets one host vouch for what another one said.",
    )
    stage = Stage(attack)
    pin, by_url, by_keyset = stage.pinned(), stage.by_url(), stage.by_keyset()
    attack.standard = by_url
    house, later = stage.house, NOW + CEILING + 1
    tagged = stage.said(stage.jwks, etag='"shared"')
    unsent = {"unsent": ['"shared"']}
    for code in (204, 304):
        stage.refused(
            f"card-{code}",
            f"{code} for a card that was never had",
            INDETERMINATE,
            "fetch.status",
            policy=pin,
            answers={URL: status(code)},
        )
        stage.refused(
            f"key-set-{code}",
            f"{code} for a key set",
            INDETERMINATE,
            "trust.no_keys",
            policy=by_url,
            answers={JWKS_URL: status(code)},
        )
        stage.refused(
            f"release-{code}",
            f"{code} for a release",
            INDETERMINATE,
            "trust.freshness_unknown",
            policy=by_keyset,
            answers={RELEASE_URL: status(code)},
        )
    _poisoned(stage, tagged)
    stage.case(
        "restarted",
        "304 to one who was started anew, and remembers nothing",
        stage.step(stage.good(by_url), answers={JWKS_URL: tagged}),
        stage.step(
            {**refused(INDETERMINATE, "trust.no_keys"), **unsent},
            now=later,
            restart=True,
            answers={JWKS_URL: status(304, ["ETag", '"shared"'])},
        ),
        policy=by_url,
    )
    without = stage.said(jwk_set(house.key("card2")), "jwks-without", etag='"new"')
    stage.case(
        "changed",
        "The key is removed under another tag",
        stage.step(stage.good(by_url), answers={JWKS_URL: tagged}),
        stage.step(refused(UNTRUSTED, "key.unknown"), now=later, answers={JWKS_URL: without}),
        policy=by_url,
    )
    stage.case(
        "same-tag",
        "The key is removed under the same tag, by a server that is asked again",
        stage.step(stage.good(by_url), answers={JWKS_URL: tagged}),
        stage.step(
            refused(UNTRUSTED, "key.unknown"),
            now=later,
            answers={
                JWKS_URL: {"body": without["body"], "headers": [["ETag", '"shared"']]},
            },
        ),
        policy=by_url,
    )
    for id_, title, tag in (
        ("strong", "With a tag", '"v1"'),
        ("weak", "With a weak tag", 'W/"v1"'),
    ):
        stage.case(
            f"unchanged-{id_}",
            f"{title}: the card and the key set have not changed",
            stage.step(
                stage.good(by_url),
                answers={
                    URL: stage.said(stage.card, etag=tag),
                    JWKS_URL: stage.said(stage.jwks, etag=tag),
                },
            ),
            stage.step({**stage.good(by_url), "times": {URL: 1, JWKS_URL: 1}}, now=later),
            policy=by_url,
            twin=True,
        )
    for id_, title, tag in (
        ("star", "Any at all", "*"),
        ("bare", "No quotes", "v1"),
        ("long", "10,000 characters", f'"{"a" * 10_000}"'),
        ("two", "Two in one", '"a", "b"'),
    ):
        odd = stage.said(stage.jwks, headers=[["ETag", tag]])
        stage.case(
            f"odd-tag-{id_}",
            f"A tag that is none: {title.lower()}",
            stage.step(stage.good(by_url), answers={JWKS_URL: odd}),
            stage.step({**stage.good(by_url), "unsent": [f"If-None-Match: {tag}"]}, now=later),
            policy=by_url,
            twin=True,
        )


def _poisoned(stage: Stage, tagged: Json) -> None:
    """A second issuer, on another host, whose key set is said to be unchanged."""
    origin, there = "https://ebb.example", "93.184.215.15"
    url, keys = f"{origin}/.well-known/agent-card.json", f"{origin}/.well-known/jwks.json"
    both = stage.attack.policy(
        issuer({"jwks": JWKS_URL}),
        issuer({"jwks": keys}, name="ebb", origins=[origin]),
        name="two.toml",
    )
    key, own = stage.house.key("card"), stage.house.key("ebb")
    ebb = at_url(f"{origin}/a2a")
    world: Json = {
        "names": {HOST: [HOME], "ebb.example": [there]},
        "servers": {f"{HOME}:443": tls(), f"{there}:443": tls("ebb.example")},
    }
    asked = {"asked": [URL, JWKS_URL]}
    met = stage.step({**trusted(*WAIVED), **asked}, **world, answers={JWKS_URL: tagged})
    never = {
        **refused(INDETERMINATE, "trust.no_keys"),
        "asked": [url, keys],
        "unsent": ['"shared"'],
    }
    for id_, title, said in (
        (
            "other-host",
            "Another issuer's key set is unchanged, with our tag",
            status(304, ["ETag", '"shared"']),
        ),
        (
            "other-host-located",
            "And it says that it is ours",
            status(304, ["ETag", '"shared"'], ["Content-Location", JWKS_URL]),
        ),
    ):
        card = stage.said(signed(ebb, key), "ebb-by-ours")
        stage.case(
            id_,
            title,
            met,
            stage.step(never, url=url, answers={url: card, keys: said}),
            policy=both,
        )
    lawful = {
        url: stage.said(signed(ebb, own), "ebb"),
        keys: stage.said(jwk_set(own), "ebb-jwks", etag='"shared"'),
    }
    stage.case(
        "two-hosts",
        "Two issuers whose tags happen to be the same",
        met,
        stage.step(
            {**trusted(*WAIVED), "asked": [url, keys], "unsent": ['"shared"']},
            url=url,
            answers=lawful,
        ),
        stage.step({**trusted(*WAIVED), "asked": [url, keys]}, url=url, now=NOW + CEILING + 1),
        policy=both,
        twin=True,
    )
