"""The packages that the project is built on are called by the commands, not only imported."""

from __future__ import annotations

import cProfile
import json
import pstats
from pathlib import Path

from tests.cli.conftest import Cardsign, run
from tests.support import PORTABLE

#: What a command has to call: a function of Python by file and name, of Rust by its type.
SIGNS = "'sign' of 'cryptography.hazmat.bindings._rust.openssl.ec.ECPrivateKey'"
ENCODES = "rfc8785/_impl.py dumps"
VERIFIES = "joserfc/jws.py deserialize_compact"
COMMANDS: dict[str, tuple[str, ...]] = {
    "keys generate": ("generate_private_key", "joserfc/_rfc7517/models.py thumbprint"),
    "keys jwks -o jwks.json": ("joserfc/_rfc7517/pem.py convert_raw_key_to_dict",),
    "sign card.json -o signed.json": (ENCODES, SIGNS, VERIFIES),
    "verify signed.json --jwks jwks.json": (
        *("joserfc/_rfc7517/models.py import_key", ENCODES, VERIFIES),
    ),
    "publish signed.json -o pub": (ENCODES, VERIFIES),
    "trust list": ("'validate_python' of 'pydantic_core.",),
}


def calls_of(cardsign: Cardsign, command: str) -> str:
    """Run a command under Python's profiler; each function that it called, one a line."""
    profile = cProfile.Profile()
    run(profile.runcall(cardsign, *command.split()))
    functions = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return "\n".join(f"{file} {name}" for file, _, name in functions)


def test_each_command_calls_them(cardsign: Cardsign) -> None:
    """One after the other, as in the README; a command that makes no signature calls none."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    Path("trust.toml").write_text("format = 1\n")
    for command, functions in COMMANDS.items():
        calls = calls_of(cardsign, command)
        assert [name for name in functions if name not in calls] == [], command
    calls = calls_of(cardsign, "help")
    assert not any(name in calls for name in (ENCODES, SIGNS, VERIFIES))
