"""What `cardsign verify` prints: text for a person, SARIF for pipelines, one source."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cardsign.batch import Outcome
from cardsign.cli.sarif import sarif_log
from cardsign.errors import FileFault
from cardsign.findings import Finding
from cardsign.verify.report import Answers, Report
from tests.cli import peer
from tests.cli.conftest import Cardsign
from tests.statements.making import key
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
