"""Where the programs stand that tests drive: `.venv/bin/nox -s tools` puts them there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

NOX: Final = Path(__file__).resolve().parents[1] / ".nox"
BROWSER: Final = NOX / "browser"
SCHEMATHESIS: Final = NOX / "schemathesis"
SARIF_SCHEMA: Final = (
    NOX / "sarif/node_modules/@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"
)
_JUDGES: Final = {
    "CARDSIGN_JUDGE_PY": NOX / "judges/bin/python",
    "CARDSIGN_JUDGE_JS_HOME": NOX / "judges/js",
    "CARDSIGN_JUDGE_RUST": NOX / "judges/rust/debug/judge",
}


def name_judges() -> None:
    """Set the variables that name the judges, where they are unset and the judges are there."""
    for name, place in _JUDGES.items():
        if place.exists():
            os.environ.setdefault(name, str(place))
