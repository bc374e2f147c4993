"""What `cardsign verify` prints: text for a person, SARIF for pipelines, one source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cardsign.cli.printer import escape
from cardsign.cli.sarif import sarif_log, verdict_subject
from cardsign.errors import FileFault
from cardsign.findings import Finding, Place, describe_code
from cardsign.jose.keys import PrivateKey
from cardsign.verifier import Outcome
from cardsign.verify.report import Answers, Report, SignatureReport
from cardsign.verify.text import verdict_lines
from tests.cli import peer
from tests.cli.conftest import Cardsign
from tests.jose.statement_making import key
from tests.support import LAX, PORTABLE, by_another_sdk, dump, put, signed


@pytest.fixture
def cards(cardsign: Cardsign) -> list[str]:
    """One card of each kind: trusted, edited, unsigned, not JSON, of no known key, not there."""
    peer.write_cards()
    edited = put(json.loads(Path("signed.json").read_bytes()), "/name", "Ride tables")
    Path("edited.json").write_bytes(dump(edited))
    Path("half.json").write_bytes(b'{"name":\n  "Tide tables"')
    Path("stranger.json").write_bytes(dump(signed(PORTABLE, PrivateKey.generate("ES256"))))
    url = "https://me@tides.example/"
    return [f"{name}.json" for name in ("signed", "edited", "unsigned", "half", "stranger")] + [
        url, "absent.json",
    ]  # fmt: skip


def log(cardsign: Cardsign, *cards: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """The one run of the SARIF log about some cards."""
    ended = cardsign("verify", *cards, "--jwks", "jwks.json", "--format", "sarif", *options)
    assert ended.json["version"] == "2.1.0"
    (run,) = ended.json["runs"]
    assert run["invocations"][0]["exitCode"] == ended.status
    return run


# ------------------------------------------------------------------ SARIF


def test_a_log_has_a_result_for_every_reason(cardsign: Cardsign, cards: list[str]) -> None:
    """Errors decide, notes need no action; the trusted card passes; a fault is no finding."""
    run = log(cardsign, *cards)
    found: dict[str, list[tuple[str, str]]] = {}
    for result in run["results"]:
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        found.setdefault(uri, []).append((result["ruleId"], result["level"]))
    assert found["signed.json"] == [("trusted", "none"), ("trust.freshness_waived", "note")]
    assert found["edited.json"] == [("sig.bad", "error")]
    assert found["unsigned.json"] == [("sig.none", "error")]
    assert found["half.json"] == [("json.syntax", "error")]
    assert found["stranger.json"][0] == ("key.unknown", "error")
    assert found["https://...@tides.example/"] == [("fetch.url", "error")]
    assert "absent.json" not in found
    invocation = run["invocations"][0]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["descriptor"]["id"] == "file.not_found"


def test_rules_are_those_that_are_used(cardsign: Cardsign, cards: list[str]) -> None:
    """With meaning and hint of the registry, each once."""
    run = log(cardsign, *cards)
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert len(rules) == len(run["tool"]["driver"]["rules"])
    assert set(rules) == {result["ruleId"] for result in run["results"]}
    assert rules["sig.bad"]["shortDescription"]["text"] == describe_code("sig.bad").title
    assert rules["sig.bad"]["help"]["text"] == describe_code("sig.bad").fix


def test_a_trusted_card_passes(cardsign: Cardsign, cards: list[str]) -> None:
    """And the tool ran well."""
    run = log(cardsign, "signed.json")
    assert run["results"][0]["kind"] == "pass"
    assert run["invocations"] == [{"executionSuccessful": True, "exitCode": 0}]


def test_an_indeterminate_verdict_is_an_error(cardsign: Cardsign, cards: list[str]) -> None:
    """A reader that shows findings alone must not show nothing."""
    ended = cardsign("verify", "signed.json", "--format", "sarif")
    assert ended.status == 3
    (run,) = ended.json["runs"]
    assert run["results"][0]["level"] == "error"
    assert run["results"][0]["ruleId"] == "trust.no_anchor"


def test_a_result_says_where(cardsign: Cardsign, cards: list[str]) -> None:
    """Line and column where the text cannot be read, a pointer where a member is meant."""
    half = log(cardsign, "half.json")["results"][0]["locations"][0]
    assert half["physicalLocation"]["region"] == {"startLine": 2, "startColumn": 16}
    edited = log(cardsign, "edited.json")["results"][0]["locations"][0]
    assert edited["logicalLocations"] == [{"fullyQualifiedName": "/signatures/0", "kind": "member"}]
    assert "region" not in edited["physicalLocation"]


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
    (run,) = sarif_log([verdict_subject(Outcome(name, FileFault("file.not_found", "gone")))], 2)[
        "runs"
    ]
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"] == location


def test_a_strangers_words_make_no_link_and_no_placeholder() -> None:
    """SARIF 2.1.0 3.11.5 and 3.11.6: braces are doubled, and brackets joined by nothing."""
    hostile = "see [the fix](https://evil.example/) or {0}"
    report = Report("invalid", None, Answers(), (Finding("sig.bad", hostile),))
    (run,) = sarif_log([verdict_subject(Outcome("a.json", report))], 1)["runs"]
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


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE)
def test_a_strangers_words_cannot_deceive_a_terminal(words: str, verbose: bool) -> None:
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
        return "\n".join(map(escape, verdict_lines(text, report, verbose=verbose)))

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


def test_a_verdict_is_short_unless_more_is_asked_for(cardsign: Cardsign) -> None:
    """Whose card; then only what decided. An unknown key and a refused header are said truly."""
    peer.write_cards()
    asked = ("--jwks", "jwks.json")
    assert cardsign("verify", "signed.json", *asked).text.splitlines() == [
        "trusted: signed.json, a card of the holder of the keys in jwks.json",
        '  "Tide tables", version 1.2.0',
        "  current: not checked (a key set alone cannot show revocation)",
    ]
    card = json.loads(Path("signed.json").read_bytes())
    Path("edited.json").write_bytes(dump({**card, "name": "x"}))
    first, code, hint = cardsign("verify", "edited.json", *asked).text.splitlines()
    assert first == "invalid: edited.json, expected a card of the holder of the keys in jwks.json"
    assert code.startswith("  sig.bad: ")
    assert hint.startswith("      ")
    Path("stranger.json").write_bytes(dump(signed(PORTABLE, PrivateKey.generate("ES256"))))
    stranger = cardsign("verify", "stranger.json", *asked, "--verbose").text
    assert "integrity   unknown  no signature is by a key that you accept" in stranger
    hs256 = {**card["signatures"][0], "protected": "eyJhbGciOiJIUzI1NiIsImtpZCI6IngifQ"}
    Path("hs256.json").write_bytes(dump({**card, "signatures": [hs256]}))
    refused = cardsign("verify", "hs256.json", *asked, "--verbose").text
    assert "signature 0 refused, does not count: its header was not accepted" in refused
    assert "no alg" not in refused


def test_an_issuer_comes_before_the_cards_words(cardsign: Cardsign) -> None:
    """A provider's name is a claim; the policy's name is what was verified."""
    peer.enrol(cardsign)
    lines = cardsign(
        "verify", "signed.json", "--issuer", "tides", "--statements", "statements", "-v"
    ).text.splitlines()
    places = [line.split()[0] for line in lines]
    assert places[0] == "trusted:"
    assert places.index("issuer") < places.index("card")
    assert not any("Harbour office" in line for line in lines)
