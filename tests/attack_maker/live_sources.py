"""Findings 15 and 16 as transcripts: copies of different ages, and other sources."""

from __future__ import annotations

from corpus import JWKS_URL, Attack, jwk_set, refused
from crafting import CARD, signed
from stage import (
    INDETERMINATE,
    RELEASE_URL,
    UNTRUSTED,
    Stage,
    keyset_url,
    status,
    turns,
)
from statements import URL, yes


def of_two_ages(attack: Attack) -> None:
    """Finding 15: card, key set and release lie in caches of different ages."""
    stage = Stage(attack)
    by_keyset, by_url = stage.by_keyset(), stage.by_url()
    house = stage.house
    new = {**CARD, "version": "2.0.0"}
    card = stage.said(signed(new, house.key("card")), "card-new")
    listing = house.listing(new, seq=6)
    both = house.release(stage.first, seq=6, cards=[house.listing(), listing], label="release-both")
    raised = house.release(
        stage.first, seq=7, cards=[listing], floor={house.url: 6}, label="release-raised"
    )
    before = stage.said(stage.release.data, "release")
    twice = {"times": {URL: 2, RELEASE_URL: 2}}
    for id_, title, release, shown, expect in (
        (
            "release-old",
            "The new card beside a release that stays old",
            before,
            card,
            refused(UNTRUSTED, "card.digest_unlisted"),
        ),
        (
            "card-old",
            "The old card beside the new release",
            stage.said(raised.data, "raised"),
            stage.said(stage.card),
            refused(UNTRUSTED, "card.digest_unlisted"),
        ),
        (
            "release-late",
            "The new card, and the release is old for once",
            turns(before, stage.said(both.data, "both")),
            card,
            yes(),
        ),
        (
            "card-late",
            "The new release, and the card is old for once",
            stage.said(raised.data, "raised"),
            turns(stage.said(stage.card), card),
            yes(),
        ),
    ):
        stage.case(
            id_,
            title,
            stage.step({**expect, **twice}, answers={URL: shown, RELEASE_URL: release}),
            policy=by_keyset,
            twin=expect["verdict"] == "trusted",
        )
    unlisted = {**refused(UNTRUSTED, "card.digest_unlisted")}
    stage.case(
        "once-a-minute",
        "The same twenty times: all is asked for anew once",
        stage.step({**unlisted, **twice}, repeat=20, answers={URL: card, RELEASE_URL: before}),
        policy=by_keyset,
    )
    by_new = stage.said(house.card("card2"), "card-by-new")
    keys = stage.said(jwk_set(house.key("card"), house.key("card2")), "jwks-new")
    for id_, title, answer, expect in (
        (
            "set-old",
            "A new key, and the key set stays old",
            stage.said(stage.jwks),
            refused(UNTRUSTED, "key.unknown"),
        ),
        (
            "set-late",
            "A new key, and the key set is old for once",
            turns(stage.said(stage.jwks), keys),
            stage.good(by_url),
        ),
    ):
        stage.case(
            id_,
            title,
            stage.step({**expect, "times": {JWKS_URL: 2}}, answers={URL: by_new, JWKS_URL: answer}),
            policy=by_url,
            twin=expect["verdict"] == "trusted",
        )


def of_other_sources(attack: Attack) -> None:
    """Finding 16: what else is there to be had is not asked for."""
    stage = Stage(attack)
    pin, by_url, by_keyset = stage.pinned(), stage.by_url(), stage.by_keyset()
    house = stage.house
    extra = stage.said(jwk_set(house.key("card"), house.key("evil")), "jwks-extra")
    theirs = {URL: stage.said(house.card("evil"), "card-by-evil"), JWKS_URL: extra}
    everything = {JWKS_URL: extra, **stage.statements(stage.first, stage.release)}
    stage.refused(
        "live-extra-key",
        "A key is added to the key set, and statements are what counts",
        UNTRUSTED,
        "key.unknown",
        policy=by_keyset,
        answers=theirs,
    )
    for id_, answer in (("404", status(404)), ("500", status(500)), ("empty", {})):
        stage.refused(
            f"live-no-keyset-{id_}",
            f"The keyset answers {id_}, and there is a key set",
            INDETERMINATE,
            "trust.no_keys",
            policy=by_keyset,
            answers={JWKS_URL: extra, keyset_url(stage.first): answer},
        )
    stage.refused(
        "live-no-set",
        "The key set is not there, and there are statements",
        INDETERMINATE,
        "trust.no_keys",
        policy=by_url,
        answers={**everything, JWKS_URL: status(404)},
    )
    stage.refused(
        "live-pinned",
        "Keys are pinned, and there is everything else",
        UNTRUSTED,
        "key.unknown",
        policy=pin,
        answers={**everything, **theirs},
    )
    for id_, policy in (("pinned", pin), ("set", by_url), ("keyset", by_keyset)):
        answers = {**everything, JWKS_URL: stage.said(stage.jwks)}
        stage.honest(
            f"live-{id_}-honest",
            "Everything is there; one source is asked",
            policy=policy,
            answers=answers,
        )
