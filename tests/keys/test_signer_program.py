"""`exec:`: any program signs, within bounds, and nothing of it is trusted."""

from __future__ import annotations

import json
import os
import re
import selectors
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from cardsign import programs
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey
from cardsign.keys.signers import Access, ProgramKey, SignerPolicy, check_possession, open_signer
from tests.keys.elsewhere import SHUT, enrol, fault, refusal, sign
from tests.keys.states import FIRST

NO_WAIT = os.O_RDONLY | os.O_NONBLOCK
LARGE = b"x" * 300_000

#: Signs with the key in the file that the first argument names, as openssl would.
SIGNS = """
    import sys
    from cardsign.jose.keys import PrivateKey
    with open(sys.argv[1], "rb") as file:
        key = PrivateKey.from_pkcs8_der(file.read())
    sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))
"""

Program = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path) -> Program:
    """Write a program in Python; the URI that runs it."""

    def write(body: str, *query: str) -> str:
        path = tmp_path / "signs with spaces"
        path.write_text(f"#!{sys.executable}\n{textwrap.dedent(body)}\n")
        path.chmod(0o700)
        return "?".join([f"exec:{quote(str(path))}", "&".join(query)]).removesuffix("?")

    return write


def allowing(uri: str, **environment: str) -> Access:
    """The user's leave for this URI."""
    return Access(SHUT.secrets, SignerPolicy(format=1, allow=frozenset({uri})), environment)


def opened(uri: str, key: PrivateKey, **environment: str) -> Signer:
    """The signer, with the user's leave."""
    return open_signer(uri, key.public, allowing(uri, **environment))


@pytest.mark.parametrize("alg", ["ES256", "RS256"])
def test_a_program_signs(alg: str, written: Program, tmp_path: Path, rs256: PrivateKey) -> None:
    """It reads all of stdin, and its answer verifies; its arguments need no quoting."""
    key = FIRST if alg == "ES256" else rs256
    file = tmp_path / "key with spaces; and $(more)"
    file.write_bytes(key.to_pkcs8_der())
    uri = written(SIGNS, f"arg={quote(str(file))}")
    sign(uri, key.public, allowing(uri), LARGE)
    check_possession(opened(uri, key))


def test_O16_the_environment_is_cleared(written: Program, tmp_path: Path) -> None:
    """What is inherited, what is named and what is wanted arrives; nothing else."""
    seen = tmp_path / "seen"
    body = f"""
    import json, os
    with open({str(seen)!r}, "w") as file:
        json.dump([dict(os.environ), os.getcwd()], file)
    """
    outer = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "SLOT": "2", "LC_CTYPE": "C.UTF-8"}
    secret = {"CARDSIGN_PASSPHRASE": "secret", "VAULT_TOKEN": "secret", "LD_PRELOAD": "/no.so"}
    signer = opened(written(body, "env=SLOT", "env=ABSENT"), FIRST, **outer, **secret)
    assert refusal(signer.sign, b"input") == "signer.wrong_key"
    environment, directory = json.loads(seen.read_text())
    environment.pop("LC_CTYPE", None)  # Python's own doing (PEP 538)
    key = {"KID": FIRST.public.kid, "THUMBPRINT": FIRST.public.thumbprint, "ALG": "ES256"}
    asked = {f"CARDSIGN_{name}": text for name, text in key.items()}
    del outer["LC_CTYPE"]
    assert (directory, environment) == ("/", outer | asked)


ENDLESS = """
    import sys
    while True:
        sys.stdout.write("x" * 1000)
"""
FAILURES = {
    "an exit status": ("raise SystemExit(3)", "exited with status 3"),
    "escapes": (r"import sys; sys.exit('card \x1b[2J\u202e gone')", r"said: card \?\[2J\? gone"),
    "an endless complaint": ("import sys; sys.exit('y' * 1_000_000)", "it said: y{200}$"),
    "a signal": ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
    "too long an answer": (ENDLESS, "more than 1024 bytes"),
}


@pytest.mark.parametrize(("body", "words"), FAILURES.values(), ids=FAILURES)
def test_a_program_that_fails(body: str, words: str, written: Program) -> None:
    """How it ended is said, and what it said last, on one harmless line."""
    failed = fault(opened(written(body), FIRST).sign, b"input")
    assert (failed.code, failed.message.isprintable()) == ("signer.failed", True)
    assert re.search(words, failed.message)


SLEEP = "import time; time.sleep(60)"
CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"
SLOW = {
    "that says nothing": SLEEP,
    "that closes its output": f"import os; os.close(1); os.close(2); {SLEEP}",
    "whose child goes on": CHILD,
}


@pytest.mark.parametrize("body", SLOW.values(), ids=SLOW)
def test_a_program_that_does_not_end(
    body: str, written: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed with its children when its time is over."""
    monkeypatch.setattr(ProgramKey, "MAX_SECONDS", 0.5)
    start = time.monotonic()
    signer = opened(written(body), FIRST)
    assert refusal(signer.sign, b"input", match="did not") == "signer.failed"
    assert time.monotonic() - start < 20


def test_no_child_outlives_a_program_that_succeeds(tmp_path: Path) -> None:
    """One in the background, with no pipe of ours, is killed with the group."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = 'exec 3<>"$0"; sleep 1000 >&3 2>&3 <&3 & echo answer'
    command = ("/bin/sh", "-c", script, str(gate))
    with os.fdopen(os.open(gate, NO_WAIT), "rb", buffering=0) as end:
        assert programs.run(command, os.environ, max_seconds=60.0, max_answer=100) == b"answer\n"
        with selectors.DefaultSelector() as selector:
            selector.register(end, selectors.EVENT_READ)
            assert selector.select(20)  # the end of the pipe: nobody holds it open any more
            assert end.read(1) == b""


@pytest.mark.parametrize("name", ["absent", "a folder", "not executable", "no program"])
def test_a_program_that_cannot_be_started(name: str, tmp_path: Path) -> None:
    """It is not there, or none."""
    (tmp_path / "a folder").mkdir()
    for other, mode in (("not executable", 0o600), ("no program", 0o700)):
        (tmp_path / other).write_bytes(b"\x00\x01")
        (tmp_path / other).chmod(mode)
    signer = opened(f"exec:{quote(str(tmp_path / name))}", FIRST)
    assert refusal(signer.sign, b"input", match="cannot be started") == "signer.unreachable"


def test_nothing_runs_without_leave(written: Program, tmp_path: Path) -> None:
    """Leave is for one URI as it is spelt, its arguments included."""
    ran = tmp_path / "ran"
    uri = written(f"open({str(ran)!r}, 'w')", "arg=--harmless")
    others = (uri.replace("harmless", "harmful"), uri + "&arg=more", uri.partition("?")[0])
    for other, access in ((uri, SHUT), *((other, allowing(uri)) for other in others)):
        assert refusal(sign, other, FIRST.public, access) == "config.not_allowed"
        assert refusal(enrol, other, access) == "signer.no_public"
    assert not ran.exists()
    assert refusal(opened(uri, FIRST).sign, b"input") == "signer.wrong_key"
    assert ran.exists()
    assert refusal(enrol, uri, allowing(uri)) == "signer.no_public", "the user names it in a file"
