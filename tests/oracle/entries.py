"""Prints the entries that changes.toml lacks, for whoever means to change what the program says.

    PYTHONPATH=. python tests/oracle/entries.py [attacks] [mutated] [vectors] [simulation]

Read each before you give it a decision and a reason; without these it is refused. Crash points are
compared where commands are crashed, in tests/crash.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.oracle import adapter, check  # noqa: E402


def attacks() -> Iterator[str]:
    """Of the corpus."""
    cases = list(adapter.attack_cases())
    known = {case.id for case, _ in cases}
    for name, was in check.recorded("attacks").items():
        if name not in known:
            old = check.Told(was["told"], was["digest"])
            yield from check.stray(name, old, None, check.changes())
    for case, inner in cases:
        yield from check.attack_faults(case, adapter.run(inner))


def mutated() -> Iterator[str]:
    """Of all mutants."""
    was = check.recorded("mutated")
    for name, base in check.recorded("bases").items():
        examine = adapter.examiner(base)
        for number in range(len(was["outcomes"][name])):
            mutants = check.chunk(name, base64.b64decode(base["card"]), number)
            yield from check.chunk_faults(name, number, mutants, examine, was, check.changes())


def vectors() -> Iterator[str]:
    """Of our own and, where they are, those of others."""
    found = {name: rest for name, *rest in adapter.own_vectors()}
    shared = ROOT.parent / "shared"
    if shared.is_dir():
        found |= {name: rest for name, *rest in adapter.other_vectors(shared)}
    for name in check.recorded("vectors"):
        if name in found or name.startswith("own/") or shared.is_dir():
            put, result = found.get(name, (check.GONE, None))
            yield from check.result_faults("vectors", name, put, result, check.changes())


def simulation() -> Iterator[str]:
    """Of the worlds."""
    for seed in check.recorded("simulation"):
        result = adapter.world(int(seed))
        yield from check.result_faults("simulation", seed, seed, result, check.changes())


KINDS = {one.__name__: one for one in (attacks, mutated, vectors, simulation)}


def main() -> None:
    """Print them."""
    for kind in sys.argv[1:] or KINDS:
        for entry in KINDS[kind]():
            print(entry, flush=True)


if __name__ == "__main__":
    main()
