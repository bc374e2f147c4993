"""docs/reports/fuzzing.md and fuzzing.json: what the last long run of the fuzzers did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

Limits: TypeAlias = Mapping[str, int]
#: What each target reads, and what must hold besides "nothing but its own errors comes out".
SAYS: Final = {
    "json": "strict JSON: the fast reader and the definition agree, on value, code and place",
    "entry": "one member of `signatures`: alg allowed, base64url decodes",
    "jwks": "a JWK Set: written, it is read as the same set",
    "keyset": "a keyset statement: its payload is canonical, its envelope can be written again",
    "release": "a release statement: likewise; no floor above its own number",
    "walk": "statements from an anchor on: what is kept only rises and is of the one issuer",
    "marker": "the extended-card marker: one that is found is written and found as the same",
    "bundle": "a bundle: known for one; bundled again, it is the same evidence",
    "policy": "`trust.toml`: as a file and as text it says the same, and can be asked",
    "lock": "`trust.lock`: floors raised by themselves stay",
    "state": "the verifier's memory: read, written and read it is the same",
    "verify": "a card before pinned keys, under two policies: nothing raises, the report "
    "serializes, and what is trusted was signed by such a key (asked of the key itself)",
    "evidence": "a card with statements in instalments, four anchors, five times and subjects: "
    "the same, and what is remembered only rises and can be written",
    "explain": "`explain_card`: nothing raises, the explanation serializes",
    "source": "`build_card` of a manifest of any kind: what is built is a card, in both forms",
}

_PAGE: Final = """# Fuzzing: last figures

What strangers write is read by the targets below, under
[atheris](https://github.com/google/atheris) (libFuzzer, guided by the edges of `cardsign` that an
input reaches). Whatever the input, only the errors that the reader documents may come out, within
{input_seconds} seconds and {memory} MiB, and the properties named must hold. Anything else fails
the run.

A run starts from examples made on the spot and from files of `tests/vectors` and `tests/attacks`.
Seven mutations in ten know what they change: they edit JSON and double its members, sign cards and
statements again with keys that the target trusts (computed from names, so that an input found today
means the same tomorrow), and link statements into chains. The others are libFuzzer's own.

| command | what it does |
|---|---|
| `make fuzz` | every target for 30 seconds; `T="--seconds 5 --seed 7 --target verify"` |
| `make fuzz T="--target verify --replay FILE"` | one input again; findings lie in `.fuzz/` |
| `.ci/run` | every target for 4 seconds |
| `make nightly` | every target for 3 minutes; writes this page |

atheris has wheels for CPython 3.11 to 3.13 on Linux x86-64, as the dependency group `fuzz` of
`pyproject.toml` says. There an installation that fails fails the run; elsewhere fuzzing is left
out, and the run says so. `tests/fuzz/test_targets.py` holds the same properties everywhere, over
the seeds and a fixed number of mutations.

The last runs, on inputs of up to {input_bytes} bytes:

{runs}

| target | what is read, and what holds | inputs | edges | kept | seconds | MiB | findings |
|---|---|--:|--:|--:|--:|--:|--:|
{rows}

{sum}

Such a run is bounded and seeded, but its inputs cannot be repeated one by one: how many there are
depends on the machine. Edges count the bytecode of `cardsign` alone.
"""


def write_page(folder: Path, figures: Mapping[str, Mapping[str, Any]], limits: Limits) -> None:
    """Replace the figures of these targets in both files; those of others stay."""
    path = folder / "fuzzing.json"
    held = json.loads(path.read_text(encoding="utf-8"))["targets"] if path.exists() else {}
    merged = {name: (held | figures)[name] for name in SAYS if name in held | figures}
    text = json.dumps({"limits": limits, "targets": merged}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
    (folder / "fuzzing.md").write_text(page_of(merged, limits), encoding="utf-8")


def page_of(targets: Mapping[str, Mapping[str, Any]], limits: Limits) -> str:
    """The page of these figures."""
    rows = [
        f"| {name} | {SAYS[name]} | {one['executions']:,} | {one['edges']:,} "
        f"| {one['corpus']:,} | {one['seconds']} | {one['memory_mib']} | {len(one['findings'])} |"
        for name, one in targets.items()
    ]
    runs: dict[str, list[str]] = {}
    for name, one in targets.items():
        on = f"on {one['date']} with cardsign {one['cardsign']}, atheris {one['atheris']}, "
        runs.setdefault(f"{on}Python {one['python']}, seed {one['seed']}", []).append(name)
    inputs = sum(one["executions"] for one in targets.values())
    found = sum(len(one["findings"]) for one in targets.values())
    return _PAGE.format(
        **{f"input_{name}": limits[name] for name in ("seconds", "bytes")},
        memory=limits["memory_mib"],
        runs="\n".join(f"- {', '.join(names)}: {run}" for run, names in runs.items()),
        rows="\n".join(rows),
        sum=f"Together {inputs:,} inputs, {found or 'no'} finding{'' if found == 1 else 's'}.",
    )
