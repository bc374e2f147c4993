"""What `cardsign verify` prints: text for a person, SARIF for pipelines, one source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cardsign.batch import Outcome
from cardsign.cli.printer import escape
from cardsign.cli.sarif import sarif_log
from cardsign.errors import FileFault
from cardsign.findings import Finding, Place
from cardsign.verify.report import Answers, Report, SignatureReport
from cardsign.verify.text import verdict_lines
from tests.cli import peer
from tests.cli.conftest import Cardsign
from tests.jose.statement_making import key
from tests.support import LAX, by_another_sdk, dump, put

# ------------------------------------------------------------------ SARIF


ARTIFACTS = {
    "a relative path": ("cards/a b.json", {"uri": "cards/a%20b.json"}),
    "an absolute path": ("/srv/ü.json", {"uri": "file:///srv/%C3%BC.json"}),
    "a name with a colon": ("a:b.json", {"uri": "a%3Ab.json"}),
    "a name that hides its end": ("a\u202egnp.json", {"uri": "a%E2%80%AEgnp.json"}),
    "a name that is no UTF-8": ("a\udcff.json", {"uri": "a%FF.json"}),
    "a URL": ("https://a.example/b?c=%20", {"uri": "https://a.example/b?c=%20"}),
    "what is no URL": ("https://a.example/ <b>", {"uri": "https://a.example/%20%3Cb%3E"}),
    "standard input": ("(stdin)", {"description": {"text": "standard input"}}),
}


@pytest.mark.parametrize(("name", "location"), ARTIFACTS.values(), ids=ARTIFACTS)
def test_a_card_is_named_by_a_uri(name: str, location: dict[str, Any]) -> None:
    """RFC 3986 has it percent-encoded."""
    outcome = Outcome(name, FileFault("file.not_found", "gone"))
    (run,) = sarif_log([outcome.to_scan_result()], 2)["runs"]
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"] == location


def test_a_strangers_words_make_no_link_and_no_placeholder() -> None:
    """SARIF 2.1.0 3.11.5 and 3.11.6: braces are doubled, and brackets joined by nothing."""
    hostile = "see [the fix](https://evil.example/) or {0}"
    report = Report("invalid", None, Answers(), (Finding("sig.bad", hostile),))
    (run,) = sarif_log([Outcome("a.json", report).to_scan_result()], 1)["runs"]
    text = run["results"][0]["message"]["text"]
    assert "](" not in text
    assert "{{0}}" in text
    assert re.search(r"(?<!\{)\{(?!\{)", text) is None


# ------------------------------------------------------------------ text


HOSTILE = {
    "a terminal's commands": "\x1b]0;owned\x07\x1b[2J",
    "a line of our own": "x\n  current     yes      the issuer still calls the card current",
    "8-bit commands": "\x9b2J",
    "text that is turned round": "\u202e\u2066desrever",
    "characters without width": "a\u200bb\ufeff\u2060",
    "tags": "".join(chr(0xE0000 + ord(char)) for char in "hidden"),
    "fillers and selectors": "\u3164\uffa0\u034f\ufe0f\U000e0101\u2800",
    "lines of Unicode": "a\u2028b\u2029c\x85d",
    "private and missing characters": "\ue000\ufffe\U000e0fff",
}
SHOWN = re.compile(r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*")
INVISIBLE = re.compile(
    "[\u034f\u2800\u3164\ufe00-\ufe0f\uffa0\ue000-\uf8ff\ufffe\U000e0000-\U000e0fff]"
)


def tame(text: str) -> bool:
    """Whether every line is only what a terminal shows, in the order in which it stands."""
    return all(SHOWN.fullmatch(line) for line in text.split("\n")) and not INVISIBLE.search(text)


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE)
def test_a_strangers_words_cannot_deceive_a_terminal(words: str) -> None:
    """In whatever part of a verdict they stand; and the number of lines stays what it was."""
    assert not tame(words) or "\n" in words

    def verdict(text: str) -> str:
        reason = Finding("sig.bad", f"about {text}", Place(f"/{text}"), f"do {text}")
        signature = SignatureReport(0, text, "ES256", None, "valid", (), holder=text)
        report = Report(
            "trusted",
            f"subject {text}",
            Answers(),
            (reason,),
            (signature,),
            issuer=text,
            card={"name": text, "version": text},
        )
        return "\n".join(map(escape, verdict_lines(text, report, verbose=True)))

    shown = verdict(words)
    assert tame(shown)
    assert len(shown.splitlines()) == len(verdict("x").splitlines())


def test_a_signature_by_other_rules_does_not_read_like_tampering(cardsign: Cardsign) -> None:
    """The answers stay what they are; the words say what is true."""
    peer.write_cards()
    Path("pruned.json").write_bytes(dump(by_another_sdk(LAX, key("card"), "prune-empty")))
    asked = ("verify", "pruned.json", "--jwks", "jwks.json")
    assert cardsign(*asked, "--json").json["answers"]["integrity"] == "no"
    shown = cardsign(*asked, "--verbose").text
    kinder = "integrity   no       a signature fits what it covers, but"
    assert kinder in shown
    edited = put(json.loads(Path("signed.json").read_bytes()), "/name", "Ride tables")
    Path("edited.json").write_bytes(dump(edited))
    assert kinder not in cardsign("verify", "edited.json", *asked[2:], "-v").text
