"""What attacks are made with: each kind is made, read back, and judged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from tests.attack_maker.attack import JWKS_ANCHOR, Attack, issuer, jwk_set, pinned
from tests.attack_maker.signing import CARD, Key, ec_key, ed25519_key, rsa_key, signed
from tests.attack_maker.stage import Stage, status
from tests.attack_maker.statements import URL, Bench
from tests.attack_maker.writer import described, document
from tests.attack_runner.corpus import content, read_attack
from tests.attack_runner.outcome import deviations
from tests.attack_runner.verifier import run_case

KEYS = {
    "P-256": ec_key("a"),
    "P-384": ec_key("a", ec.SECP384R1(), "ES384"),
    "Ed25519": ed25519_key("a"),
    "RSA": rsa_key("a"),
}


def pinning(key: Key) -> Attack:
    """A key that is pinned."""
    attack = Attack(999, "pinned", "Title", "Why")
    attack.policy(issuer(pinned(key), algorithms=[key.alg]))
    good = signed(CARD, key)
    attack.twin("good", "As it was signed", good)
    bad = {**good, "name": "Tide cables"}
    attack.attack("bad", "Changed", bad, "invalid", "sig.bad", "no unknown unknown unknown")
    return attack


def fetching() -> Attack:
    """A key set that comes as evidence."""
    attack = Attack(999, "fetching", "Title", "Why")
    key = ec_key("a")
    attack.policy(issuer(JWKS_ANCHOR))
    unknown = ("unknown " * 4).strip()
    attack.attack("none", "No set", signed(CARD, key), "indeterminate", "trust.no_keys", unknown)
    attack.twin("set", "With the set", signed(CARD, key), jwks=jwk_set(key))
    return attack


def stating() -> Attack:
    """Statements, a lock, and several steps."""
    bench = Bench(999, "stating", "Title", "Why")
    both = (bench.first, bench.release)
    successor = bench.house.after(bench.first)
    seen = bench.lock("seen", successor, bench.house.release(successor))
    bench.refused(
        "old",
        "Older than the lock",
        "indeterminate",
        "statement.rollback",
        "yes yes unknown yes",
        *both,
        lock=seen,
    )
    bench.honest(
        "new",
        "What the lock has seen",
        bench.first,
        successor,
        bench.house.release(successor),
        lock=seen,
    )
    return bench


def staging() -> Attack:
    """Transcripts under each policy."""
    attack = Attack(999, "staging", "Title", "Why")
    stage = Stage(attack)
    elsewhere = {URL: status(302, ["Location", "/other.json"])}
    unknown = ("unknown " * 4).strip()
    stage.refused(
        "redirect",
        "It sends us elsewhere",
        *("indeterminate", "fetch.status", unknown),
        policy=stage.pinned(),
        answers=elsewhere,
    )
    for policy in (stage.pinned(), stage.by_url(), stage.by_keyset()):
        stage.honest(policy.partition(".")[0], "It has the card", policy=policy)
    return attack


MADE: dict[str, Callable[[], Attack]] = {
    **{f"pinned {name}": partial(pinning, key) for name, key in KEYS.items()},
    "key set": fetching,
    "statements": stating,
    "transcripts": staging,
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_what_is_made_is_judged_as_it_says(make: Callable[[], Attack], tmp_path: Path) -> None:
    """Through its file; and it is the same each time."""
    attack = make()
    text = document(attack.about, attack.files)
    assert text == document(make().about, make().files)
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    found = read_attack(tmp_path / "x.json")
    cases = [*found.cases, *found.transcripts]
    assert {case.members["kind"] for case in cases} == {"attack", "twin"}
    assert [deviations(case, run_case) for case in cases] == [[] for _ in cases]


def test_other_keys_have_other_names() -> None:
    """And a key may be called as another is."""
    assert ec_key("a").numbers != ec_key("b").numbers
    assert rsa_key("a").numbers != rsa_key("b").numbers
    assert ec_key("b").called("a").kid == "a"
    assert ec_key("b").called("a").numbers == ec_key("b").numbers


# ------------------------------------------------------------------ how files are described

TEXT = (
    st.text(st.sampled_from('ab"\\{}[]:,\n 1é\ud83d'), max_size=40)
    .map(lambda text: text.encode("utf-8", "replace"))
    .map(lambda data: data * 3)
)
FILES = {
    "json": b'{\n "a": 1\n}\n',
    "compact": b'{"a":1}',
    "text": b"a\n",
    "lines": b"a\nb\n",
    "base64": b"\xff",
    "statement": stating().files["keyset-1.1.json"],
}


@pytest.mark.parametrize(("kind", "data"), FILES.items(), ids=FILES)
def test_a_file_is_described_by_its_kind(kind: str, data: bytes) -> None:
    """As people best read it."""
    assert set(described({"x": data})["x"]) == {kind}


def test_a_variant_is_described_by_what_it_changes() -> None:
    """A card by an edit, a statement by its members."""
    files = pinning(KEYS["RSA"]).files | stating().files
    told = described(files)
    assert (
        told["bad.card.json"]
        == {
            "of": "good.card.json",
            "replace": [['"Tide tables"', '"Tide cables"']],
        }
        or told["good.card.json"]["of"] == "bad.card.json"
    )
    assert told["keyset-1.2.json"]["statement"]["of"] == "keyset-1.1.json"
    assert set(told["keyset-1.2.json"]["statement"]["payload"]) == {"prev", "version"}


@given(st.lists(TEXT | st.binary(max_size=9), max_size=6))
def test_nothing_is_lost(contents: list[bytes]) -> None:
    """Whatever files hold, their descriptions hold it too."""
    files = {str(number): data for number, data in enumerate(contents)}
    told = described(files)
    assert {name: content(told, name) for name in told} == files
