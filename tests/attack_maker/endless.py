"""Attack 36 as transcripts: answers that are too long, too slow, or not what they say."""

from __future__ import annotations

import gzip
from typing import Any

from corpus import JWKS_URL, Corpus
from crafting import Json
from stage import (
    HOME,
    HOST,
    INDETERMINATE,
    RELEASE_URL,
    Stage,
    keyset_url,
    text,
)
from statements import URL

_MOST = 256 * 1024
#: Bytes that a verifier may have taken before it hangs up: the limit, and what buffers hold.
_TAKEN = {"taken": 2_000_000}
_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_BLANKS = "1000\r\n" + " " * 4096 + "\r\n"
_CHUNKED = f"{_HEAD}Transfer-Encoding: chunked\r\n\r\n"


def build(corpus: Corpus) -> None:
    """Register it."""
    _sizes(corpus)


def _sizes(corpus: Corpus) -> None:
    attack = corpus.attack(
        36,
        "endless",
        "Answers that are too long, too slow, or not what they say",
        "A peer who never comes to an end, or sends a little that becomes much, keeps a verifier "
        "busy for ever. Bytes and seconds are bounded, for all of an answer; what is cut off or "
        "contradicts itself is not read.",
    )
    stage = Stage(attack)
    pin, by_url = stage.pinned(), stage.by_url()
    attack.standard = pin
    card = stage.house.card()
    content = text(card)
    long = str(len(card) + 999)

    def raw(*parts: str, **more: Any) -> Json:
        return {"raw": text("".join(parts)), **more}

    def forever(send: str, every: float = 0, times: int = 1) -> Json:
        return {"then": {"send": text(send, times), "every": every}}

    hostile: tuple[tuple[str, str, str, Json], ...] = (
        (
            "too-large",
            "One byte more than the limit",
            "fetch.too_large",
            {
                "body": {
                    "pieces": [*content["pieces"], {"text": " ", "times": _MOST + 1 - len(card)}]
                }
            },
        ),
        (
            "too-large-chunked",
            "The same in chunks",
            "fetch.too_large",
            {
                "body": {
                    "pieces": [*content["pieces"], {"text": " ", "times": _MOST + 1 - len(card)}]
                },
                "framing": "chunked",
                "parts": 40,
            },
        ),
        (
            "huge-length",
            "A length of 99,999,999,999 and then nothing",
            "fetch.too_large",
            raw(_HEAD, "Content-Length: 99999999999\r\n\r\n", then="silence"),
        ),
        (
            "endless-chunks",
            "Chunks without an end",
            "fetch.too_large",
            raw(_CHUNKED, **forever("2000\r\n" + " " * 8192 + "\r\n")),
        ),
        (
            "endless-body",
            "A body without an end",
            "fetch.too_large",
            raw(_HEAD, "\r\n", **forever(" ", times=8192)),
        ),
        (
            "endless-headers",
            "Headers without an end",
            "fetch.failed",
            raw(_HEAD, **forever("X-Berth: " + "x" * 1000 + "\r\n")),
        ),
        (
            "endless-header",
            "One header without an end",
            "fetch.failed",
            raw(_HEAD, "X-Berth: ", **forever("x", times=8192)),
        ),
        (
            "endless-trailers",
            "Trailers without an end",
            "fetch.failed",
            raw(_CHUNKED, "2\r\n{}\r\n0\r\n", **forever("X-Berth: " + "x" * 1000 + "\r\n")),
        ),
        (
            "interim",
            "Interim answers without an end",
            "fetch.timeout",
            raw(**forever("HTTP/1.1 100 Go on\r\n\r\n", every=1)),
        ),
        ("silence", "Nothing", "fetch.timeout", raw(then="silence")),
        (
            "silent-body",
            "Half the card and then nothing",
            "fetch.timeout",
            raw(_HEAD, f"Content-Length: {long}\r\n\r\n", card.decode(), then="silence"),
        ),
        (
            "dripping-headers",
            "A byte of headers each second",
            "fetch.timeout",
            raw(_HEAD, "X-Berth: ", **forever("x", every=1)),
        ),
        (
            "dripping-body",
            "A byte of the body each second",
            "fetch.timeout",
            raw(_HEAD, "Content-Length: 9999\r\n\r\n", **forever(" ", every=1)),
        ),
        (
            "dripping-chunks",
            "A chunk of one byte each second",
            "fetch.timeout",
            raw(_CHUNKED, **forever("1\r\n \r\n", every=1)),
        ),
        (
            "more-declared",
            "A length that is more than what comes",
            "fetch.failed",
            {"body": stage.card, "headers": [["Content-Length", long]]},
        ),
        (
            "two-lengths",
            "Two lengths",
            "fetch.failed",
            {
                "body": stage.card,
                "headers": [["Content-Length", str(len(card))], ["Content-Length", long]],
            },
        ),
        (
            "negative-length",
            "A negative length",
            "fetch.failed",
            {"body": stage.card, "headers": [["Content-Length", "-1"]]},
        ),
        (
            "unfinished-chunks",
            "Chunks that are not ended",
            "fetch.failed",
            raw(_CHUNKED, f"{len(card):x}\r\n", card.decode(), "\r\n"),
        ),
        (
            "chunk-size",
            "A chunk whose size is no number",
            "fetch.failed",
            raw(_CHUNKED, "zz\r\n", card.decode(), "\r\n0\r\n\r\n"),
        ),
        (
            "gzip",
            "Compressed, as it says",
            "fetch.encoding",
            {"body": stage.card, "headers": [["Content-Encoding", "gzip"]]},
        ),
        (
            "brotli-too",
            "Identity and brotli",
            "fetch.encoding",
            {"body": stage.card, "headers": [["Content-Encoding", "identity, br"]]},
        ),
        (
            "gzip-transfer",
            "Compressed on the way",
            "fetch.failed",
            raw(_HEAD, "Transfer-Encoding: gzip, chunked\r\n\r\n"),
        ),
        ("garbage", "No HTTP", "fetch.failed", raw("\0\x01\x02" * 99)),
        ("mail", "A mail server", "fetch.failed", raw("220 tides.example ESMTP\r\n")),
        ("http-0-9", "HTTP/0.9", "fetch.failed", {"raw": stage.card}),
        ("hung-up", "It hangs up", "fetch.failed", raw()),
        (
            "switching",
            "Another protocol",
            "fetch.failed",
            raw("HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
        ),
    )
    for id_, title, code, answer in hostile:
        stage.refused(
            id_, title, INDETERMINATE, code, policy=pin, answers={URL: answer}, expecting=_TAKEN
        )
    bomb = stage.place("bomb", _bomb())
    stage.refused(
        "gzip-bomb",
        "10 MB of space in 10 kB",
        INDETERMINATE,
        "fetch.encoding",
        policy=pin,
        answers={URL: {"body": bomb, "headers": [["Content-Encoding", "gzip"]]}},
        expecting=_TAKEN,
    )
    stage.refused(
        "gzip-undeclared",
        "The same, and it does not say so",
        "invalid",
        "json.not_utf8",
        policy=pin,
        answers={URL: {"body": bomb}},
    )
    short = [["Content-Length", str(len(card) - 9)]]
    stage.refused(
        "less-declared",
        "A length that is less than what comes: the rest is no part of it",
        "invalid",
        "json.syntax",
        policy=pin,
        answers={URL: {"body": stage.card, "headers": short}},
    )
    stage.refused(
        "silent-server",
        "Nobody speaks TLS",
        INDETERMINATE,
        "fetch.timeout",
        policy=pin,
        servers={f"{HOME}:443": "silent"},
    )
    stage.refused(
        "silent-resolver",
        "The name is never answered",
        INDETERMINATE,
        "fetch.timeout",
        policy=pin,
        names={HOST: "silent"},
        expecting={"reached": []},
    )
    for id_, title, answer in (
        (
            "key-set-endless",
            "A key set without an end",
            raw(_CHUNKED, **forever(_BLANKS)),
        ),
        (
            "key-set-large",
            "A key set of one byte more than 64 KiB",
            {"body": {"pieces": [{"file": stage.jwks}, {"text": " ", "times": 65536}]}},
        ),
        (
            "key-set-gzip",
            "A compressed key set",
            {"body": stage.jwks, "headers": [["Content-Encoding", "gzip"]]},
        ),
        (
            "key-set-cut",
            "A key set that is cut off",
            {"body": stage.jwks, "headers": [["Content-Length", "9999"]]},
        ),
    ):
        stage.refused(
            id_,
            title,
            INDETERMINATE,
            "trust.no_keys",
            policy=by_url,
            answers={JWKS_URL: answer},
            expecting=_TAKEN,
        )
    _statements(stage)
    filled = {"pieces": [*content["pieces"], {"text": " ", "times": _MOST - len(card)}]}
    for id_, title, answer in (
        ("whole", "With its length", {"body": stage.card}),
        ("chunked", "In three chunks", {"body": stage.card, "framing": "chunked", "parts": 3}),
        ("until-closed", "Until the connection ends", {"body": stage.card, "framing": "close"}),
        ("http-1-0", "In HTTP/1.0", {"body": stage.card, "framing": "close", "version": "1.0"}),
        (
            "identity",
            "As identity",
            {"body": stage.card, "headers": [["Content-Encoding", "identity"]]},
        ),
        ("largest", "256 KiB to the byte", {"body": filled}),
        (
            "largest-chunked",
            "The same in chunks",
            {"body": filled, "framing": "chunked", "parts": 9},
        ),
        ("slow", "Slowly, but in time", {"body": stage.card, "parts": 3, "pause": 1}),
        (
            "early-hints",
            "After an interim answer",
            raw(
                "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
                _HEAD,
                f"Content-Length: {len(card)}\r\n\r\n",
                card.decode(),
            ),
        ),
    ):
        stage.honest(id_, title, policy=pin, answers={URL: answer})
    stage.honest("key-set", "A key set", policy=by_url)


def _statements(stage: Stage) -> None:
    """The same of what the verdict rests on."""
    by_keyset = stage.by_keyset()
    padding = {"text": " ", "times": 65536}
    for url, one, code in (
        (keyset_url(stage.first), stage.first, "trust.no_keys"),
        (RELEASE_URL, stage.release, "trust.freshness_unknown"),
    ):
        body = stage.said(one.data, one.label)["body"]
        endless: Json = {"raw": text(_CHUNKED), "then": {"send": text(_BLANKS), "every": 0}}
        for id_, title, answer in (
            ("endless", "without an end", endless),
            ("large", "of more than 64 KiB", {"body": {"pieces": [{"file": body}, padding]}}),
            ("gzip", "compressed", {"body": body, "headers": [["Content-Encoding", "gzip"]]}),
            ("cut", "cut off", {"body": body, "headers": [["Content-Length", "99999"]]}),
            ("silence", "that never comes", {"raw": text(_HEAD), "then": "silence"}),
        ):
            stage.refused(
                f"{one.kind}-{id_}",
                f"A {one.kind} statement {title}",
                INDETERMINATE,
                code,
                policy=by_keyset,
                answers={url: answer},
                expecting=_TAKEN,
            )
    stage.honest("statements", "Statements", policy=by_keyset)


def _bomb() -> bytes:
    return gzip.compress(b" " * 10_000_000, mtime=0)
