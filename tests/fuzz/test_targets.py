"""The fuzzers' targets without a fuzzer: on every Python, over the seeds and some mutations."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from cardsign.card import Card
from cardsign.jose import JwkSet, PublicKey
from tests.fuzz import readers, verdicts
from tests.fuzz.mutations import mutate_json
from tests.fuzz.page import SAYS, write_page
from tests.fuzz.run import read_log
from tests.fuzz.targets import TARGETS, Target

MUTATIONS = 150
#: Until a fault is found: mutations of cards differ from run to run, as ES256 signatures do.
MOST_MUTATIONS = 20 * MUTATIONS
#: What mutated inputs must come to, lest a target be shallow: outcomes, and how many of them.
REACHED = {
    "json": ("accepted", "json.duplicate_member", "json.depth"),
    "entry": ("accepted", "sig.alg_forbidden", "sig.header", "sig.shape"),
    "jwks": ("accepted", "key.malformed", "jwks.malformed"),
    "keyset": ("accepted", "statement.members", "statement.bad_key", "statement.shape"),
    "release": ("accepted", "statement.members", "statement.shape"),
    "walk": ("0 steps", "1 steps", "2 steps"),
    "marker": ("accepted", "extended.marker"),
    "bundle": ("accepted", "bundle.malformed"),
    "policy": ("accepted", "policy.malformed"),
    "lock": ("accepted", "lock.malformed"),
    "state": ("statement.members", "statement.format"),
    "verify": ("trusted", "untrusted", "invalid", "indeterminate"),
    "evidence": ("trusted", "untrusted", "invalid", "indeterminate"),
    "explain": ("accepted",),
    "source": ("accepted", "build.syntax", "build.missing", "build.type"),
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_good_example_is_read(name: str) -> None:
    """What a target starts from gets past the first refusal."""
    target = TARGETS[name]
    first, *_ = target.examples()
    assert target.run(first) in {"accepted", "1 steps", "trusted", "indeterminate"}


@pytest.mark.parametrize("name", TARGETS)
def test_the_properties_hold_for_mutated_inputs(name: str) -> None:
    """No seed and no mutation of one breaks a property, and they reach what they should."""
    target, random = TARGETS[name], Random(1)
    pool = target.seeds(random)
    outcomes = {target.run(data) for data in pool}
    for _ in range(MUTATIONS):
        data = target.mutate(random.choice(pool), random)
        if data is not None:
            pool.append(data)
            outcomes.add(target.run(data))
    assert set(REACHED[name]) <= outcomes


def _a_key_that_fits_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cardsign.verify.signature.check_entry", lambda *_, **__: None)


def _a_lax_fast_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cardsign.card.strictjson._FAST", json.JSONDecoder())


def _an_error_that_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(document: object) -> Card:
        raise KeyError(document)

    monkeypatch.setattr(Card, "from_object", fail)


def _a_set_that_forgets_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: JwkSet, kid: str) -> PublicKey | None:
        return None

    monkeypatch.setattr(JwkSet, "find", forget)


@pytest.mark.parametrize(
    ("name", "breaks"),
    [
        ("verify", _a_key_that_fits_everything),
        ("json", _a_lax_fast_reader),
        ("explain", _an_error_that_is_not_ours),
        ("jwks", _a_set_that_forgets_keys),
    ],
)
def test_a_fault_is_a_finding(
    name: str, breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken reader does not get past its target, however chance falls."""
    target, random = TARGETS[name], Random(1)
    pool = target.seeds(random)
    tried = chain(pool, (target.mutate(random.choice(pool), random) for _ in range(MOST_MUTATIONS)))
    assert any(_is_finding(target, data or b"", breaks, monkeypatch) for data in tried)


def _is_finding(
    target: Target,
    data: bytes,
    breaks: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> bool:
    """Whether a broken reader is found by one input; the input itself is made by a whole one."""
    with monkeypatch.context() as broken:
        breaks(broken)
        try:
            target.run(data)
        except (AssertionError, KeyError):
            return True
    return False


def test_a_mutation_is_that_of_its_seed() -> None:
    """The same chance makes the same input; another mostly makes another."""
    data = TARGETS["json"].examples()[0]
    made, again = ([mutate_json(data, Random(seed)) for seed in range(40)] for _ in range(2))
    assert made == again
    assert len(set(made)) > 30


def test_the_figures_are_read_from_what_libfuzzer_prints() -> None:
    """Its last line counts, and what it did not print is 0."""
    log = (
        "#2\tINITED cov: 9 ft: 9 corp: 1/1b exec/s: 0 rss: 80Mb\n"
        "#7313\tDONE   cov: 152 ft: 562 corp: 110/131Kb lim: 16384 exec/s: 1218 rss: 81Mb\n"
        "Done 7313 runs in 6 second(s)\n"
        "stat::number_of_executed_units: 7313\nstat::peak_rss_mb:              81\n"
    )
    done = read_log("json", log, ())
    assert (done.executions, done.edges, done.corpus) == (7313, 152, 110)
    assert (done.seconds, done.memory_mib, done.findings) == (6, 81, ())
    crashed = read_log("json", log.partition("#7313")[0], ["json-crash-1"])
    assert (crashed.executions, crashed.edges, crashed.findings) == (2, 9, ("json-crash-1",))


def test_the_page_names_every_target() -> None:
    """Targets and page are of the same names, in the same order."""
    assert list(SAYS) == list(TARGETS)


def test_the_page_keeps_what_was_not_run_anew(tmp_path: Path) -> None:
    """One target's figures are replaced, another's stay, and findings are counted."""
    limits = {"seconds": 10, "bytes": 1, "memory_mib": 512}
    run = dict.fromkeys(("date", "cardsign", "atheris", "python", "seed"), "1")
    run |= {"executions": 12345, "edges": 7, "corpus": 1, "seconds": 2, "memory_mib": 80}
    write_page(tmp_path, {"json": {**run, "findings": []}, "jwks": {**run, "findings": []}}, limits)
    write_page(tmp_path, {"json": {**run, "edges": 8, "findings": ["json-crash-1"]}}, limits)
    page = (tmp_path / "fuzzing.md").read_text(encoding="utf-8")
    assert "| 12,345 | 8 | 1 | 2 | 80 | 1 |" in page
    assert "| 12,345 | 7 | 1 | 2 | 80 | 0 |" in page
    assert "24,690 inputs, 1 finding." in page


def test_modules_of_targets_hold_checks_only() -> None:
    """Each public check is some target's."""
    used = {target.check for target in TARGETS.values()}
    made = {
        getattr(module, name)
        for module in (readers, verdicts)
        for name in vars(module)
        if name.startswith("check_")
    }
    assert made == used
