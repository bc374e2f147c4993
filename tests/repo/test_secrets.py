"""Nothing secret and nothing of one machine in any file, nor in what is packaged."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from cardsign.jose.keys import PrivateKey

PEM = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY")
OBJECT = re.compile(rb"\{[^{}]*\}")
#: `d` of an RSA, EC or OKP key, `k` of a symmetric one (RFC 7518 section 6); a key's worth of it.
PRIVATE_MEMBER = re.compile(rb"""["'][dk]["']\s*:\s*["'][A-Za-z0-9_-]{16,}""")
#: A home, a checkout, or a scratch folder with a name of its own.
MACHINE_PATH = re.compile(rb"(?<![\w.])/(?:home/\w|Users/\w|root/|work/|farm\b|tmp/lab)")

#: The folders that a source distribution carries in full.
PACKAGED = ("bench", "cardsign", "docs", "examples", "tests")
TOP = (
    "Makefile noxfile.py README.md CHANGELOG.md LICENSE constraints.txt requirements.lock "
    "pyproject.toml hatch_build.py"
)
#: Where somebody's key might lie, under what name. None is in a list of the package.
DECOYS = (
    *("keys/private/x.key", "keys/demo/y.key", "keys/demo/keystore.json", "decoy.pem"),
    *("cardsign/decoy.pem", "cardsign/keys/decoy.key", "cardsign/decoy.txt"),
    *("docs/decoy.pem", "examples/decoy.key", "tests/decoy.pem"),
)


def holds_private_key(data: bytes) -> bool:
    """Whether the bytes hold a PEM private key, or a JWK with a private member."""
    return bool(PEM.search(data)) or any(
        re.search(rb"""["']kty["']""", text) and PRIVATE_MEMBER.search(text)
        for text in OBJECT.findall(data)
    )


#: The marks of a PEM private key; written so that this file does not hold them.
LINES = ("-----BEGIN PRIVATE " + "KEY-----", "TUlJ" * 16, "-----END PRIVATE " + "KEY-----")
PRIVATE_PEM = "\n".join(LINES).encode()
#: A private JWK in the spacing that `json` gives.
PRIVATE_JWK = json.dumps({"kty": "EC", "crv": "P-256", "d": "A" * 43, "x": "A", "y": "B"}).encode()


def test_no_file_holds_a_private_key(tracked: list[Path]) -> None:
    """Keys are made when tests and demo run; none is written down."""
    assert [path for path in tracked if holds_private_key(path.read_bytes())] == []


def test_no_file_names_a_place_on_one_machine(tracked: list[Path], root: Path) -> None:
    """What is published tells nothing about where it was written."""
    place = re.compile(re.escape(f"{root}/".encode()) + b"|" + MACHINE_PATH.pattern)
    assert [path for path in tracked if place.search(path.read_bytes())] == []


KEYS = {
    "a PEM key": PRIVATE_PEM,
    "an encrypted PEM key": PRIVATE_PEM.replace(b"PRIVATE", b"ENCRYPTED PRIVATE"),
    "a JWK": PRIVATE_JWK,
    "a JWK as Python writes it": str(json.loads(PRIVATE_JWK)).encode(),
    "a JWK within a set": b'{"keys": [' + PRIVATE_JWK + b"]}",
    "a symmetric JWK": b'{"kty":"oct","k":"' + b"A" * 43 + b'"}',
}
NO_KEYS = {
    "a public JWK": json.dumps(PrivateKey.generate("ES256").public.jwk()).encode(),
    "a PEM public key": PRIVATE_PEM.replace(b"PRIVATE", b"PUBLIC"),
    "a placeholder": b'{"kty": "EC", "d": "AAAA"}',
    "another d": b'{"d": "' + b"A" * 43 + b'"}, {"kty": "EC"}',
}


@pytest.mark.parametrize("name", [*KEYS, *NO_KEYS])
def test_a_private_key_is_seen(name: str) -> None:
    """The search can find something, and does not cry wolf over public material."""
    data = {**KEYS, **NO_KEYS}[name]
    assert holds_private_key(b"before\n" + data + b"\nafter") is (name in KEYS)


@pytest.fixture(scope="module")
def packaged(
    tmp_path_factory: pytest.TempPathFactory, tracked: list[Path], root: Path
) -> Mapping[str, dict[str, bytes]]:
    """The files of wheel and source distribution, built in a copy that is full of decoys."""
    copy = tmp_path_factory.mktemp("checkout")
    for path in tracked:
        target = copy / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for name in DECOYS:
        decoy = copy / name
        decoy.parent.mkdir(parents=True, exist_ok=True)
        decoy.write_bytes(PRIVATE_PEM)
    (copy / "keys/demo/.gitignore").write_text("*\n")
    command = [sys.executable, "-m", "hatchling", "build", "-d", "dist"]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    (wheel,) = (copy / "dist").glob("*.whl")
    (sdist,) = (copy / "dist").glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(sdist) as archive:
        members = {m.name.partition("/")[2]: archive.extractfile(m) for m in archive.getmembers()}
        in_sdist = {name: file.read() for name, file in members.items() if file}
    return {"wheel": in_wheel, "sdist": in_sdist}


@pytest.mark.parametrize("archive", ["wheel", "sdist"])
def test_no_private_key_is_packaged(packaged: Mapping[str, dict[str, bytes]], archive: str) -> None:
    """Neither what git ignores nor what nobody ignored is shipped."""
    files = packaged[archive]
    assert [name for name in files if name in DECOYS or holds_private_key(files[name])] == []


def test_the_wheel_holds_the_package_alone(
    packaged: Mapping[str, dict[str, bytes]], tracked: list[Path], root: Path
) -> None:
    """Every module, the mark that it is typed, and the metadata."""
    names = {str(path.relative_to(root)) for path in tracked}
    ours = {name for name in names if name.startswith("cardsign/")}
    wheel = {name for name in packaged["wheel"] if ".dist-info/" not in name}
    assert wheel == ours
    assert "cardsign/py.typed" in wheel


def test_the_source_distribution_is_complete(
    packaged: Mapping[str, dict[str, bytes]], tracked: list[Path], root: Path
) -> None:
    """The explicit lists forget nothing but the attacks: it can be tested and built again."""
    names = {str(path.relative_to(root)) for path in tracked}
    ours = {name for name in names if name.startswith(tuple(f"{top}/" for top in PACKAGED))}
    ours = {name for name in ours if not name.startswith("tests/attacks/")} | set(TOP.split())
    assert ours == set(packaged["sdist"]) - {"PKG-INFO", ".gitignore"}
