"""Fuzz the targets, two at a time, each for a while, and say what came of it.

``make fuzz T="--seconds 30 --target verify"``. A finding is kept in ``.fuzz/`` and tried again by
``make fuzz T="--target verify --replay .fuzz/verify-crash-..."``. With ``--page`` the figures are
written to docs/reports/fuzzing.json and docs/reports/fuzzing.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.fuzz.page import SAYS, write_page  # noqa: E402

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one target did.

    Attributes:
        executions: Inputs tried.
        edges: Edges of cardsign's code that were reached.
        corpus: Inputs kept because they reached something new.
        seconds: How long it ran.
        memory_mib: The most memory that it took.
        findings: Names of the files in `.fuzz/`; empty if nothing was found.
    """

    target: str
    executions: int
    edges: int
    corpus: int
    seconds: int
    memory_mib: int
    findings: tuple[str, ...] = ()


def main() -> int:
    """Run what the command line asks for; 1 if anything was found."""
    options = _options()
    if importlib.util.find_spec("atheris") is None:
        print(f"fuzzing is left out: no atheris in this Python {platform.python_version()};")
        print(
            "`make fuzz` installs it where the group `fuzz` of pyproject.toml says it has a wheel"
        )
        return 0
    if options.replay:
        return _fuzzer(options.target[0], options.replay, (), None).wait()
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [
            pool.submit(_fuzz, name, options.seconds, options.seed) for name in options.target
        ]
        outcomes = [one.result() for one in running]
    if options.page:
        with_what = {
            "date": datetime.now(UTC).date().isoformat(),
            "cardsign": version("cardsign"),
            "atheris": version("atheris"),
            "python": platform.python_version(),
            "seed": options.seed,
        }
        limits = {"seconds": INPUT_SECONDS, "bytes": INPUT_BYTES, "memory_mib": MEMORY_MIB}
        figures = {one.target: with_what | asdict(one) for one in outcomes}
        write_page(ROOT / "docs" / "reports", figures, limits)
    found = sum(len(one.findings) for one in outcomes)
    print(f"{sum(one.executions for one in outcomes)} inputs tried, {found} findings")
    return 1 if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", action="append", choices=SAYS, help="all if none is named")
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    parser.add_argument("--replay", metavar="FILE", help="try one input, with one --target")
    parser.add_argument("--page", action="store_true", help="write docs/reports/fuzzing.*")
    options = parser.parse_args()
    if options.replay and len(options.target or ()) != 1:
        parser.error("--replay takes one --target")
    options.target = options.target or list(SAYS)
    return options


def _fuzz(name: str, seconds: int, seed: int) -> Outcome:
    """Fuzz one target from its seeds."""
    with tempfile.TemporaryDirectory(prefix="cardsign-fuzz-") as scratch:
        corpus, artifacts = Path(scratch, "corpus"), Path(scratch, "found")
        corpus.mkdir()
        artifacts.mkdir()
        limits = (
            f"-max_total_time={seconds}",
            f"-seed={seed}",
            f"-max_len={INPUT_BYTES}",
            f"-artifact_prefix={artifacts}/{name}-",
            "-print_final_stats=1",
        )
        fuzzer = _fuzzer(name, str(corpus), limits, subprocess.PIPE)
        try:
            log, _ = fuzzer.communicate(timeout=seconds + PATIENCE)
        except subprocess.TimeoutExpired:
            fuzzer.kill()
            log, _ = fuzzer.communicate()
            log += "\nthe fuzzer itself did not end"
        found = [str(_keep(path)) for path in sorted(artifacts.iterdir())]
    if fuzzer.returncode and not found:
        found = [f"exit status {fuzzer.returncode}"]
    outcome = read_log(name, log, found)
    print(
        f"{name:9}{outcome.executions:9} inputs {outcome.edges:6} edges {outcome.seconds:5} s"
        f"{outcome.memory_mib:5} MiB  {', '.join(found)}",
        flush=True,
    )
    if found:
        print("\n".join(log.splitlines()[-60:]))
    return outcome


def _fuzzer(
    name: str, corpus: str, limits: Sequence[str], output: int | None
) -> subprocess.Popen[str]:
    bounds = (f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MIB}")
    command = (sys.executable, str(Path(__file__).with_name("one.py")), name, corpus)
    return subprocess.Popen(
        [*command, *bounds, *limits], text=True, stdout=output, stderr=subprocess.STDOUT
    )


def _keep(path: Path) -> Path:
    FINDINGS.mkdir(exist_ok=True)
    shutil.copy(path, FINDINGS / path.name)
    return (FINDINGS / path.name).relative_to(ROOT)


def read_log(name: str, log: str, found: Sequence[str]) -> Outcome:
    """The figures in what libFuzzer printed; 0 for those that it did not come to print."""

    def last(pattern: str) -> int:
        numbers = re.findall(pattern, log)
        return int(numbers[-1]) if numbers else 0

    return Outcome(
        target=name,
        executions=last(r"stat::number_of_executed_units: *(\d+)") or last(r"(?m)^#(\d+)\t"),
        edges=last(r" cov: (\d+) "),
        corpus=last(r" corp: (\d+)/"),
        seconds=last(r"Done \d+ runs in (\d+) second"),
        memory_mib=last(r"stat::peak_rss_mb: *(\d+)"),
        findings=tuple(found),
    )


if __name__ == "__main__":
    sys.exit(main())
