"""Attack 38 as transcripts: servers that cannot show who they are."""

from __future__ import annotations

from typing import Any

from corpus import NOW, Corpus, refused
from stage import (
    EVIL_HOST,
    HOME,
    HOST,
    INDETERMINATE,
    Stage,
    tls,
)
from statements import DAY, HOUR, URL, yes


def build(corpus: Corpus) -> None:
    """Register it."""
    _certificates(corpus)


def _certificates(corpus: Corpus) -> None:
    attack = corpus.attack(
        38,
        "certificates",
        "A server that cannot show who it is",
        "Without TLS to exactly this name, whoever is on the way supplies the card, or says that "
        "there is none. No certificate is let pass, for the card, the keys or the statements.",
    )
    stage = Stage(attack)
    pin, by_keyset = stage.pinned(), stage.by_keyset()
    attack.standard = pin
    flaws: tuple[tuple[str, str, Any], ...] = (
        ("other-name", "Another host's", tls(EVIL_HOST)),
        ("parent-name", "The name above", tls("example")),
        ("below-name", "A name below", tls(f"www.{HOST}")),
        ("wildcard-below", "A wildcard for names below", tls(f"*.{HOST}")),
        ("prefix", "A name that ends like ours", tls(f"not{HOST}")),
        ("address", "The address, not the name", tls(HOME)),
        ("expired", "Expired", tls(flaw="expired")),
        ("not-yet", "Not valid yet", tls(flaw="not-yet")),
        ("self-signed", "Self-signed", tls(flaw="self-signed")),
        ("stranger", "Of an unknown authority", tls(flaw="stranger")),
        ("plain", "No TLS at all", {}),
    )
    for id_, title, server in flaws:
        stage.refused(
            id_,
            title,
            INDETERMINATE,
            "fetch.tls",
            policy=pin,
            servers={f"{HOME}:443": server},
            expecting={"times": {URL: 0}},
        )
    keys = "keys.example"
    elsewhere = stage.by_url("by-url-elsewhere.toml", f"https://{keys}/")
    for id_, title, server in (
        *(
            (f"key-set-{id_}", f"{title}, and it is the key set's", server)
            for id_, title, server in flaws
            if id_ in ("expired", "self-signed", "plain")
        ),
        ("key-set-other-name", "The key set's host shows the card's certificate", tls()),
    ):
        stage.refused(
            id_,
            title,
            INDETERMINATE,
            "trust.no_keys",
            policy=elsewhere,
            names={keys: ["93.184.215.15"]},
            servers={"93.184.215.15:443": server},
            answers={f"https://{keys}/": stage.said(stage.jwks)},
            asked=[URL, f"https://{keys}/"],
        )
    between = {"servers": {f"{HOME}:443": tls(flaw="self-signed")}}
    stale = stage.good(by_keyset, ["fetch.stale", "refresh.no_answer"])
    withheld = (stage.step(yes()), stage.step(stale, now=NOW + HOUR, **between))
    stage.case(
        "later",
        "Somebody is between from the second visit on, until what was seen has expired",
        *withheld,
        stage.step(refused(INDETERMINATE, "statement.expired"), now=NOW + 8 * DAY),
        policy=by_keyset,
    )
    stage.case(
        "later-still-held",
        "The same, while what was seen holds",
        *withheld,
        policy=by_keyset,
        twin=True,
    )
    for id_, title, server in (
        ("right-name", "The right name", tls()),
        ("among-others", "The right name among others", tls(EVIL_HOST, HOST)),
    ):
        stage.honest(id_, title, policy=pin, servers={f"{HOME}:443": server})
    shown = {"names": {keys: ["93.184.215.15"]}, "servers": {"93.184.215.15:443": tls(keys)}}
    stage.honest(
        "key-set",
        "The key set's host shows its own",
        policy=elsewhere,
        **shown,
        answers={f"https://{keys}/": stage.said(stage.jwks)},
        asked=[URL, f"https://{keys}/"],
    )
