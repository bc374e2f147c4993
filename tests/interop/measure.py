"""Writes docs/reports/measurements.md and measurements.json: what the experiment found out.

    CARDSIGN_JUDGE_PY=INTERPRETER CARDSIGN_JUDGE_JS_HOME=FOLDER python tests/interop/measure.py

Every number comes from the run; test_measurements.py holds both files against a run of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import judges  # noqa: E402
from experiment import ALGORITHMS, Found, Row, run, signatures_of_others  # noqa: E402
from judges import Version  # noqa: E402
from measurement_page import body, head  # noqa: E402

from cardsign import PrivateKey, __version__  # noqa: E402

SHARED: Final = ROOT.parent / "shared"
PAGE: Final = ROOT / "docs" / "reports" / "measurements.md"
RECORD: Final = ROOT / "docs" / "reports" / "measurements.json"

_JUDGES: Final = ("CARDSIGN_JUDGE_PY", "CARDSIGN_JUDGE_JS_HOME")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was found out, when, and with what.

    Attributes:
        date: The day, in UTC.
        versions: Of all that took part.
        rows: By algorithm, one for each shared card.
        found: The signatures that real cards came with.
    """

    date: str
    versions: Mapping[str, str]
    rows: Mapping[str, tuple[Row, ...]]
    found: tuple[Found, ...]

    @property
    def differing(self) -> list[str]:
        """The files for which not every algorithm gave the same."""
        by_card = zip(*self.rows.values(), strict=True)
        return [first.file for first, *others in by_card if any(one != first for one in others)]

    def page(self) -> str:
        """For people."""
        parts = head(self.date, self.versions), body(self._rows, self.differing, self.found)
        return "\n\n".join(part for one in parts for part in one) + "\n"

    def record(self) -> str:
        """For programs: JSON, a line for each card; nothing of what is in the cards."""
        return "\n".join(_lines(asdict(self), {row.file: _plain(row) for row in self._rows})) + "\n"

    @property
    def _rows(self) -> tuple[Row, ...]:
        return self.rows[ALGORITHMS[0]]


def _plain(row: Row) -> dict[str, Any]:
    return {name: value for name, value in asdict(row).items() if value and name != "file"}


def _lines(measured: Mapping[str, Any], cards: Mapping[str, Any]) -> Iterator[str]:
    yield "{"
    yield f'  "measured_on": {json.dumps(measured["date"])},'
    yield f'  "versions": {json.dumps(measured["versions"])},'
    yield '  "cards": {'
    yield ",\n".join(f"    {json.dumps(file)}: {json.dumps(row)}" for file, row in cards.items())
    yield "  },"
    yield '  "signatures": ['
    yield ",\n".join(f"    {json.dumps(one)}" for one in measured["found"])
    yield "  ]"
    yield "}"


def versions_of(*sdks: Version) -> dict[str, str]:
    """What is said of the SDKs' versions and of our own."""
    ours = ", ".join(f"{name} {version(name)}" for name in ("cryptography", "joserfc", "rfc8785"))
    found = {"cardsign": f"{__version__} (Python {python_version()}, {ours})"}
    for sdk in sdks:
        beside = ", ".join(f"{name} {number}" for name, number in sdk.beside.items())
        found[sdk.name] = f"{sdk.version} ({beside})"
    return found


def measure() -> Measurement:
    """Run the experiment under each algorithm, with keys made for it."""
    with judges.a2a_sdk() as sdk, judges.a2a_js() as js:
        return Measurement(
            str(datetime.now(UTC).date()),
            versions_of(sdk.version(), js.version()),
            {alg: run(SHARED, PrivateKey.generate(alg), sdk, js) for alg in ALGORITHMS},
            signatures_of_others(SHARED),
        )


def main() -> None:
    """Measure, then write both files."""
    lacking = [name for name in _JUDGES if not os.environ.get(name)]
    if lacking:
        sys.exit(f"{' and '.join(lacking)} must be set, as tests/interop/README.md says")
    if not SHARED.is_dir():
        sys.exit("there is no folder `shared` beside the checkout")
    measured = measure()
    PAGE.write_text(measured.page(), encoding="utf-8")
    RECORD.write_text(measured.record(), encoding="utf-8")


if __name__ == "__main__":
    main()
