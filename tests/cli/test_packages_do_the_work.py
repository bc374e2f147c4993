"""The packages that the project is built on are called by the commands, not only imported."""

from __future__ import annotations

import json
import os
import pstats
import subprocess
import sys
from pathlib import Path

import pytest
from support import PORTABLE

#: What a command has to call: a function of Python by module and name, of Rust by its type.
GENERATES = "generate_private_key"
SIGNS = "'sign' of 'cryptography.hazmat.bindings._rust.openssl.ec.ECPrivateKey'"
ENCODES = "rfc8785/_impl.py dumps"
VERIFIES = "joserfc/jws.py deserialize_compact"
NAMES = "joserfc/_rfc7517/models.py thumbprint"
READS = "joserfc/_rfc7517/models.py import_key"
WRITES = "joserfc/_rfc7517/models.py as_dict"

COMMANDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("keys", "generate"): (GENERATES, NAMES),
    ("keys", "jwks", "-o", "jwks.json"): (WRITES,),
    ("sign", "card.json", "-o", "signed.json"): (ENCODES, SIGNS, VERIFIES),
    ("verify", "signed.json", "--jwks", "jwks.json"): (READS, ENCODES, VERIFIES),
    ("publish", "signed.json", "-o", "pub"): (ENCODES, VERIFIES),
}


def calls_of(words: tuple[str, ...], folder: Path) -> dict[str, int]:
    """Run a command under Python's profiler; how often it called each function."""
    environment = os.environ | {
        "CARDSIGN_PASSPHRASE": "a passphrase that is long enough",
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
    }
    command = [sys.executable, "-m", "cProfile", "-o", "profile", "-m", "cardsign", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    stats = pstats.Stats(str(folder / "profile"))
    return {
        f"{'/'.join(Path(file).parts[-2:]) if line else ''} {name}": count
        for (file, line, name), (count, *_) in stats.stats.items()  # type: ignore[attr-defined]
    }


def count_calls(calls: dict[str, int], function: str) -> int:
    """How often a function was called, by the end of its module's path and its name."""
    path, _, name = function.rpartition(" ") if ".py " in function else ("", "", function)
    tail = "/".join(path.split("/")[-2:])
    return sum(
        count
        for called, count in calls.items()
        if (called == f"{tail} {name}" if path else function in called)
    )


def test_each_command_calls_them(tmp_path: Path) -> None:
    """One after the other, as in the README."""
    (tmp_path / "card.json").write_text(json.dumps(PORTABLE))
    for words, functions in COMMANDS.items():
        calls = calls_of(words, tmp_path)
        lacking = [function for function in functions if not count_calls(calls, function)]
        assert not lacking, words


def test_a_function_that_was_not_called_is_not_counted(tmp_path: Path) -> None:
    """The twin: no signature is made by a command that makes none."""
    calls = calls_of(("help",), tmp_path)
    assert not any(count_calls(calls, function) for function in (ENCODES, SIGNS, VERIFIES))


@pytest.mark.parametrize("file", ["cardsign.toml", "trust.toml"])
def test_settings_are_read_by_pydantic(tmp_path: Path, file: str) -> None:
    """A member that there is not is refused by the model."""
    (tmp_path / "card.json").write_text(json.dumps(PORTABLE))
    (tmp_path / file).write_text("format = 1\n")
    words = ("lint", "card.json") if file == "cardsign.toml" else ("trust", "list")
    calls = calls_of(words, tmp_path)
    assert count_calls(calls, "pydantic/main.py model_validate") + count_calls(
        calls, "'validate_python' of 'pydantic_core._pydantic_core.SchemaValidator'"
    )
