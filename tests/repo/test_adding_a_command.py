"""The page on adding a command: what it says runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "commands.md"
JWKS = """{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "tides-1",
"x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"""


def test_the_command_of_the_page_runs(tmp_path: Path) -> None:
    """In one file, with text, JSON, help and an error of the frame."""
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    runner = "\nimport sys\nfrom cardsign.cli.frame import run\n"
    runner += "sys.exit(run(lambda: kids.main(sys.argv[1:], 'kids', standalone_mode=False)))\n"
    module = tmp_path / "kids.py"
    module.write_text(code[1] + runner)

    def ran(*words: str, stdin: str = JWKS) -> tuple[str, str, int]:
        line = [sys.executable, str(module), *words]
        ended = subprocess.run(line, input=stdin, text=True, capture_output=True)
        return ended.stdout, ended.stderr, ended.returncode

    assert ran("-") == ("tides-1\n", "", 0)
    assert ran("-", "--json") == ('[\n  "tides-1"\n]\n', "", 0)
    assert "cardsign kids jwks.json" in ran("--help")[0]
    assert ran("-", stdin="{")[1:] != ("", 0)
    assert ran("--never")[2] == 2
