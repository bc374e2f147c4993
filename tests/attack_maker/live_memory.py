"""Findings 18 and 20 as transcripts: memory that is lost, and first contact."""

from __future__ import annotations

from corpus import JWKS_URL, NOW, Attack, jwk_set, refused, trusted
from crafting import CARD, Json, signed
from stage import (
    HOME,
    INDETERMINATE,
    RELEASE_URL,
    STATEMENTS,
    UNTRUSTED,
    Stage,
    keyset_url,
    status,
    text,
    tls,
)
from statements import HOUR, URL, lock, yes


def lost(attack: Attack) -> None:
    """Finding 18: the folder in which a verifier remembers is gone."""
    stage = Stage(attack)
    by_keyset = stage.by_keyset()
    house = stage.house
    second = house.after(
        stage.first, keys=house.entries("card2", "rel"), revoked=house.thumbprints("card")
    )
    newest = house.release(second, seq=6, label="release-of-2")
    now_ = {URL: stage.said(house.card("card2"), "card-by-2"), **stage.statements(second, newest)}
    then: Json = {
        **stage.statements(stage.release),
        URL: stage.said(stage.card),
        keyset_url(second): status(404),
    }
    seen = stage.place("seen.lock", lock(second, newest))
    met = stage.step(yes(), answers=now_)
    stage.case(
        "live-lost",
        "It is deleted between two visits, and the old statements are shown",
        met,
        stage.step(refused("none", "state.missing"), lost=True, now=NOW + HOUR, answers=then),
        policy=by_keyset,
    )
    stage.case(
        "live-lost-honest-world",
        "It is deleted, and nothing else has happened: no verdict either",
        met,
        stage.step(refused("none", "state.missing"), lost=True, now=NOW + HOUR),
        policy=by_keyset,
    )
    stage.case(
        "live-lost-lock",
        "It is deleted, and a lock is there: the old statements are too old",
        met,
        stage.step(
            refused(INDETERMINATE, "statement.rollback"), lost=True, now=NOW + HOUR, answers=then
        ),
        policy=by_keyset,
        lock=seen,
    )
    stage.case(
        "live-kept",
        "It is there, and the old statements are shown",
        met,
        stage.step(refused(UNTRUSTED, "key.unknown"), restart=True, now=NOW + HOUR, answers=then),
        policy=by_keyset,
    )
    stage.case(
        "live-restarted",
        "The verifier is started anew, and remembers",
        met,
        stage.step(yes(), restart=True, now=NOW + HOUR),
        policy=by_keyset,
        twin=True,
    )
    stage.case(
        "live-lost-lock-honest",
        "It is deleted, a lock is there, and nothing else has happened",
        met,
        stage.step(yes("state.created"), lost=True, now=NOW + HOUR),
        policy=by_keyset,
        lock=seen,
        twin=True,
    )


def met_elsewhere(attack: Attack) -> None:
    """Finding 20: a mirror introduces nobody."""
    stage = Stage(attack)
    tofu = stage.by_first_contact()
    registry, home = "https://registry.example", "93.184.215.15"
    mirror = f"{registry}/cards/tides.json"
    mirrored = f"{registry}/.well-known"
    around: Json = {
        "names": {"registry.example": [home]},
        "servers": {f"{home}:443": tls("registry.example")},
    }
    first, release = stage.first, stage.release
    copies: Json = {
        mirror: stage.said(stage.card),
        f"{mirrored}/jwks.json": stage.said(stage.jwks),
        f"{mirrored}/cardsign/release.json": stage.said(release.data, "release"),
        f"{mirrored}/cardsign/keyset/1.1.json": stage.said(first.data, "keyset"),
    }
    subject = {"subject": {"issuer": "harbour"}}
    never = refused(INDETERMINATE, "trust.no_first_contact")
    own = [URL, f"{STATEMENTS}/*"]
    stage.case(
        "live-mirror",
        "A registry has card, key set and statements, all genuine",
        stage.step(never, url=mirror, answers=copies, asked=[mirror], **around, **subject),
        policy=tofu,
        memory="fresh",
    )
    known = yes("trust.tofu_first")
    met = stage.step(known, answers=stage.statements(first, release), asked=own)
    stage.case("live-own", "At the card's own origin", met, policy=tofu, memory="fresh", twin=True)
    stage.case(
        "live-mirror-later",
        "From the registry, after the issuer was met",
        met,
        stage.step(
            yes(),
            url=mirror,
            answers=copies,
            asked=[mirror, *own],
            **around,
            **subject,
            now=NOW + HOUR,
        ),
        policy=tofu,
        memory="fresh",
        twin=True,
    )
    stranger = Stage(attack)
    forged = stranger.house.keyset(
        label="keyset-forged", keys=[stranger.house.entry("card"), stranger.house.entry("rel")]
    )
    theirs = {
        URL: stage.said(signed(CARD, stranger.house.key("card").called("tides-new")), "forged"),
        **stage.statements(forged, stranger.house.release(forged, label="release-forged")),
    }
    stage.case(
        "live-changed",
        "All keys change at the card's own origin, without proof",
        met,
        stage.step(refused(UNTRUSTED, "key.unknown"), now=NOW + HOUR, answers=theirs, asked=own),
        policy=tofu,
        memory="fresh",
    )
    bare = stage.by_first_contact("by-first-contact-bare.toml", freshness="waived")
    for id_, title, answer in (
        ("500", "The statements answer 500, and there is a key set", status(500)),
        ("page", "A page instead of the release, and there is a key set", stage.said(text("<p>"))),
    ):
        stage.case(
            f"live-bare-{id_}",
            f"{title}: no falling back",
            stage.step(
                never,
                asked=[*own, JWKS_URL],
                answers={
                    JWKS_URL: stage.said(stage.jwks),
                    RELEASE_URL: answer,
                    keyset_url(first): answer,
                },
            ),
            policy=bare,
            memory="fresh",
        )
    warned = trusted("trust.freshness_waived", "trust.tofu_first")
    alone = {JWKS_URL: stage.said(stage.jwks)}
    found = stage.step(warned, asked=[*own, JWKS_URL], answers=alone)
    stage.case(
        "live-bare",
        "There are no statements, and there is a key set",
        found,
        policy=bare,
        memory="fresh",
        twin=True,
    )
    key = stranger.house.key("card").called("tides-new")
    stage.case(
        "live-bare-changed",
        "The key set changes",
        found,
        stage.step(
            refused(UNTRUSTED, "trust.key_changed"),
            now=NOW + HOUR,
            asked=[*own, JWKS_URL],
            answers={
                URL: stage.said(signed(CARD, key), "forged"),
                JWKS_URL: stage.said(jwk_set(key), "jwks-forged"),
            },
        ),
        policy=bare,
        memory="fresh",
    )
    expired = {f"{HOME}:443": tls(flaw="self-signed")}
    stage.case(
        "live-tls",
        "First contact with somebody in between",
        stage.step(refused(INDETERMINATE, "fetch.tls"), servers=expired, asked=own),
        policy=tofu,
        memory="fresh",
    )
