"""Finding 13 as transcripts: statements that are withheld, and paths that vanish."""

from __future__ import annotations

from typing import Any, Final

from corpus import JWKS_URL, NOW, Attack, jwk_set, refused
from crafting import OLD, ORIGIN, signed
from stage import (
    EVIL,
    EXPIRED,
    INDETERMINATE,
    LATER,
    LEGACY_URL,
    RELEASE_URL,
    STATEMENTS,
    UNANSWERED,
    UNTRUSTED,
    Stage,
    keyset_url,
    status,
    text,
)
from statements import DAY, URL, yes


def frozen(attack: Attack) -> None:
    """Finding 13: by headers, by statuses, by a path that vanishes."""
    stage = Stage(attack)
    by_keyset = stage.by_keyset()
    _lengthened(stage, by_keyset)
    _shortened(stage, by_keyset)
    _withheld(stage, by_keyset)
    _vanished(stage, by_keyset)


def _lengthened(stage: Stage, policy: str) -> None:
    """HTTP says that nothing will change for a year, and something does."""
    by_url = stage.by_url()
    revoked = stage.statements(stage.revoking())
    without = {JWKS_URL: stage.said(jwk_set(stage.house.key("card2")), "jwks-without")}
    for id_, headers in _LENGTHENING.items():
        long = {"headers": [list(one) for one in headers]}
        answers = {
            URL: stage.said(stage.card, **long),
            RELEASE_URL: stage.said(stage.release.data, "release", **long),
            keyset_url(stage.first): stage.said(stage.first.data, "keyset", **long),
        }
        shown = "; ".join(f"{name}: {value}" for name, value in headers)
        stage.case(
            f"header-{id_}",
            f"{shown}. Five minutes later the key is revoked",
            stage.step(yes(), answers=answers),
            stage.step(refused(UNTRUSTED, "key.revoked"), now=LATER, answers=revoked),
            policy=policy,
        )
        stage.case(
            f"set-header-{id_}",
            f"{shown}, of a key set. Five minutes later the key is gone",
            stage.step(stage.good(by_url), answers={JWKS_URL: stage.said(stage.jwks, **long)}),
            stage.step(refused(UNTRUSTED, "key.unknown"), now=LATER, answers=without),
            policy=by_url,
        )
        if id_ in ("year", "expires"):
            stage.case(
                f"header-{id_}-honest",
                f"{shown}, and nothing has happened",
                stage.step(yes(), answers=answers),
                stage.step(yes(), now=LATER),
                policy=policy,
                twin=True,
            )


def _shortened(stage: Stage, policy: str) -> None:
    """HTTP says that an answer is soon of no use: then it is not used for our own five minutes."""
    revoked = stage.statements(stage.revoking())
    for id_, headers in _SHORTENING.items():
        short = {"headers": [list(one) for one in headers]}
        answers = {RELEASE_URL: stage.said(stage.release.data, "release", **short)}
        shown = "; ".join(f"{name}: {value}" for name, value in headers)
        stage.case(
            f"shortened-{id_}",
            f"{shown}. Half a minute later the key is revoked",
            stage.step(yes(), answers=answers),
            stage.step(refused(UNTRUSTED, "key.revoked"), now=NOW + 30, answers=revoked),
            policy=policy,
        )
        stage.case(
            f"shortened-{id_}-honest",
            f"{shown}. Half a minute later nothing has happened",
            stage.step(yes(), answers=answers),
            stage.step(yes(), now=NOW + 30),
            policy=policy,
            twin=True,
        )


#: What a server may say to be asked more often; nonsense says so, too.
_SHORTENING: Final = {
    "max-age": [("Cache-Control", "max-age=10")],
    "zero": [("Cache-Control", "max-age=0")],
    "no-cache": [("Cache-Control", "no-cache")],
    "no-store": [("Cache-Control", "no-store")],
    "aged": [("Cache-Control", "max-age=300"), ("Age", "290")],
    "expires": [
        ("Date", "Sat, 21 Nov 2026 12:00:00 GMT"),
        ("Expires", "Sat, 21 Nov 2026 12:00:10 GMT"),
    ],
    "expires-zero": [("Date", "Sat, 21 Nov 2026 12:00:00 GMT"), ("Expires", "0")],
    "nonsense": [("Cache-Control", "max-age=soon")],
}
_YEAR: Final = "31536000"
#: What a content network may say to be asked less often.
_LENGTHENING: Final = {
    "year": [("Cache-Control", f"max-age={_YEAR}")],
    "immutable": [("Cache-Control", f"public, max-age={_YEAR}, immutable")],
    "shared": [("Cache-Control", f"s-maxage={_YEAR}")],
    "stale": [
        ("Cache-Control", f"max-age=1, stale-while-revalidate={_YEAR}, stale-if-error={_YEAR}")
    ],
    "expires": [
        ("Date", "Sat, 21 Nov 2026 12:00:00 GMT"),
        ("Expires", "Fri, 22 Nov 2099 12:00:00 GMT"),
    ],
    "expires-alone": [("Expires", "Fri, 22 Nov 2099 12:00:00 GMT")],
    "date-ahead": [
        ("Cache-Control", f"max-age={_YEAR}"),
        ("Date", "Fri, 22 Nov 2099 12:00:00 GMT"),
    ],
    "age-negative": [("Cache-Control", f"max-age={_YEAR}"), ("Age", f"-{_YEAR}")],
    "overflow": [("Cache-Control", "max-age=99999999999999999999")],
    "twice": [("Cache-Control", f"max-age={_YEAR}"), ("Cache-Control", f"max-age={_YEAR}9")],
    "modified": [("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT")],
    "network": [
        ("CDN-Cache-Control", f"max-age={_YEAR}"),
        ("Surrogate-Control", f"max-age={_YEAR}"),
    ],
}


def _withheld(stage: Stage, policy: str) -> None:
    """The next release, or the next keyset, is there and somebody hides it."""
    statuses: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
        ("304", status(304), ()),
        ("401", status(401), ()),
        ("403", status(403), ()),
        ("404", status(404), ("statement.vanished",)),
        ("410", status(410), ("statement.vanished",)),
        ("429", status(429, ["Retry-After", _YEAR]), ()),
        ("500", status(500), ()),
        ("503", status(503), ()),
        ("redirect", status(301, ["Location", f"{EVIL}/release.json"]), ()),
        ("page", stage.said(text("<p>404</p>"), headers=[["Content-Type", "text/html"]]), ()),
        ("page-as-json", stage.said(text("<p>404</p>")), ("statement.shape",)),
        ("old", None, ()),
    )
    met = stage.step(yes())
    for id_, answer, codes in statuses:
        hidden = {} if answer is None else {"answers": {RELEASE_URL: answer}}
        silent = [] if answer is None or id_ == "page-as-json" else [UNANSWERED]
        until = stage.step(yes(*codes, *silent), now=LATER, **hidden)
        what = "The old release is shown" if answer is None else f"The release answers {id_}"
        stage.case(
            f"release-{id_}",
            f"{what}, until what was seen has expired",
            met,
            until,
            stage.step(refused(INDETERMINATE, EXPIRED), now=NOW + 7 * DAY),
            policy=policy,
        )
        stage.case(
            f"release-{id_}-over",
            f"{what} for a while",
            met,
            until,
            stage.step(
                yes(),
                now=NOW + 2 * DAY,
                answers=stage.statements(
                    stage.house.release(stage.first, seq=7, label="release-7")
                ),
            ),
            policy=policy,
            twin=True,
        )
    second = stage.house.after(stage.first, keys=stage.house.entries("card", "card2", "rel"))
    newest = stage.statements(stage.house.release(second, seq=6, label="release-of-2"))
    by_new = {URL: stage.said(stage.house.card("card2"), "card-by-2")}
    for id_, answer, _ in statuses[:10]:
        hidden = {**newest, keyset_url(second): answer}
        stage.case(
            f"keyset-{id_}",
            f"The release names a keyset that answers {id_}",
            stage.step(refused(INDETERMINATE, "statement.keyset"), answers=hidden),
            policy=policy,
        )
    shown = yes("statement.keyset", "statement.gap", UNANSWERED)
    stage.case(
        "keyset-hidden-held",
        "The same to one who holds the release before, until that has expired",
        met,
        stage.step(shown, now=LATER, answers={**newest, keyset_url(second): status(403)}),
        stage.step(refused(INDETERMINATE, EXPIRED), now=NOW + 7 * DAY),
        policy=policy,
    )
    stage.case(
        "keyset-hidden-new-key",
        "The same, and only the keyset knows the card's key",
        met,
        stage.step(
            refused(UNTRUSTED, "key.unknown"),
            now=LATER,
            answers={**by_new, **newest, keyset_url(second): status(404)},
        ),
        policy=policy,
    )
    for id_, title, card in (("old", "known", {}), ("new", "new", by_new)):
        stage.case(
            f"keyset-followed-{id_}-key",
            f"The release names a keyset, which is there; the key is {title}",
            met,
            stage.step(yes(), now=LATER, answers={**card, **newest, **stage.statements(second)}),
            policy=policy,
            twin=True,
        )


def _vanished(stage: Stage, policy: str) -> None:
    """The card of a host disappears, and an older one is where cards used to be."""
    old = {LEGACY_URL: stage.said(signed(OLD, stage.house.key("card")), "old")}
    met = stage.step(yes(), url=ORIGIN, answers=old, asked=[URL, f"{STATEMENTS}/*"])
    for code in (404, 410):
        gone = refused(INDETERMINATE, "card.vanished", first=True)
        for id_, how in (("", {}), ("-restarted", {"restart": True})):
            stage.case(
                f"card-{code}{id_}",
                f"The card answers {code} after it was seen{id_[:1] and ', also later'}",
                met,
                stage.step(gone, url=ORIGIN, now=LATER, answers={URL: status(code)}, **how),
                policy=policy,
            )
    stage.case(
        "card-500",
        "The card answers 500 after it was seen: what was seen holds",
        met,
        stage.step(yes("fetch.stale"), url=ORIGIN, now=LATER, answers={URL: status(500)}),
        policy=policy,
        twin=True,
    )
