"""Mutation testing on a seeded sample: which faults would our tests not see?

``make mutants T="--area jose --sample 60 --seed 1"``. Each mutant is put into a copy of the
checkout. The tests of the area that run its line are run until one fails, the quickest first; if
none does, the area's other tests. Each survivor has to be argued in survivors.json, by what stays
the same when lines move; docs/reports/mutation.md shows it with the reason. The exit status is 1
while a survivor is not argued.

Why no tool of others (looked at in November 2026): mutmut 3.8 passes over functions under a
property or a context manager and over constants of modules, which is where our limits and tables
stand, and takes no sample; cosmic-ray 8.7 edits the checkout in place, runs one command for every
module, takes no sample, and brings a web client and a database. Both are alive and free.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from random import Random
from types import MappingProxyType
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.mutation.mutants import Mutant, mutants_of  # noqa: E402
from tests.mutation.page import SURVIVORS, write_page  # noqa: E402
from tests.mutation.reach import VARIABLE, tests_that_reach  # noqa: E402

#: Seconds that tests may take, as a multiple of what they take without a fault, and at least.
PATIENCE: Final = 5
LEAST_PATIENCE: Final = 60
#: What a copy of the checkout holds; tests outside of the areas' are not run.
COPIED: Final = ("cardsign", "tests", "docs", "examples", "pyproject.toml", "README.md")


@dataclass(frozen=True, slots=True)
class Area:
    """Modules, and the tests that should see a fault in them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


AREAS: Final = {
    "jose": Area(
        ("cardsign/jose/**/*.py",),
        (
            *("tests/jose", "tests/test_verify.py", "tests/test_own_vectors.py"),
            *("tests/test_sign.py", "tests/test_paranoid.py"),
            "tests/server/test_serve_providers.py",
        ),
    ),
    "canonical": Area(
        ("cardsign/card/canonical.py",),
        ("tests/card", "tests/test_vectors.py", "tests/test_sign.py", "tests/test_paranoid.py"),
    ),
    "trust": Area(
        ("cardsign/trust/**/*.py",),
        (
            *("tests/trust", "tests/verify", "tests/test_verify.py", "tests/test_attack_corpus.py"),
            *("tests/cli/test_trust*.py", "tests/cli/test_verify_policy.py"),
            *("tests/cli/test_jwks_url.py", "tests/repo/test_reference.py"),
        ),
    ),
    "verify": Area(
        ("cardsign/verify/**/*.py",),
        (
            *("tests/verify", "tests/test_verify.py", "tests/test_verdict.py"),
            *("tests/trust", "tests/test_attacks_in_transit.py", "tests/test_attack_corpus.py"),
            *("tests/test_own_vectors.py", "tests/test_paranoid.py"),
        ),
    ),
    "card": Area(
        (
            *("cardsign/card/[!c]*.py", "cardsign/card/coverage.py"),
            "cardsign/card/*/*.py",
        ),
        (
            *("tests/card", "tests/test_verify.py", "tests/test_sign.py"),
            *("tests/test_requirement_rows.py", "tests/test_attack_corpus.py"),
            *("tests/lint/test_rules.py", "tests/build/test_reading.py"),
        ),
    ),
    "lint": Area(("cardsign/lint/**/*.py",), ("tests/lint/*.py", "tests/cli/test_lint.py")),
    "build": Area(
        ("cardsign/build/**/*.py", "cardsign/card/convert.py"),
        (
            *("tests/build", "tests/card/test_convert.py", "tests/card/test_scheme_table.py"),
            "tests/net/test_mcp_servers.py",
        ),
    ),
    "diff": Area(("cardsign/diff/**/*.py",), ("tests/diff", "tests/cli/test_diff.py")),
    "sign": Area(
        ("cardsign/sign/*.py",),
        (
            *("tests/test_sign*.py", "tests/card/test_optin.py", "tests/test_optin_signatures.py"),
            "tests/test_paranoid.py",
        ),
    ),
    "issuer": Area(
        ("cardsign/issuer/*.py", "cardsign/rehearsal/*.py", "cardsign/testing/*.py"),
        (
            *("tests/issuer", "tests/test_rehearsal.py", "tests/check/test_plugin.py"),
            *("tests/trust/test_chain.py", "tests/cli/test_project_cards.py"),
            *("tests/cli/test_misled_commands.py", "tests/cli/test_runbooks.py"),
            *("tests/cli/test_issuer_story.py", "tests/cli/test_keys_rooted.py"),
        ),
    ),
    "explain": Area(("cardsign/explain/**/*.py",), ("tests/explain", "tests/cli/test_explain.py")),
    "keys": Area(
        ("cardsign/keys/**/*.py",),
        (
            *("tests/keys", "tests/test_publication_order.py", "tests/cli/test_keys_*.py"),
            *("tests/cli/test_issuer_story.py", "tests/crash/test_crashes.py"),
            "tests/cli/test_sign_without_store.py",
        ),
    ),
    "net": Area(
        ("cardsign/net/**/*.py",),
        ("tests/net", "tests/cli/test_fetch_command.py", "tests/test_attack_transcripts.py"),
    ),
    "server": Area(("cardsign/server/**/*.py",), ("tests/server", "tests/integrations")),
    "publish": Area(
        ("cardsign/publish/**/*.py",),
        (
            *("tests/test_publish.py", "tests/test_recorded.py", "tests/test_publication_order.py"),
            *("tests/test_export.py", "tests/cli/test_publishing.py", "tests/server"),
            "tests/cli/test_project_folder.py",
        ),
    ),
    "cli": Area(
        ("cardsign/cli/**/*.py",),
        ("tests/cli", "tests/repo/test_reference.py"),
    ),
    "statements": Area(
        ("cardsign/statements/**/*.py",),
        (
            *("tests/jose/test_statement*.py", "tests/keys/test_release_drafts.py"),
            *("tests/trust", "tests/test_attack_corpus.py"),
        ),
    ),
    "integrations": Area(
        ("cardsign/integrations/**/*.py",),
        ("tests/integrations", "tests/cli/test_call_command.py"),
    ),
    "settings": Area(
        ("cardsign/[!s]*.py",),
        (
            *("tests/test_files.py", "tests/keys/test_signer_program.py", "tests/test_api.py"),
            *("tests/cli/test_bad_input.py", "tests/cli/test_keys_bad_input.py"),
            *("tests/cli/test_publishing.py", "tests/net/test_credential_store.py"),
            *("tests/test_batch.py", "tests/test_gateway.py", "tests/test_records.py"),
            *("tests/test_times.py", "tests/check/test_c*.py", "tests/cli/test_verify_many.py"),
            *("tests/cli/test_resign_command.py", "tests/cli/test_project_*.py"),
            *("tests/card/test_interfaces.py", "tests/trust/test_[op][rl]*.py"),
            *("tests/repo/test_reasons.py", "tests/verify/test_cache.py", "tests/cli/test_lint.py"),
            *("tests/cli/test_fetch_command.py", "tests/net/test_mcp_servers.py"),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant: ``killed``, ``survived`` or ``timeout``."""

    mutant: Mutant
    verdict: str


class Copy:
    """A copy of the checkout for one worker, in which one module at a time is faulty."""

    _ticks: Final = count(int(time.time()) - 10**6)

    def __init__(self, folder: Path) -> None:
        self.root = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)

    def write(self, path: str, source: bytes) -> None:
        """Replace a module; its time is new, so that no compiled form of the old one is used."""
        place = self.root / path
        place.write_bytes(source)
        tick = next(self._ticks)
        os.utime(place, (tick, tick))

    def reach(self, tests: Sequence[str]) -> dict[str, Any]:
        """Run these tests without a fault and say which lines each of them runs."""
        found = self.root / "reach.json"
        outer = {
            "PYTHONPATH": f"{self.root}{os.pathsep}{Path(__file__).parent}",
            VARIABLE: str(found),
        }
        if self.test(tests, 3600, options=("-p", "reach"), outer=outer) != "survived":
            raise SystemExit("the tests fail without a fault; nothing can be learned of mutants")
        reach: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
        return reach

    def test(
        self,
        tests: Sequence[str],
        patience: float,
        *,
        options: Sequence[str] = (),
        outer: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """``survived`` where all of the tests pass within their time."""
        listed = self.root / "tests.txt"
        listed.write_text("\n".join(tests) + "\n", encoding="utf-8")
        always = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=1", *options)
        own = {name: value for name, value in os.environ.items() if "CARDSIGN" not in name}
        own |= {"PYTHONPATH": str(self.root), "CARDSIGN_EXAMPLES": "40", **outer}
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cardsign", *always, f"@{listed}"],
            cwd=self.root,
            env=own,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as running:
            try:
                return "killed" if running.wait(patience) else "survived"
            except subprocess.TimeoutExpired:
                running.kill()
                return "timeout"


def sample(mutants: Iterable[Mutant], size: int, random: Random) -> list[Mutant]:
    """Some of them; each kind of fault is as likely as any other, however many there are of it."""
    kinds: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        kinds.setdefault(mutant.operator, []).append(mutant)
    drawn: list[Mutant] = []
    while kinds and len(drawn) < size:
        kind = random.choice(sorted(kinds))
        drawn.append(kinds[kind].pop(random.randrange(len(kinds[kind]))))
        if not kinds[kind]:
            del kinds[kind]
    return drawn


def files_of(tests: Sequence[str]) -> list[str]:
    """The files of an area's tests, each once."""
    places = (path for pattern in tests for path in sorted(ROOT.glob(pattern)))
    files = (file for path in places for file in sorted(path.rglob("test_*.py")) or [path])
    return list(dict.fromkeys(str(file.relative_to(ROOT)) for file in files))


def examine(area: Area, drawn: Sequence[Mutant], workers: int) -> list[Result]:
    """Run the tests against each mutant."""
    everything = files_of(area.tests)
    with tempfile.TemporaryDirectory(prefix="cardsign-mutants-") as scratch:
        shared = ROOT.parent / "shared"
        if shared.is_dir():
            Path(scratch, "shared").symlink_to(shared)
        copies: SimpleQueue[Copy] = SimpleQueue()
        for index in range(workers):
            copies.put(Copy(Path(scratch, str(index))))
        first = copies.get()
        before = time.monotonic()
        reach = first.reach(everything)
        patience = max(LEAST_PATIENCE, PATIENCE * (time.monotonic() - before))
        copies.put(first)

        def put_to_the_tests(mutant: Mutant) -> Result:
            own = copies.get()
            sound = (own.root / mutant.path).read_bytes()
            near = tests_that_reach(reach, mutant.path, mutant.line, sound)
            # What a child process runs is not seen as reached, nor what only importing runs.
            seen, verdict = set(near), "survived"
            far = [test for test in reach["tests"] if test not in seen]
            try:
                own.write(mutant.path, mutant.applied(sound))
                for tests in filter(None, (near, far)):
                    if verdict == "survived":
                        verdict = own.test(tests, patience)
            finally:
                own.write(mutant.path, sound)
                copies.put(own)
            print(f"{verdict:9} {mutant.path}:{mutant.line} {mutant.operator}", flush=True)
            if verdict != "killed":
                print(f"          {mutant.name}", flush=True)
            return Result(mutant, verdict)

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(put_to_the_tests, drawn))


def record(path: Path, area: str, found: Mapping[str, Any]) -> None:
    """Write what was drawn and found in an area beside what the file says of others."""
    held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(held | {area: found}, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Examine the areas named; 1 while a survivor is not argued."""
    global ROOT
    options = _options()
    ROOT = options.root.resolve()
    argued = json.loads(SURVIVORS.read_text(encoding="utf-8"))
    areas, open_ones = {}, 0
    for name in options.area:
        area = AREAS[name]
        modules = [path for pattern in area.modules for path in sorted(ROOT.glob(pattern))]
        mutants = [
            mutant
            for path in modules
            for mutant in mutants_of(str(path.relative_to(ROOT)), path.read_bytes())
        ]
        drawn = sample(mutants, options.sample, Random(options.seed))
        if options.record:
            draw = {"seed": options.seed, "of": len(mutants), "drawn": [one.name for one in drawn]}
            record(options.record, name, draw)
        if options.draw_only:
            continue
        results = examine(area, drawn, options.workers)
        left = [one.mutant for one in results if one.verdict == "survived"]
        open_ones += sum(one.name not in argued["survivors"] for one in left)
        areas[name] = {
            "date": datetime.now(UTC).date().isoformat(),
            "seed": options.seed,
            "mutants": len(mutants),
            "sample": len(drawn),
            **{
                verdict: sum(one.verdict == verdict for one in results)
                for verdict in ("killed", "survived", "timeout")
            },
            "survivors": [{"operator": one.operator, "name": one.name} for one in left],
        }
        print(f"{name}: {len(drawn)} of {len(mutants)} mutants, {len(left)} survived")
        if options.record:
            counted = {what: areas[name][what] for what in ("killed", "survived", "timeout")}
            found = {**draw, **counted, "survivors": [one.name for one in left]}
            record(options.record, name, found)
    if options.page:
        write_page(areas)
    if open_ones:
        print(f"{open_ones} survivors are not argued in {SURVIVORS.relative_to(ROOT)}")
    return 1 if open_ones else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--area", action="append", choices=AREAS, help="all if none is named")
    parser.add_argument("--sample", type=int, default=60, help="mutants of each area")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="write docs/reports/mutation.*")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to put faults into")
    parser.add_argument("--record", type=Path, help="a file for the names of what is drawn")
    parser.add_argument("--draw-only", action="store_true", help="run no test")
    options = parser.parse_args()
    options.area = options.area or list(AREAS)
    return options


if __name__ == "__main__":
    sys.exit(main())
