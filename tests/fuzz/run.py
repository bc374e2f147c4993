"""Fuzz the targets, several at a time, each for a while, and say what came of it.

``.venv/bin/python tests/fuzz/run.py --seconds 30 --target verify``. A finding is kept in
``.fuzz/`` and tried again with ``--target verify --replay .fuzz/verify-crash-...``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fuzz.targets import TARGETS  # noqa: E402

#: Seconds for one input. The slowest that the tests know takes 0.3 s without instrumentation.
INPUT_SECONDS: Final = 10
#: MiB of memory; python with cardsign takes 80.
MEMORY_MIB: Final = 512
#: Bytes of an input. The limits of the readers are tested with larger ones elsewhere.
INPUT_BYTES: Final = 32 * 1024
#: Seconds besides, to start, to read the corpus, and to end an input that takes long.
PATIENCE: Final = 120
#: Where findings are kept.
FINDINGS: Final = ROOT / ".fuzz"


def main() -> int:
    """Run what the command line asks for; 1 if anything was found."""
    options = _options()
    if importlib.util.find_spec("atheris") is None:
        print(f"fuzzing is left out: no atheris in this Python {platform.python_version()};")
        print(
            "`make tools` installs it where the group `fuzz` of pyproject.toml says it has a wheel"
        )
        return 0
    if options.replay:
        return subprocess.run(_fuzzer(options.target[0], options.replay), check=False).returncode
    FINDINGS.mkdir(exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [
            pool.submit(_fuzz, name, options.seconds, options.seed) for name in options.target
        ]
    return int(any(each.result() for each in running))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", choices=TARGETS, help="all if none is named")
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    parser.add_argument("--replay", metavar="FILE", help="try one input, with one --target")
    options = parser.parse_args()
    if options.replay and len(options.target or ()) != 1:
        parser.error("--replay takes one --target")
    options.target = options.target or list(TARGETS)
    return options


def _fuzz(name: str, seconds: int, seed: int) -> int:
    """Fuzz one target from its seeds; the exit status of libFuzzer, not 0 if it found anything."""
    with tempfile.TemporaryDirectory(prefix="cardsign-fuzz-") as corpus:
        limits = (
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            f"-max_len={INPUT_BYTES}",
            f"-artifact_prefix={FINDINGS}/{name}-",
            "-print_final_stats=1",
        )
        try:
            ended = subprocess.run(
                [*_fuzzer(name, corpus), *limits],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds + PATIENCE,
                text=True,
                check=False,
            )
            status, log = ended.returncode, ended.stdout
        except subprocess.TimeoutExpired as exc:
            status, log = 1, f"{(exc.stdout or b'').decode()}\nthe fuzzer itself did not end"
    inputs = re.findall(r"stat::number_of_executed_units: *(\d+)", log)
    print(f"{name}: {inputs[-1] if inputs else 0} inputs, exit status {status}", flush=True)
    if status:
        print("\n".join(log.splitlines()[-60:]))
    return status


def _fuzzer(name: str, corpus: str) -> tuple[str, ...]:
    bounds = (f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MIB}")
    return (sys.executable, str(Path(__file__).with_name("one.py")), name, corpus, *bounds)


if __name__ == "__main__":
    sys.exit(main())
