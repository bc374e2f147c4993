"""docs/reference/openapi.yaml and a real server: schemathesis asks what it allows, and more."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from cardsign.jose.keys import PrivateKey
from cardsign.server.tokens import create_token
from tests.publish.publications import PUBLIC, publish_cards
from tests.server.programs import PATIENCE, ROOT, running
from tests.tools import SCHEMATHESIS

SPECIFICATION = ROOT / "docs/reference/openapi.yaml"
EXAMPLES = 10
#: JSON-RPC answers a bad call with 200 and an error (JSON-RPC 2.0 5.1), which this check forbids.
LEFT_OUT = "negative_data_rejection"


@pytest.mark.thorough
@pytest.mark.needs_schemathesis
def test_the_server_answers_as_the_specification_says(tmp_path: Path, key: PrivateKey) -> None:
    """Each status, header and body is one that the file names; the twin names too few."""
    token, line = create_token("staff")
    (tmp_path / "tokens").write_text(line + "\n")
    publish_cards(tmp_path / "pub", key, PUBLIC, "staff", now=datetime.now(UTC))
    with running(tmp_path, 'token_file = "tokens"\n') as server:

        def tried(specification: Path, *options: str) -> subprocess.CompletedProcess[str]:
            """Ask with the token; schemathesis asks without it, too."""
            words = ["run", str(specification), "--url", server.url, "--exclude-checks", LEFT_OUT]
            words += ["-H", f"Authorization: Bearer {token}", "--max-examples", str(EXAMPLES)]
            words += ["--seed", "1", "--no-color", *options]
            program = SCHEMATHESIS / "bin/st"
            return subprocess.run(
                [str(program), *words],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=5 * PATIENCE,
            )

        good = tried(SPECIFICATION)
        assert good.returncode == 0, good.stdout
        changed = yaml.safe_load(SPECIFICATION.read_text("utf-8"))
        del changed["paths"]["/a2a"]["post"]["responses"]["200"]
        twin = tmp_path / "twin.yaml"
        twin.write_text(yaml.safe_dump(changed))
        bad = tried(twin, "--include-path", "/a2a", "--phases", "coverage")
        assert (bad.returncode, "Undocumented status code" in bad.stdout) == (1, True)
