"""Finding 11 as transcripts: who asks for credentials."""

from __future__ import annotations

from corpus import Corpus
from crafting import CARD, Json, at_url, signed
from stage import (
    EVIL,
    EVIL_HOME,
    EVIL_HOST,
    INDETERMINATE,
    UNTRUSTED,
    Stage,
    status,
    tls,
)
from statements import URL


def build(corpus: Corpus) -> None:
    """Register it."""
    _credentials(corpus)


def _credentials(corpus: Corpus) -> None:
    attack = corpus.attack(
        111,
        "challenges",
        "Whoever asks for credentials is sent them",
        "A server without any key answers 401 and names its own token endpoint, or a card names an "
        "interface elsewhere, and the client goes there with its token. A challenge explains and "
        "nothing more; only the verified card, inside the issuer's origins, says where to go.",
    )
    attack.tests(
        "tests/net/test_extended.py::test_no_answer_leads_the_token_elsewhere",
        "tests/net/test_extended.py::test_nothing_is_sent_on_the_word_of_a_card_that_is_not_trusted",
    )
    stage = Stage(attack)
    pin = stage.pinned()
    attack.standard = pin
    key = stage.house.key("card")
    around: Json = {
        "names": {EVIL_HOST: [EVIL_HOME]},
        "servers": {f"{EVIL_HOME}:443": tls(EVIL_HOST)},
    }
    for id_, title, challenge in (
        ("metadata", "Metadata elsewhere", f'Bearer resource_metadata="{EVIL}/.well-known/oauth"'),
        ("realm", "A realm elsewhere", f'Bearer realm="{EVIL}/token", scope="all"'),
        ("basic", "Any password", 'Basic realm="Agent cards"'),
        ("negotiate", "The machine's own ticket", "Negotiate"),
        ("digest", "A digest", 'Digest realm="x", nonce="1", uri="/"'),
    ):
        stage.refused(
            id_,
            f"401: {title}",
            INDETERMINATE,
            "fetch.status",
            policy=pin,
            **around,
            answers={URL: status(401, ["WWW-Authenticate", challenge])},
            expecting={"times": {URL: 1}, "unsent": ["Authorization:", "Cookie:"]},
        )
    stage.refused(
        "proxy",
        "407",
        INDETERMINATE,
        "fetch.status",
        policy=pin,
        **around,
        answers={URL: status(407, ["Proxy-Authenticate", 'Basic realm="x"'])},
        expecting={"times": {URL: 1}, "unsent": ["Proxy-Authorization:"]},
    )
    far = at_url(f"{EVIL}/a2a")
    stage.refused(
        "interface-signed",
        "The right key has signed an interface elsewhere",
        UNTRUSTED,
        "card.origin_mismatch",
        policy=pin,
        **around,
        answers={URL: stage.said(signed(far, key), "far")},
    )
    changed = {**signed(CARD, key), "supportedInterfaces": far["supportedInterfaces"]}
    stage.refused(
        "interface-changed",
        "The interface was changed on the way",
        "invalid",
        "sig.bad",
        policy=pin,
        **around,
        answers={URL: stage.said(changed, "changed")},
    )
    challenge = ["WWW-Authenticate", f'Bearer resource_metadata="{EVIL}/.well-known/oauth"']
    stage.honest(
        "card",
        "The card, with a challenge that nobody asked for",
        policy=pin,
        **around,
        answers={URL: stage.said(stage.card, headers=[challenge])},
        expecting={"unsent": ["Authorization:", "Cookie:"]},
    )
