"""The attack corpus before cardsign and others; fills docs/reports/attacks.md, writes attacks.json.

    python tests/interop/attack_table.py          writes both
    python tests/interop/attack_table.py --check  fails where others answer as attacks.json does not

cardsign is run as a command, by `cardsign conformance`. Both fail where it is wrong about a case.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cardsign.testing.conformance import (  # noqa: E402
    ATTACK_TRUSTED,
    ConformanceCase,
    read_cases,
    run_cases,
)
from tests.interop.interop_page import header, line, prose, rewrite  # noqa: E402
from tests.interop.judges import Judge, JudgeFailed  # noqa: E402
from tests.interop.roster import PROGRAMS, VERIFIERS, Verifier  # noqa: E402
from tests.tools import name_judges  # noqa: E402

TESTS: Final = ROOT / "tests"
PAGE: Final = ROOT / "docs" / "reports" / "attacks.md"
RECORD: Final = PAGE.with_suffix(".json")
OURS: Final = (
    f"{shlex.quote(sys.executable)} -m cardsign verify - -q --jwks {{keys}} --origin {{origin}}"
)
JAVASCRIPT: Final = "examples/verifier-js"
#: The verifiers beside cardsign by their name on the page.
SDKS: Final = {
    "a2a-sdk": VERIFIERS["a2a-sdk"],
    "@a2a-js/sdk": VERIFIERS["a2a-js plain"],
    "plain joserfc": VERIFIERS["joserfc"],
}

#: By verifier, what it is wrong about: the problem by case.
Results = Mapping[str, Mapping[str, str]]


def main() -> int:
    """Run all, then write or compare; 1 where something is not as it must be."""
    name_judges()
    ours = run_cases(TESTS, OURS, print)
    print(*ours.lines(), sep="\n")
    cases, left_out = read_cases(TESTS)
    results, versions = ask_others(cases)
    if ours.wrong:
        return 1
    if "--check" in sys.argv[1:]:
        faults = [*differences(json.loads(RECORD.read_text("utf-8"))["wrong"], results)]
        print(*faults or ["the others answer as attacks.json says"], sep="\n")
        return 1 if faults else 0
    found = {"versions": versions, "wrong": results}
    RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, parts(cases, left_out, results, versions))
    return 0


def ask_others(cases: Sequence[ConformanceCase]) -> tuple[Results, dict[str, str]]:
    """Return what each verifier beside cardsign is wrong about, and its version."""
    results, versions = {}, {}
    for name, sdk in SDKS.items():
        with PROGRAMS[sdk.program].start() as judge:
            version = judge.version()
            versions[name] = f"{version['name']} {version['version']}"
            problems = {case.name: find_problem(judge, sdk, case) for case in cases}
            results[name] = {case: text for case, text in sorted(problems.items()) if text}
    script = shlex.quote(str(ROOT / JAVASCRIPT / "verify-card.mjs"))
    wrong = run_cases(TESTS, f"node {script} {{keys}}", print).wrong
    results[JAVASCRIPT] = dict(sorted(wrong.items()))
    versions[JAVASCRIPT] = "of this checkout"
    return results, versions


def find_problem(judge: Judge, sdk: Verifier, case: ConformanceCase) -> str:
    """Return what a judge got wrong; empty if it is right. What is no text counts as refused."""
    is_trusted = False
    try:
        jwks = json.loads(case.keys)
        answer = judge.ask("verify", path=sdk.path, card=case.card.decode(), jwks=jwks)
        is_trusted = answer["outcome"] == "accepted" and answer["callable"]
    except UnicodeDecodeError:
        pass
    except JudgeFailed:
        judge.version()  # raises where the judge is gone
    if is_trusted == case.is_trusted:
        return ""
    return ATTACK_TRUSTED if is_trusted else "an honest card is not trusted"


def differences(written: Results, found: Results) -> Iterator[str]:
    """Yield a line for each case about which a verifier answers otherwise than is written."""
    for name in written.keys() | found.keys():
        was, now = written.get(name, {}), found.get(name, {})
        for case in sorted(was.keys() | now.keys()):
            if was.get(case) != now.get(case):
                yield f"{name}: {case}: {now.get(case, 'right')}, not {was.get(case, 'right')}"


def parts(
    cases: Sequence[ConformanceCase],
    left_out: Mapping[str, Sequence[str]],
    results: Results,
    versions: Mapping[str, str],
) -> dict[str, list[str]]:
    """Return what the page counts."""
    hostile = [case.name for case in cases if not case.is_trusted]
    honest = [case.name for case in cases if case.is_trusted]
    ours = prose(
        f"cardsign is right about all {len(cases)} cases: it refuses the {len(hostile)} hostile "
        f"cards and trusts the {len(honest)} honest ones."
    )
    table = [*header("verifier", "version", "hostile, accepted", "honest, refused")]
    for name, wrong in results.items():
        accepted = f"{sum(wrong.get(case) == ATTACK_TRUSTED for case in hostile)} of {len(hostile)}"
        refused = f"{sum(case in wrong for case in honest)} of {len(honest)}"
        table.append(line(name, versions[name], accepted, refused))
    needs = ", ".join(f"{len(names):,} need {need}" for need, names in left_out.items())
    return {
        "all cases": [*ours, "", *table],
        "by attack": [*_by_attack(hostile, results)],
        "left out": prose(f"Of the corpus, {needs}."),
    }


def _by_attack(hostile: Sequence[str], results: Results) -> Iterator[str]:
    """Yield a row for each attack of which some verifier accepts a card."""
    counts = Counter(map(_number, hostile))
    accepted = {
        name: Counter(_number(case) for case in hostile if wrong.get(case) == ATTACK_TRUSTED)
        for name, wrong in results.items()
    }
    attacks = (json.loads(path.read_bytes()) for path in (TESTS / "attacks").glob("*.json"))
    titles = {attack["number"]: attack["title"] for attack in attacks}
    del counts[0]
    is_accepted = {number: any(accepted[name][number] for name in results) for number in counts}
    yield from header("number", "attack", *results)
    for number, count in counts.items():
        numbers = [accepted[name][number] for name in results]
        if is_accepted[number]:
            cells = (f"**{wrong}** of {count}" if wrong else "-" for wrong in numbers)
            yield line(number, titles[number], *cells)
    refused = ", ".join(str(number) for number in counts if not is_accepted[number])
    yield ""
    yield from prose(f"All of them refuse every hostile card of attacks {refused}.")


def _number(case: str) -> int:
    """Return the number of the attack that a case belongs to; 0 for a vector."""
    stem = case.partition("/")[0].partition("-")[0]
    return int(stem) if stem.isdigit() else 0


if __name__ == "__main__":
    sys.exit(main())
