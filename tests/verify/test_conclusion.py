"""From signatures to one verdict: who must have signed, what is missing, and until when (V2-V8)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from cardsign.findings import Finding
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.trust.policy import KeysAnchor, Limits, Policy, Subject, TrustedIssuer
from cardsign.urls import parse_place
from cardsign.verify.report import StatementUsed
from tests.statements.making import DAY, T0, URL, Members, entry, key, later
from tests.support import (
    NOW,
    PORTABLE,
    WITH_DEFAULTS,
    by_another_sdk,
    codes,
    dump,
    put,
    reach_verdict,
)
from tests.trust.establishing import ORIGIN
from tests.trust.histories import digest_of, keyset
from tests.verify.tides import Tides, card_of, current

# ------------------------------------------------------------------ required holders


def shared(**changes: Members) -> bytes:
    """A keyset with two keys of the harbour, one of a registry and one that only releases."""
    keys = {
        "card": entry("card", "card"),
        "card2": entry("card2", "card"),
        "registry": entry("registry", "card", holder="registry"),
        "rel": entry("rel", "release", holder="registry"),
        **changes,
    }
    return keyset("ann", "bob", keys=list(keys.values()))


BOTH = ("harbour", "registry")


def test_pinned_keys_count_for_the_holders_that_the_policy_names() -> None:
    """A key without a holder counts for nobody."""
    keys = JwkSet.of(key(name).public for name in ("card", "registry"))
    kids = [key(name).public.kid for name in ("card", "registry")]
    named = KeysAnchor(keys, dict(zip(kids, BOTH, strict=True)))
    for anchor, verdict in ((named, "trusted"), (KeysAnchor(keys), "untrusted")):
        tides = Tides(anchor=anchor, require=BOTH, freshness="waived")
        report = tides.says(card_of("card", "registry"))
        assert report.verdict == verdict
        assert ("threshold.unmet" in codes(report)) == (verdict == "untrusted")


# ------------------------------------------------------------------ unsigned cards


def test_a_key_set_in_the_place_of_a_card_is_told_so() -> None:
    """With the command that takes both; an empty list of signatures is none that is missing."""
    assert "has no `signatures`" in Tides().says(dump({})).reasons[0].message
    assert "`signatures` are empty" in Tides().says(dump({"signatures": []})).reasons[0].message
    report = Tides().says(dump({"keys": []}))

    assert (report.verdict, codes(report)[0]) == ("untrusted", "sig.none")
    assert "is a key set" in report.reasons[0].message
    assert report.reasons[0].hint is not None
    assert "cardsign verify CARD --jwks FILE" in report.reasons[0].hint


# ------------------------------------------------------------------ no verdict


def test_an_unknown_key_is_untrusted_as_long_as_the_keyset_holds() -> None:
    """To its last second, with a release or without."""
    for releases in (None, []):
        for seconds, verdict in ((60 * DAY - 1, "untrusted"), (60 * DAY, "indeterminate")):
            report = Tides().says(card_of("eve"), releases=releases, now=later(seconds))
            assert report.verdict == verdict
    aged = Tides(limits=Limits(keyset_age=30 * DAY))
    assert aged.says(card_of("eve")).verdict == "indeterminate"


# ------------------------------------------------------------------ until when

ENDS: dict[str, tuple[dict[str, Any], Limits, int]] = {
    "the keyset's end": ({"keyset": {"exp": T0 + 3600}}, Limits(), T0 + 3600),
    "the release's end": ({"release": {"exp": T0 + 3601}}, Limits(), T0 + 3601),
    "the key's end": ({"keyset": {"keys": "short"}}, Limits(), T0 + 3602),
    "the end of the key that signed the release": (
        {"keyset": {"keys": "short release"}},
        Limits(),
        T0 + 3605,
    ),
    "the keyset's highest age": ({"keyset": {"iat": T0 - 10}}, Limits(keyset_age=3613), T0 + 3603),
    "the release's highest age": ({}, Limits(release_age=3604), T0 + 3604),
    "a release's end before all others": (
        {"keyset": {"exp": T0 + 3700, "keys": "short"}, "release": {"exp": T0 + 60}},
        Limits(keyset_age=31 * DAY, release_age=3600),
        T0 + 60,
    ),
}


@pytest.mark.parametrize(("changes", "limits", "end"), ENDS.values(), ids=ENDS)
def test_a_verdict_lasts_until_the_least_of_all_deadlines(
    changes: dict[str, Any], limits: Limits, end: int
) -> None:
    """V8; and at that time it is not reached any more."""
    said = dict(changes.get("keyset", {}))
    if said.get("keys") == "short":
        said["keys"] = [entry("card", "card", exp=T0 + 3602), entry("rel", "release")]
    if said.get("keys") == "short release":
        said["keys"] = [entry("card", "card"), entry("rel", "release", exp=T0 + 3605)]
    tides = Tides(keyset("ann", "bob", **said), limits=limits)
    releases = [current(tides.one, **changes.get("release", {}))]

    report = tides.says(releases=releases)
    assert report.valid_until == datetime.fromtimestamp(end, UTC)
    assert tides.says(releases=releases, now=later(end - T0 - 1)).verdict == "trusted"
    assert tides.says(releases=releases, now=later(end - T0)).verdict != "trusted"


def test_a_required_co_signer_s_end_is_a_deadline() -> None:
    """Of those who are required, and of nobody else."""
    short = entry("registry", "card", holder="registry", exp=T0 + 120)
    card = card_of("card", "registry")

    assert Tides(shared(registry=short), require=BOTH).says(card).valid_until == later(120)
    alone = Tides(shared(registry=short), require=("harbour",)).says(card)
    assert alone.valid_until == later(7 * DAY)


def test_what_a_waiver_waives() -> None:
    """The release, which ends nothing then; never the end of the keyset, nor a floor."""
    tides = Tides(keyset("ann", "bob", exp=T0 + 60 * DAY), freshness="waived")

    report = tides.says(now=later(8 * DAY))
    assert (report.verdict, codes(report)[0]) == ("trusted", "trust.freshness_waived")
    assert report.valid_until == later(60 * DAY)
    report = tides.says(now=later(60 * DAY))
    assert (report.verdict, codes(report)[0]) == ("indeterminate", "statement.expired")


# ------------------------------------------------------------------ limits and the report


def test_a_policy_limits_the_card() -> None:
    """To the byte, and to the signature."""
    card = card_of("card", "card2")
    size = len(card)
    for limits, verdict in (
        (Limits(card_bytes=size, signatures=2), "trusted"),
        (Limits(card_bytes=size - 1), "invalid"),
        (Limits(signatures=1), "invalid"),
    ):
        assert Tides(limits=limits).says(card).verdict == verdict


def test_the_report_names_what_it_rests_on() -> None:
    """The statements, the issuer by the policy's name, and the time."""
    tides = Tides()
    five = current(tides.one)
    for report in (tides.says(releases=[five]), tides.says(b"{", releases=[five])):
        assert report.keyset == StatementUsed("1.1", digest_of(tides.one), T0 + 60 * DAY)
        assert report.release == StatementUsed("5", digest_of(five), T0 + 7 * DAY)
        assert report.checked_at == later(0)
    assert tides.says().issuer == "tides"
    written = tides.says(releases=[five]).to_json()["statements"]
    assert written["release"] == {"number": "5", "digest": digest_of(five), "exp": T0 + 7 * DAY}
    without = tides.says(expect=Subject(issuer="lamp"))
    assert (without.keyset, without.release) == (None, None)


def test_what_was_found_beside_is_said_last() -> None:
    """Notes decide nothing, and are not lost."""
    tides = Tides()
    report = tides.says(keysets=[tides.one, b"junk"])

    assert (report.verdict, codes(report)) == ("trusted", ["statement.shape"])
    assert all(isinstance(reason, Finding) for reason in report.reasons)


def test_a_pruning_profile_cannot_prove_an_absence() -> None:
    """Where the policy accepts one, it is said."""
    card = put(PORTABLE, "/skills/0/examples", [])
    tides = Tides(accept="sdk", only=("prune-empty",))
    report = tides.says(
        dump(by_another_sdk(card, key("card"), "prune-empty")),
        releases=[current(tides.one, card=card)],
    )

    assert report.verdict == "trusted"
    assert "coverage.absence_unprovable" in codes(report)


def test_a_list_in_the_place_of_an_interface_is_told_where_it_would_stand() -> None:
    """A trusted key signed it under a profile that rewrites the card, which has no such place."""
    signer = PrivateKey.generate("ES256")
    interfaces = [WITH_DEFAULTS["supportedInterfaces"]]
    card = {**WITH_DEFAULTS, "supportedInterfaces": interfaces, "defaultInputModes": []}
    document = dump(by_another_sdk(card, signer, "rule-1-as-written"))
    issuer = TrustedIssuer(
        "tides", KeysAnchor(JwkSet.of([signer.public])), (parse_place(ORIGIN),), "sdk", "waived"
    )
    report = reach_verdict(document, expect=Subject(url=URL), policy=Policy((issuer,)), now=NOW)
    assert report.verdict == "untrusted"
    (found,) = [one for one in report.reasons if one.code == "card.interface_url"]
    assert found.path == "/supportedInterfaces/0/url"
