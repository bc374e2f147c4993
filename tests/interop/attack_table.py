"""The attack corpus before cardsign and others; writes docs/reports/attacks.md and .json.

    python tests/interop/attack_table.py          writes both
    python tests/interop/attack_table.py --check  fails where others answer as attacks.json does not

Each verifier is a command for `cardsign conformance`. Both fail where cardsign is wrong about a
case.
"""

from __future__ import annotations

import argparse
import json
import shlex
import socketserver
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from cardsign.testing.conformance import (  # noqa: E402
    ATTACK_TRUSTED,
    ConformanceCase,
    read_cases,
    run_cases,
)
from tests.interop.interop_page import header, line, prose  # noqa: E402
from tests.interop.judges import Judge, JudgeFailed  # noqa: E402
from tests.interop.roster import PROGRAMS, VERIFIERS, Verifier  # noqa: E402
from tests.tools import name_judges  # noqa: E402

TESTS: Final = ROOT / "tests"
PAGE: Final = ROOT / "docs" / "reports" / "attacks.md"
RECORD: Final = ROOT / "docs" / "reports" / "attacks.json"

OURS: Final = (
    f"{shlex.quote(sys.executable)} -m cardsign verify - -q --jwks {{keys}} --origin {{origin}}"
)
ASK: Final = Path(__file__).with_name("ask.py")
JAVASCRIPT: Final = "examples/verifier-js"
#: The verifiers beside cardsign by their name on the page, and in the roster.
SDKS: Final = {
    "a2a-sdk": VERIFIERS["a2a-sdk"],
    "@a2a-js/sdk": VERIFIERS["a2a-js plain"],
    "plain joserfc": VERIFIERS["joserfc"],
}

#: By verifier, what it is wrong about: the problem by case.
Results = Mapping[str, Mapping[str, str]]


def main() -> int:
    """Run all, then write or compare; 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(description="put attacks and honest cards to verifiers")
    parser.add_argument("--check", action="store_true", help="compare with attacks.json only")
    options = parser.parse_args()
    name_judges()
    lacking = [name for name, sdk in SDKS.items() if PROGRAMS[sdk.program].place is None]
    if lacking:
        print(f"not installed: {', '.join(lacking)}; see `nox -s judges`", file=sys.stderr)
        return 1
    ours = run_cases(TESTS, OURS)
    print(*ours.lines(), sep="\n")
    results, versions = ask_others()
    found = record(results, versions)
    if ours.wrong:
        return 1
    if options.check:
        written = json.loads(RECORD.read_text(encoding="utf-8"))
        faults = list(differences(written["wrong"], found["wrong"]))
        print(*faults or ["the others answer as attacks.json says"], sep="\n")
        return 1 if faults else 0
    cases, left_out = read_cases(TESTS)
    RECORD.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text("\n".join(page(cases, left_out, results, versions)), encoding="utf-8")
    return 0


def ask_others() -> tuple[Results, dict[str, str]]:
    """Return what each verifier beside cardsign is wrong about, and its version."""
    results, versions = {}, {}
    for name, sdk in SDKS.items():
        with PROGRAMS[sdk.program].start() as judge:
            version = judge.version()
            versions[name] = f"{version.name} {version.version}"
            with asked_by_socket(judge, sdk) as command:
                results[name] = run_cases(TESTS, command).wrong
    script = ROOT / JAVASCRIPT / "verify-card.mjs"
    results[JAVASCRIPT] = run_cases(TESTS, f"node {shlex.quote(str(script))} {{keys}}").wrong
    versions[JAVASCRIPT] = "of this checkout"
    return results, versions


@contextmanager
def asked_by_socket(judge: Judge, sdk: Verifier) -> Iterator[str]:
    """Answer `ask.py` as long as the context is open; gives the command."""
    turn = threading.Lock()  # a judge answers one question after another

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            keys = Path(self.rfile.readline().decode().strip())
            card = self.rfile.read()
            with turn:
                self.wfile.write(bytes([ask(judge, sdk, card, keys.read_bytes())]))

    class Server(socketserver.ThreadingUnixStreamServer):
        daemon_threads = True

    with tempfile.TemporaryDirectory() as folder, Server(f"{folder}/judge", Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            words = (sys.executable, "-I", "-S", str(ASK), f"{folder}/judge")
            yield f"{shlex.join(words)} {{keys}}"
        finally:
            server.shutdown()
            thread.join()


def ask(judge: Judge, sdk: Verifier, card: bytes, keys: bytes) -> int:
    """Return the exit status that stands for a judge's answer."""
    try:
        text = card.decode()
    except UnicodeDecodeError:
        return 1  # a judge takes text; what is none counts as refused
    try:
        answer = judge.ask("verify", path=sdk.path, card=text, jwks=json.loads(keys))
    except JudgeFailed:
        judge.version()  # raises where the judge is gone
        return 1
    return 0 if answer["outcome"] == "accepted" and answer["callable"] else 1


# The record and the page.


def record(results: Results, versions: Mapping[str, str]) -> dict[str, Any]:
    """Return what is written to attacks.json."""
    wrong = {name: dict(sorted(problems.items())) for name, problems in results.items()}
    return {"versions": versions, "wrong": wrong}


def differences(written: Results, found: Results) -> Iterator[str]:
    """Yield a line for each case about which a verifier answers otherwise than is written."""
    for name in written.keys() | found.keys():
        was, now = written.get(name, {}), found.get(name, {})
        for case in sorted(was.keys() | now.keys()):
            if was.get(case) != now.get(case):
                yield f"{name}: {case}: {now.get(case, 'right')}, not {was.get(case, 'right')}"


def page(
    cases: Sequence[ConformanceCase],
    left_out: Mapping[str, int],
    results: Results,
    versions: Mapping[str, str],
) -> Iterator[str]:
    """Yield the lines of the page."""
    hostile = [case.name for case in cases if not case.is_trusted]
    honest = [case.name for case in cases if case.is_trusted]
    yield _INTRODUCTION
    yield from prose(
        f"cardsign is right about all {len(cases)} cases: it refuses the {len(hostile)} hostile "
        f"cards and trusts the {len(honest)} honest ones."
    )
    yield ""
    yield from header("verifier", "version", "hostile, accepted", "honest, refused")
    for name, wrong in results.items():
        accepted = sum(wrong.get(case) == ATTACK_TRUSTED for case in hostile)
        refused = sum(case in wrong for case in honest)
        yield line(
            name, versions[name], f"{accepted} of {len(hostile)}", f"{refused} of {len(honest)}"
        )
    yield from ("", "## By attack", "")
    yield from _by_attack(hostile, results)
    yield from ("", "## What was left out", "")
    needs = ", ".join(f"{count:,} need {need}" for need, count in left_out.items())
    yield from prose(
        f"The other verifiers have no policy, no memory and no statements. Of the corpus, {needs}. "
        "The tests of cardsign put every case to it; the verdict, the reason and each request must "
        "be those of the case."
    )
    yield ""


def _by_attack(hostile: Iterable[str], results: Results) -> Iterator[str]:
    """Yield a row for each attack of which some verifier accepts a card."""
    counts = Counter(number for case in hostile if (number := _number(case)))
    accepted = {
        name: Counter(_number(case) for case, problem in wrong.items() if problem == ATTACK_TRUSTED)
        for name, wrong in results.items()
    }
    titles = {
        _number(path.stem): json.loads(path.read_bytes())["title"]
        for path in (TESTS / "attacks").glob("*.json")
    }
    yield from prose("How many of the hostile cards each verifier accepts:")
    yield ""
    yield from header("number", "attack", *results)
    for number, count in counts.items():
        if any(accepted[name][number] for name in results):
            cells = (
                f"**{accepted[name][number]}** of {count}" if accepted[name][number] else "-"
                for name in results
            )
            yield line(str(number), titles[number], *cells)
    refused = [
        str(number) for number in counts if not any(accepted[name][number] for name in results)
    ]
    yield ""
    yield from prose(f"All of them refuse every hostile card of attacks {', '.join(refused)}.")


def _number(case: str) -> int:
    """Return the number of the attack that a case belongs to; 0 for a vector."""
    stem = case.partition("/")[0].partition("-")[0]
    return int(stem) if stem.isdigit() else 0


_INTRODUCTION: Final = """\
# Attacks

`nox -s attacks` writes this page with `cardsign conformance`, and fails where cardsign gets a
case wrong. You can put the same cases to [your own
verifier](../../examples/verifier-js/README.md). The attacks are data that any implementation can
use: [tests/attacks](../../tests/attacks/README.md). [attacks.json](attacks.json) names each case
that a verifier gets wrong.

Each attack has hostile cards, which must be refused, and honest twins, which must be trusted. A
verifier gets the card and the keys that are trusted. It **accepts** a card if it finds a
signature good and a client could be built from what it read, as in [interop](interop.md). An
exception counts as refusing.

* None of these libraries claims to have a policy. a2a-sdk and @a2a-js/sdk leave the choice of
  keys to their callers, and joserfc is a JOSE library, driven here by some fifty lines such as
  people write by hand. What is accepted is what a caller who adds nothing is open to.
* A verifier that reads another payload than ours refuses some cards for that alone, honest ones
  too.
* The cards of attacks 70, 71 and 117 name an endpoint at a host that is not the issuer's. Only
  cardsign compares the two.
* A member that no schema knows (attacks 65 and 107) is not in what the SDKs verify, so anybody
  may add it. The SDKs accept a pruned card (101), since our compat signatures over it were made
  for them; `cardsign sign` says what those leave open.
"""


if __name__ == "__main__":
    sys.exit(main())
