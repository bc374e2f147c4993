"""Attacks 33 and 37 as transcripts: what a server says instead of the card."""

from __future__ import annotations

from typing import Any

from corpus import JWKS_URL, Corpus, jwk_set
from crafting import CARD, ORIGIN, Json, ec_key, signed
from stage import (
    EVIL,
    EVIL_HOME,
    EVIL_HOST,
    HOME,
    HOST,
    INDETERMINATE,
    LEGACY_URL,
    RELEASE_URL,
    Stage,
    keyset_url,
    status,
    text,
    tls,
)
from statements import URL


def build(corpus: Corpus) -> None:
    """Register them."""
    for make in (_redirects, _types):
        make(corpus)


def _redirects(corpus: Corpus) -> None:
    attack = corpus.attack(
        33,
        "redirects",
        "The server sends the verifier elsewhere",
        "A redirect leads past every check of the first URL: to plain http, to a host inside, to "
        "somebody else's card under our name. None is followed, and none is remembered.",
    )
    stage = Stage(attack)
    pin, by_url, by_keyset = stage.pinned(), stage.by_url(), stage.by_keyset()
    attack.standard = pin
    around: Json = {
        "names": {EVIL_HOST: [EVIL_HOME], "inside.example": ["10.0.0.1"]},
        "servers": {
            f"{EVIL_HOME}:443": tls(EVIL_HOST),
            f"{HOME}:80": {},
            "10.0.0.1:443": tls("inside.example"),
            "169.254.169.254:80": {},
        },
    }
    other = f"{ORIGIN}/other.json"
    there = {one: stage.said(stage.card) for one in (other, f"{EVIL}/card.json", LEGACY_URL)}

    def away(code: int, location: str | None) -> Json:
        return status(code, ["Location", location]) if location is not None else status(code)

    for id_, title, code, location in (
        ("cross-origin", "To another host", 302, f"{EVIL}/card.json"),
        ("same-origin", "To another path", 302, "/other.json"),
        ("legacy", "To the legacy path", 301, "/.well-known/agent.json"),
        ("permanent", "Permanently", 301, other),
        ("see-other", "303", 303, other),
        ("temporary", "307", 307, other),
        ("permanent-308", "308", 308, other),
        ("choices", "300", 300, other),
        ("proxy", "305: through a proxy", 305, f"{EVIL}/"),
        ("http", "To plain http", 302, URL.replace("https", "http")),
        ("inside", "To a host inside", 302, "https://inside.example/"),
        ("metadata", "To a cloud's metadata", 302, "http://169.254.169.254/latest/meta-data/"),
        ("file", "To a file", 302, "file:///etc/passwd"),
        ("data", "To a card in the URL", 302, "data:application/json,{}"),
        ("loop", "To itself", 302, URL),
        ("relative", "Without a scheme", 302, f"//{EVIL_HOST}/card.json"),
        ("userinfo", "To our host with a name", 302, f"https://me:secret@{HOST}/other.json"),
        ("empty", "Nowhere", 302, ""),
        ("missing", "Without saying where", 302, None),
    ):
        stage.refused(
            id_,
            title,
            INDETERMINATE,
            "fetch.status",
            policy=pin,
            **around,
            answers={**there, URL: away(code, location)},
        )
    stage.refused(
        "with-body",
        "With the honest card as its body",
        INDETERMINATE,
        "fetch.status",
        policy=pin,
        **around,
        answers={**there, URL: {**stage.said(stage.card), **away(302, other)}},
    )
    evil = ec_key("evil-1")
    theirs = {
        f"{EVIL}/jwks.json": stage.said(jwk_set(evil), "theirs"),
        URL: stage.said(signed(CARD, evil), "by-evil"),
        JWKS_URL: away(302, f"{EVIL}/jwks.json"),
    }
    stage.refused(
        "key-set",
        "The key set's URL leads to a stranger's",
        INDETERMINATE,
        "trust.no_keys",
        policy=by_url,
        **around,
        answers=theirs,
    )
    first = keyset_url(stage.first)
    for id_, title, url, code in (
        ("keyset", "The keyset's URL leads to where the same lies", first, "trust.no_keys"),
        ("release", "The release's", RELEASE_URL, "trust.freshness_unknown"),
    ):
        elsewhere = f"{EVIL}/{id_}.json"
        statement = stage.first if id_ == "keyset" else stage.release
        stage.refused(
            id_,
            title,
            INDETERMINATE,
            code,
            policy=by_keyset,
            **around,
            answers={url: away(302, elsewhere), elsewhere: stage.said(statement.data, "statement")},
        )
    stage.case(
        "not-remembered",
        "A permanent redirect, and then the card: it is asked for where it was",
        stage.step(
            {"verdict": INDETERMINATE, "code": "fetch.status"},
            **around,
            answers={
                **there,
                URL: status(
                    301, ["Location", f"{EVIL}/card.json"], ["Cache-Control", "max-age=31536000"]
                ),
            },
        ),
        stage.step(stage.good(pin), answers={URL: stage.said(stage.card)}),
        policy=pin,
        twin=True,
    )
    hints = (
        ("Refresh", f"0; url={EVIL}/card.json"),
        ("Content-Location", f"{EVIL}/card.json"),
        ("Location", f"{EVIL}/card.json"),
        ("Link", f'<{EVIL}/card.json>; rel="canonical"'),
        ("Alt-Svc", f'h2="{EVIL_HOST}:443"; ma=31536000; persist=1'),
        ("Strict-Transport-Security", "max-age=0"),
        ("Set-Cookie", "session=tracked; Max-Age=31536000"),
        ("Clear-Site-Data", '"*"'),
        ("Upgrade", "h2c"),
    )
    answer = stage.said(
        stage.card, headers=[list(one) for one in hints] + [["Cache-Control", "no-store"]]
    )
    twice = [
        stage.step(
            {**stage.good(pin), "unsent": ["tracked"]}, **around, answers={**there, URL: answer}
        ),
        stage.step({**stage.good(pin), "unsent": ["tracked"]}),
    ]
    stage.case(
        "headers-ignored",
        "The card, with every header that could lead elsewhere, twice",
        *twice,
        policy=pin,
        twin=True,
    )


def _types(corpus: Corpus) -> None:
    attack = corpus.attack(
        37,
        "wrong-answers",
        "An answer that is no card",
        "A portal's page, an error with a body, a part of a card, or nothing: only 200 with JSON "
        "is an answer, whatever the body looks like. Only 404 and 410 say that nothing is there.",
    )
    stage = Stage(attack)
    pin, by_url = stage.pinned(), stage.by_url()
    attack.standard = pin
    page = text("<!doctype html><title>Welcome</title><form action='/login'></form>")

    def typed(*types: str | None, body: Any = stage.card) -> Json:
        return {"body": body, "headers": [["Content-Type", one] for one in types]}

    for id_, title, answer in (
        ("html", "A page, 200", typed("text/html; charset=utf-8", body=page)),
        ("html-card", "The card as a page", typed("text/html")),
        ("text", "The card as text", typed("text/plain")),
        ("text-json", "As text/json", typed("text/json")),
        ("javascript", "As a script", typed("application/javascript")),
        ("jsonl", "As JSON Lines", typed("application/jsonl")),
        ("octets", "As octets", typed("application/octet-stream")),
        ("jose", "As JOSE", typed("application/jose")),
        ("suffix", "A suffix without a name", typed("application/+json")),
        ("two", "Two types", typed("application/json", "text/html")),
        ("listed", "Two types in one", typed("application/json, text/html")),
        ("none", "No type", typed(None)),
        ("empty-type", "An empty type", typed("")),
    ):
        stage.refused(
            id_, title, INDETERMINATE, "fetch.content_type", policy=pin, answers={URL: answer}
        )
    for code in (
        201,
        202,
        203,
        204,
        205,
        206,
        400,
        401,
        402,
        403,
        404,
        405,
        406,
        410,
        418,
        421,
        429,
        451,
        500,
        502,
        503,
        504,
        511,
    ):
        body = {} if code in (204, 205) else {"body": stage.card}
        stage.refused(
            f"status-{code}",
            f"The honest card with {code}",
            INDETERMINATE,
            "fetch.status",
            policy=pin,
            answers={URL: {"status": code, **body}},
        )
    stage.refused(
        "legacy-unasked",
        "The host's card is gone, and the legacy one is gone",
        INDETERMINATE,
        "fetch.status",
        url=ORIGIN,
        policy=pin,
        answers={URL: status(404)},
        asked=[URL, LEGACY_URL],
    )
    old = stage.said(stage.card)
    for code in (401, 403, 429, 500, 503):
        stage.refused(
            f"legacy-after-{code}",
            f"The canonical path says {code}, and the legacy one has a card",
            INDETERMINATE,
            "fetch.status",
            url=ORIGIN,
            policy=pin,
            answers={URL: status(code), LEGACY_URL: old},
            asked=[URL],
        )
    for id_, title, answer, code in (
        (
            "key-set-html",
            "A page instead of the key set",
            typed("text/html", body=page),
            "trust.no_keys",
        ),
        ("key-set-missing", "No key set", status(404), "trust.no_keys"),
        ("key-set-empty", "An empty body instead of the key set", {}, "trust.no_keys"),
        ("key-set-page", "A page that is declared as JSON", {"body": page}, "trust.no_keys"),
        (
            "key-set-error",
            "The key set with 500",
            {"status": 500, "body": stage.jwks},
            "trust.no_keys",
        ),
    ):
        stage.refused(id_, title, INDETERMINATE, code, policy=by_url, answers={JWKS_URL: answer})
    for id_, title, kind in (
        ("json", "As JSON", "application/json"),
        ("charset", "With a charset", "Application/JSON ; charset=utf-8"),
        ("a2a", "As A2A's JSON", "application/a2a+json"),
    ):
        stage.honest(id_, title, policy=pin, answers={URL: typed(kind)})
    stage.honest("host", "A host's card", url=ORIGIN, policy=pin)
    for code in (404, 410):
        stage.honest(
            f"legacy-after-{code}-honest",
            f"The canonical path says {code}: a host of old",
            url=ORIGIN,
            policy=pin,
            answers={URL: status(code), LEGACY_URL: old},
            asked=[URL, LEGACY_URL],
            warnings=["card.legacy_path"],
        )
    stage.honest(
        "jwk-set",
        "A key set as a key set",
        policy=by_url,
        answers={JWKS_URL: typed("application/jwk-set+json", body=stage.jwks)},
    )
