"""Every card before every judge: holds it against exceptions.json, writes docs/reports/interop.*.

    python tests/interop/table.py            all judges, the shared cards and 2,000 random ones
    python tests/interop/table.py --quick    Python and JavaScript, 200 random ones; no writing
    python tests/interop/table.py --propose  all of it, into exceptions.json, to be explained

A run fails where it finds an exception that was not written down or lacks one that was, and
where a judge is not there: `nox -s judges rust`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cardsign import PrivateKey  # noqa: E402
from tests.interop.interop_page import (  # noqa: E402
    parts,
    record,
    rewrite,
)
from tests.interop.population import CLASSES, Sample, population  # noqa: E402
from tests.interop.roster import PROGRAMS, Program  # noqa: E402
from tests.interop.trial import (  # noqa: E402
    Row,
    Trial,
    deviations,
    found_in,
    load_exceptions,
    save_exceptions,
)
from tests.tools import name_judges  # noqa: E402

SHARED: Final = ROOT.parent / "shared"
PAGE: Final = ROOT / "docs" / "reports" / "interop.md"
RECORD: Final = ROOT / "docs" / "reports" / "interop.json"

RANDOM_CARDS: Final = 2_000
QUICK_RANDOM_CARDS: Final = 200
QUICK_LANGUAGES: Final = ("Python", "JavaScript")
WORKERS: Final = 2  # threads; the judges are processes of their own


def main() -> int:
    """Run, compare, write; 1 where anything is not as it was written down."""
    name_judges()
    quick = "--quick" in sys.argv
    asked = [one for one in PROGRAMS.values() if not quick or one.language in QUICK_LANGUAGES]
    programs = [program for program in asked if program.place is not None]
    faults = [f"{program.name} is not installed" for program in asked if program.place is None]
    rows = put(programs, [*population(SHARED, QUICK_RANDOM_CARDS if quick else RANDOM_CARDS)])
    written = load_exceptions()
    found = found_in(rows, written)
    if "--propose" in sys.argv:
        save_exceptions({**written, **found})
        return 0
    whole = SHARED.is_dir()
    sampled = [name for name in CLASSES if (quick if name.startswith("random") else not whole)]
    faults += deviations(found, written, sampled)
    print(*faults, sep="\n", file=sys.stderr)
    if not faults and whole and not quick:
        versions = {}
        for program in programs:
            with program.start() as judge:
                versions[program.name] = judge.version()
        rewrite(PAGE, parts(versions, rows, written))
        RECORD.write_text(record(versions, rows), encoding="utf-8")
    judged = sum(bool(row.judged) for row in rows)
    print(f"{judged} cards before {len(programs)} judges: {len(faults)} faults")
    return 1 if faults else 0


def put(programs: Sequence[Program], samples: Sequence[Sample]) -> tuple[Row, ...]:
    """Put every card before these programs."""
    key = PrivateKey.generate("ES256")

    def share(worker: int) -> list[Row]:
        with ExitStack() as stack:
            judges = {one.name: stack.enter_context(one.start()) for one in programs}
            trial = Trial(key, judges)
            return [trial.row(sample) for sample in samples[worker::WORKERS]]

    with ThreadPoolExecutor(WORKERS) as pool:
        shares = [iter(rows) for rows in pool.map(share, range(WORKERS))]
    return tuple(next(shares[index % WORKERS]) for index in range(len(samples)))


if __name__ == "__main__":
    sys.exit(main())
