"""The page on adding a command: what it says runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "commands.md"
JWKS = """{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "tides-1",
"x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"""
RUNNER = """
import sys
from cardsign.cli.frame import run
form = "json" if "--json" in sys.argv else "text"
sys.exit(run(lambda: kids.main(sys.argv[1:], "kids", standalone_mode=False), form=form))
"""


def program(folder: Path) -> Callable[..., tuple[str, str, int]]:
    """The command of the page, as a program: stdout, stderr and exit status."""
    module = folder / "kids.py"
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module.write_text(code + RUNNER)

    def ran(*words: str, stdin: str = JWKS) -> tuple[str, str, int]:
        line = [sys.executable, str(module), *words]
        ended = subprocess.run(line, input=stdin, text=True, capture_output=True, cwd=folder)
        return ended.stdout, ended.stderr, ended.returncode

    return ran


def test_the_command_of_the_page_runs(tmp_path: Path) -> None:
    """In one file, with text, JSON, help and an error of the frame."""
    ran = program(tmp_path)
    assert ran("-") == ("tides-1\n", "", 0)
    assert ran("-", "--json") == ('[\n  "tides-1"\n]\n', "", 0)
    assert "cardsign kids jwks.json" in ran("--help")[0]
    out, err, status = ran("-", "--json", stdin="{")
    assert (json.loads(out)["error"]["code"], status) == ("jwks.malformed", 1)
    assert err.startswith("cardsign: jwks.malformed: ")
    assert ran("--never")[2] == 2
