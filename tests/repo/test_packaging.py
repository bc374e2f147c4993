"""What others install: dependencies, links of the README, and systems without ``fcntl``."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

#: What handles keys, signatures, statements or a stranger's bytes. A fix of these must install.
SECURITY = (
    *("cryptography", "filelock", "flask", "flask-limiter", "granian", "httpcore", "httpx"),
    *("joserfc", "jsonschema", "limits", "pydantic", "pyyaml", "rfc8785", "werkzeug"),
)
# What other systems lack. `None` in sys.modules makes an import fail as if there were no module.
ELSEWHERE = """
import os, sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_CLOEXEC", "geteuid", "getuid", "uname"):
    delattr(os, name)
import pkgutil
import cardsign
"""
IMPORTS = """
for module in pkgutil.walk_packages(cardsign.__path__, "cardsign."):
    # For the store in a database, what opens stores names the extra.
    if not module.name.endswith(("__main__", "testing.plugin", "keys.postgres")):
        try:
            __import__(module.name)
        except ImportError as error:
            assert "install the extra" in str(error), error
"""
# What comes before the names in `cardsign[aws] @ git+...`, `.[aws]`, `/src[aws]` and in code.
EXTRAS = re.compile(
    r"""(?:\bcardsign\[|'\.\[|/src\[|install_hint\(["']|require\(\S+ extra=")([a-z0-9, ]+)[]"']"""
)
UNRELEASED = re.compile(r"pip install (?:-\S+ )*'?cardsign(?!\S* @ git\+)")
COMMAND = "from cardsign.cli.main import main; main()"


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    """The table of pyproject.toml."""
    return dict(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"])


def _elsewhere(root: Path, script: str, words: str = "") -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-W", "ignore", "-c", ELSEWHERE + script, *words.split()]
    return subprocess.run(program, cwd=root, capture_output=True, text=True, check=False)


def test_one_security_library_has_an_upper_bound(project: dict[str, Any]) -> None:
    """Whoever installs cardsign gets fixes on the day of their release.

    joserfc decides every signature, so a later minor version is tried first (decision F1).
    """
    bounds = {re.split(r"[>\[]", one)[0]: one for one in project["dependencies"]}
    extras = [one for many in project["optional-dependencies"].values() for one in many]
    assert set(SECURITY) <= bounds.keys()
    bounded = [bounds[name] for name in SECURITY if "<" in bounds[name] or "==" in bounds[name]]
    assert bounded == ["joserfc>=1.8,<1.9"]
    assert [one for one in extras if "<" in one] == ["a2a-sdk[signing]>=1.3,<2"]


def test_every_python_that_is_promised_is_tried(root: Path, project: dict[str, Any]) -> None:
    """The classifiers, the jobs of the tests and the trial of the wheel name the same versions."""
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    workflow = yaml.safe_load((root / ".github/workflows/test.yml").read_text("utf-8"))
    trial = re.search(r"for version in ([\d. ]+);", (root / ".ci/try-wheel").read_text("utf-8"))
    assert trial
    assert trial[1].split() == named
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


def test_every_module_imports_without_what_only_posix_has(root: Path) -> None:
    """Extras that are not installed are no reason to fail, either."""
    ran = _elsewhere(root, IMPORTS)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", ["Weather Desk", "Weather Dusk"])
def test_cards_are_verified_and_remembered_without_fcntl(
    root: Path, tmp_path: Path, name: str
) -> None:
    """By a key set and by a policy with its lock; a changed card is not trusted."""
    is_honest = name == "Weather Desk"
    card = (root / "keys/agent-card.json").read_text("utf-8").replace("Weather Desk", name)
    (tmp_path / "card.json").write_text(card, "utf-8")
    for file in ("trust.toml", "trust.lock"):
        shutil.copy(root / "keys" / file, tmp_path)

    verify = f"verify {tmp_path}/card.json"
    by_keys = _elsewhere(root, COMMAND, f"{verify} --jwks keys/jwks.json")
    assert by_keys.returncode == int(not is_honest), by_keys.stderr
    by_policy = f"--issuer demo --trust {tmp_path}/trust.toml --verbose --statements keys/keyset"
    shown = _elsewhere(root, COMMAND, f"{verify} {by_policy} --statements keys/release.json")
    # The demo's release ends; the integrity of its card does not.
    assert ("integrity   yes" in shown.stdout) is is_honest, shown.stderr


@pytest.mark.parametrize("source", ["https://example.org/owner/cardsign/blob/v1", ""])
def test_the_description_has_no_relative_link(
    root: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """A package index shows the README; links lead into the tag, and without one words stay."""
    monkeypatch.setenv("CARDSIGN_SOURCE", source)
    text = str(ProjectMetadata(str(root), PluginManager()).core.readme)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith("https://")] == []
    assert "threat model" in text
    assert (f"{source}/docs/concepts/why.md" in links) is bool(source)
    picture = "https://example.org/owner/cardsign/raw/v1/docs/picture/flow.svg"
    assert (picture in links) is bool(source)


def _lints(name: str, *files: Path) -> bool:
    program = Path(sys.executable).with_name(name)
    ran = subprocess.run([program, *files], capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran.stderr
    return not ran.stdout


LINTED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "actionlint": (
        (".github/workflows/*.yml", "examples/release_pipeline/github.yaml"),
        *("inputs.kid", "inputs.kidd"),
    ),
    "hadolint": (("Dockerfile",), ":3.13-slim-bookworm", ""),
}


@pytest.mark.needs_linters
@pytest.mark.parametrize("linter", LINTED)
def test_workflows_and_the_image_pass_their_linter(root: Path, tmp_path: Path, linter: str) -> None:
    """Ours and those of the examples; an unknown context and an image without a tag are seen."""
    patterns, sound, bad = LINTED[linter]
    files = [file for pattern in patterns for file in root.glob(pattern)]
    assert _lints(linter, *files)
    spoilt = tmp_path / files[-1].name
    spoilt.write_text(files[-1].read_text("utf-8").replace(sound, bad), "utf-8")
    assert not _lints(linter, spoilt)


def test_the_image_copies_only_what_its_context_admits(root: Path) -> None:
    """And that is enough to install: a key store beside it stays outside."""
    lines = (root / "Dockerfile").read_text("utf-8").splitlines()
    admitted = (root / ".dockerignore").read_text("utf-8").splitlines()
    copied = {
        name
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    }
    assert "*" in admitted
    assert copied == {line[1:] for line in admitted if line.startswith("!")}
    assert {"hatch_build.py", "pyproject.toml", "cardsign"} <= copied
    assert [name for name in copied if not (root / name).exists()] == []
    assert [line for line in lines if line.startswith("USER ")] == ["USER 10001"]


def test_compose_gives_the_server_nothing_to_write(root: Path) -> None:
    """No privileges, a root that is read-only, and loopback."""
    services = yaml.safe_load((root / "compose.yaml").read_text("utf-8"))["services"]
    assert services.keys() == {"cards"}
    cards = services["cards"]
    assert cards["read_only"] is True
    assert cards["cap_drop"] == ["ALL"]
    assert [volume for volume in cards["volumes"] if not volume.endswith(":ro")] == []
    assert [port for port in cards["ports"] if not port.startswith("127.0.0.1:")] == []


def test_every_extra_that_is_named_exists(project: dict[str, Any], tracked: list[Path]) -> None:
    """Wherever somebody is told to install one; never by a name that anybody may still register."""
    kinds = {".md", ".py", ".yml", ".yaml", ".toml", ".sh"}
    texts = {path: path.read_text("utf-8") for path in tracked if path.suffix in kinds}
    lists = [extras for text in texts.values() for extras in EXTRAS.findall(text)]
    named = {extra.strip() for extras in lists for extra in extras.split(",")}
    assert {"a2a", "aws", "mcp", "metrics", "pkcs11", "postgres"} <= named
    assert named <= set(project["optional-dependencies"])
    assert [path for path, text in texts.items() if UNRELEASED.search(text)] == []
