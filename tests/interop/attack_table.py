"""Every case of the attack corpus before us and others; writes docs/reports/attacks.md and .json.

    python tests/interop/attack_table.py

Fails where cardsign gets a case wrong. Without the SDKs of `make tools` nothing is written.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from attack_page import page, record  # noqa: E402
from attack_trial import ASKED, Panel  # noqa: E402
from roster import PROGRAMS, VERIFIERS  # noqa: E402

from tests.attack_runner.corpus import load_attacks, load_cases  # noqa: E402
from tests.attack_runner.outcome import deviations  # noqa: E402
from tests.attack_runner.verifier import run_case  # noqa: E402
from tests.tools import name_judges  # noqa: E402

PAGE: Final = ROOT / "docs" / "reports" / "attacks.md"
RECORD: Final = ROOT / "docs" / "reports" / "attacks.json"


def main() -> int:
    """Run all, write both files; 1 where we are wrong."""
    name_judges()
    attacks, cases = load_attacks(), load_cases().values()
    wrong = {case.id: found for case in cases if (found := deviations(case, run_case))}
    for name, found in wrong.items():
        print(f"{name}: {'; '.join(found)}", file=sys.stderr)
    print(f"{len(attacks)} attacks, {len(cases)} cases: {len(wrong)} wrong")
    lacking = [name for name in ASKED if PROGRAMS[VERIFIERS[name].program].place is None]
    if wrong or lacking:
        print("nothing written" + (f", for want of {', '.join(lacking)}" if lacking else ""))
        return 1 if wrong else 0
    os.environ["PYTHONWARNINGS"] = "ignore"  # the judges': weak keys are the point here
    with Panel() as panel:
        results = list(panel.results(attacks))
        versions = {name: judge.version() for name, judge in panel.judges.items()}
    PAGE.write_text(page(attacks, results, versions), encoding="utf-8")
    RECORD.write_text(record(attacks, results, versions), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
