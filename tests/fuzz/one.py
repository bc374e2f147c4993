"""One target under libFuzzer, in a process that libFuzzer ends: see `run.py`, which starts it.

``python tests/fuzz/one.py TARGET CORPUS -seed=N ...`` fuzzes, and with a file instead of the
folder CORPUS tries that one input.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from random import Random

import atheris

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["cardsign"]):
    from tests.fuzz.targets import TARGETS

#: Of the mutations, the share that knows what it changes; the others are libFuzzer's.
STRUCTURED = 0.7


def main() -> None:
    """Fill the corpus if it is an empty folder, and hand over to libFuzzer."""
    _, name, corpus, *options = sys.argv
    target = TARGETS[name]
    folder = Path(corpus)
    if folder.is_dir() and not any(folder.iterdir()):
        seed = next((int(one[6:]) for one in options if one.startswith("-seed=")), 1)
        for data in target.seeds(Random(seed)):
            (folder / hashlib.sha256(data).hexdigest()).write_bytes(data)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        random = Random(seed)
        changed = None
        if random.random() < STRUCTURED:
            try:
                changed = target.mutate(data, random)
            except RecursionError:  # the mutator's own: what it reads is laxly read
                changed = None
        return atheris.Mutate(data, max_size) if changed is None else changed[:max_size]

    atheris.Setup(
        [sys.argv[0], corpus, *options], target.run, custom_mutator=mutate, internal_libfuzzer=True
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
