"""Writes the oracle's files, once, from commit 2eae91f; a test holds their digest ever since.

    git worktree add --detach DIR 2eae91f
    PYTHONPATH=DIR python tests/oracle/make.py

The cards, the attacks, the simulation and the commands are those of DIR as well, and a link
`shared` beside DIR leads to the shared corpus. This file is kept as it was run. The adapter and
the corpus speak of another program by now, so take `tests/oracle` from the commit that added it.
Every file comes out to the byte again.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

import cardsign

COMMIT: Final = "2eae91f"
SOURCE: Final = Path(cardsign.__file__).resolve().parents[1]
HERE: Final = Path(__file__).resolve().parent
# The tests of 2eae91f first; of ours only the oracle, which it has not.
sys.path[:0] = [str(SOURCE), str(SOURCE / "tests"), str(HERE.parents[1])]

import pytest  # noqa: E402
from attacks_runner import CORPUS, ours  # noqa: E402
from transcript_player import play  # noqa: E402
from transcript_world import Certificates  # noqa: E402

from tests.crash import commands  # noqa: E402
from tests.oracle import adapter, check  # noqa: E402

CHUNKS: Final = 500
#: The vectors of ours of which mutants are made, whose keys a policy pins.
PINNED: Final = (
    *("01-portable-es256", "02-portable-rs256", "03-two-keys", "04-defaults", "05-lax"),
    *("06-a2a-0.3", "07-dual", "09-stranger-beside", "10-jku-ignored", "20-pruned-accepted"),
    *("22-dual-accepted", "24-rule-1-only", "25-opt-in-sdk-0.3", "29-typ-absent"),
)
#: Honest cases of the attack corpus, whose policy, statements and subject the mutants share.
STATED: Final = (
    *("043-cross-origin-kid/ours", "045-jwks-poisoning/endorsed", "053-unrevoked/grown"),
    *("055-mix-and-match/new", "059-first-use/met", "070-homograph-hosts/asked"),
    *("072-extended-swaps/ours", "073-replay/our-url", "110-holders/both", "112-markers/float"),
    *("113-withheld/both", "120-first-contact/bare", "301-two-agents/ebb"),
)
SEEDS: Final = (1000, 1001, 2000, 2001, 3000, 3001, 4000, 4001, 5, 10, 11, 12)


def write(name: str, records: dict[str, Any]) -> None:
    """One record on a line."""
    lines = [f"{json.dumps(key)}: {json.dumps(one)}" for key, one in records.items()]
    (HERE / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{name}: {len(records)} records", flush=True)


def attacks() -> dict[str, Any]:
    """Every case and transcript of the corpus."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(Path(folder))
        for case, inner in adapter.attack_cases():
            state = Path(folder) / str(len(found))
            on_line = "url" in inner.steps[0]
            outcomes = play(inner, certificates, state) if on_line else ours(inner)
            told = check.attack_told(case.kind, adapter.outcome_lines(outcomes))
            found[case.id] = {"attack": case.attack, "digest": case.inputs, "told": told}
    return found


def bases() -> dict[str, Any]:
    """Signed cards, each with all that a verifier needs besides."""
    found: dict[str, Any] = {}
    for name in PINNED:
        [path] = (SOURCE / "tests/vectors/cards").glob(f"{name}.json")
        vector = json.loads(path.read_bytes())
        found[name] = {
            "card": vector["card_base64"],
            "jwks": _base64(json.dumps(vector["jwks"]).encode()),
            "profiles": vector["accepted_profiles"],
            "now": int(adapter.NOON.timestamp()),
        }
    cases = {case.id: inner for case, inner in adapter.attack_cases()}
    for name in STATED:
        case = cases[name]
        [step] = case.steps
        brought = dict(step.get("evidence", {}))
        for kind in ("keysets", "releases"):
            brought[kind] = [_base64(case.input(one)) for one in brought.get(kind, ())]
        if "jwks" in brought:
            brought["jwks"] = _base64(case.input(brought["jwks"]))
        found[name.replace("/", "-")] = {
            "card": _base64(case.input(step["card"])),
            **({"public": _base64(case.input(step["public"]))} if "public" in step else {}),
            "policy": (CORPUS / name.partition("/")[0] / case.members["policy"]).read_text(),
            "memory": case.members.get("memory", "none"),
            "subject": step["subject"],
            "evidence": brought,
            "now": step["now"],
        }
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _chunk(numbered: tuple[str, int]) -> tuple[str, list[str]]:
    name, number = numbered
    base = check.recorded("bases")[name]
    mutants = check.chunk(name, base64.b64decode(base["card"]), number)
    return check.inputs_digest(mutants), list(map(adapter.examiner(base), mutants))


def mutated(known: dict[str, Any]) -> dict[str, Any]:
    """What is said of some 50,000 mutants of them."""
    legend: list[str] = []
    outcomes: dict[str, list[str]] = {name: [] for name in known}
    inputs: dict[str, list[str]] = {name: [] for name in known}
    counts: Counter[str] = Counter()
    numbered = [(list(known)[one % len(known)], one // len(known)) for one in range(CHUNKS)]
    with ProcessPoolExecutor(2) as pool:
        for (name, _), (put, told) in zip(numbered, pool.map(_chunk, numbered), strict=True):
            inputs[name].append(put)
            outcomes[name].append(check.packed(told, legend))
            counts.update(one.partition(" ")[0] for one in told)
    print(f"{sum(counts.values())} mutants: {dict(counts)}, {len(legend)} outcomes")
    return {"counts": dict(counts), "legend": legend, "inputs": inputs, "outcomes": outcomes}


def crashes() -> dict[str, list[str]]:
    """The changes of files that each command makes."""
    fixture = commands.quick_user
    patched = getattr(fixture, "_fixture_function", None) or fixture.__wrapped__
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patched(patch)
        found = {}
        for number, name in enumerate(adapter.crash_commands()):
            (Path(folder) / str(number)).mkdir()
            found[name] = adapter.crash_points(name, Path(folder) / str(number))
    return found


def main() -> None:
    """Write all files."""
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=SOURCE, capture_output=True, check=True
    )
    if head.stdout.decode().strip() != COMMIT:
        raise SystemExit(f"PYTHONPATH does not lead to a checkout of {COMMIT}")
    write("bases", bases())
    write("mutated", mutated(json.loads((HERE / "bases.json").read_bytes())))
    vectors = (*adapter.own_vectors(), *adapter.other_vectors(SOURCE.parent / "shared"))
    write("vectors", {name: {"digest": put, "result": told} for name, put, told in vectors})
    write("crash", crashes())
    worlds = {str(one): adapter.world(one) for one in SEEDS}
    write("simulation", {one: {"digest": one, "result": told} for one, told in worlds.items()})
    write("attacks", attacks())


if __name__ == "__main__":
    main()
