"""The packages that the project is built on are called by the commands, not only imported."""

from __future__ import annotations

import cProfile
import json
import pstats
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign
from tests.support import PORTABLE

#: What a command has to call: a function of Python by module and name, of Rust by its type.
SIGNS = "'sign' of 'cryptography.hazmat.bindings._rust.openssl.ec.ECPrivateKey'"
ENCODES = "rfc8785/_impl.py dumps"
VERIFIES = "joserfc/jws.py deserialize_compact"
JWKS = "joserfc/_rfc7517/models.py"

COMMANDS: dict[str, tuple[str, ...]] = {
    "keys generate": ("generate_private_key", f"{JWKS} thumbprint"),
    "keys jwks -o jwks.json": ("joserfc/_rfc7517/pem.py convert_raw_key_to_dict",),
    "sign card.json -o signed.json": (ENCODES, SIGNS, VERIFIES),
    "verify signed.json --jwks jwks.json": (f"{JWKS} import_key", ENCODES, VERIFIES),
    "publish signed.json -o pub": (ENCODES, VERIFIES),
    "trust list": ("'validate_python' of 'pydantic_core.",),
}


def calls_of(cardsign: Cardsign, command: str) -> set[str]:
    """Run a command under Python's profiler; each function that it called, by module and name."""
    profile = cProfile.Profile()
    ended = profile.runcall(cardsign, *command.split())
    assert ended.status == 0, ended.err
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return {
        f"{'/'.join(Path(file).parts[-len(Path(JWKS).parts) :]) if line else ''} {name}"
        for file, line, name in stats
    }


def lacking(calls: set[str], functions: tuple[str, ...]) -> list[str]:
    """Those of the functions that were not called."""
    return [one for one in functions if not any(one in called for called in calls)]


@pytest.mark.usefixtures("cheap")
def test_each_command_calls_them(cardsign: Cardsign) -> None:
    """One after the other, as in the README; a command that makes no signature calls none."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    Path("trust.toml").write_text("format = 1\n")
    for command, functions in COMMANDS.items():
        assert lacking(calls_of(cardsign, command), functions) == [], command
    signing = (ENCODES, SIGNS, VERIFIES)
    assert lacking(calls_of(cardsign, "help"), signing) == list(signing)
