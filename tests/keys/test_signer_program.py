"""`exec:`: any program signs, within bounds, and nothing of it is trusted."""

from __future__ import annotations

import os
import selectors
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from cardsign import programs
from cardsign.errors import SignerFault
from cardsign.jose.jws import Signer, sign_payload
from cardsign.jose.keys import PrivateKey
from cardsign.keys.signers.access import Access, SignerPolicy
from cardsign.keys.signers.program import ProgramKey
from cardsign.keys.signers.registry import check_possession, list_public_keys, open_signer

NO_WAIT = os.O_RDONLY | os.O_NONBLOCK
LARGE = b'{"name":"' + b"x" * 300_000 + b'"}'

#: Signs with the key in the file that the first argument names, as openssl would.
SIGNS = """
    import sys
    from cardsign.jose.keys import PrivateKey
    with open(sys.argv[1], "rb") as file:
        key = PrivateKey.from_pkcs8_der(file.read())
    sys.stdout.buffer.write(key.sign(sys.stdin.buffer.read()))
"""

Program = Callable[..., str]


def unasked(kind: str, of: str) -> bytes:
    """No program needs a secret of ours."""
    pytest.fail("asked for a secret")


@pytest.fixture
def written(tmp_path: Path) -> Program:
    """Write a program in Python; the URI that runs it."""

    def write(body: str, *arguments: object, query: str = "") -> str:
        path = tmp_path / "signs with spaces"
        lines = [line.removeprefix("    ") for line in body.strip("\n").splitlines()]
        path.write_text("\n".join([f"#!{sys.executable}", *lines]) + "\n")
        path.chmod(0o700)
        query = "&".join([*(f"arg={quote(str(one))}" for one in arguments), *query.split()])
        return f"exec:{quote(str(path))}" + (f"?{query}" if query else "")

    return write


def opened(uri: str, key: PrivateKey, **environment: str) -> Signer:
    """The signer, with the user's leave."""
    access = Access(unasked, SignerPolicy(format=1, allow=frozenset({uri})), environment)
    return open_signer(uri, key.public, access)


@pytest.mark.parametrize("alg", ["es256", "rs256"])
def test_a_program_signs(
    alg: str, written: Program, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It reads all of stdin, and its answer verifies; its arguments need no quoting."""
    key: PrivateKey = request.getfixturevalue(alg)
    file = tmp_path / "key with spaces; and $(more)"
    file.write_bytes(key.to_pkcs8_der())
    uri = written(SIGNS, file)

    sign_payload(LARGE, opened(uri, key), typ="JOSE")
    check_possession(opened(uri, key))


def test_O16_the_environment_is_cleared(
    written: Program, es256: PrivateKey, tmp_path: Path
) -> None:
    """What is inherited, what is named and what is wanted arrives; nothing else."""
    seen = tmp_path / "seen"
    body = f"""
    import json, os
    with open({str(seen)!r}, "w") as file:
        json.dump([dict(os.environ), os.getcwd()], file)
    """
    outer = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "SLOT": "2", "LC_CTYPE": "C.UTF-8"}
    secret = {"CARDSIGN_PASSPHRASE": "secret", "VAULT_TOKEN": "secret", "LD_PRELOAD": "/no.so"}
    signer = opened(written(body, query="env=SLOT env=ABSENT"), es256, **outer, **secret)
    with pytest.raises(SignerFault):
        signer.sign(b"input")

    import json

    environment, directory = json.loads(seen.read_text())
    environment.pop("LC_CTYPE", None)  # Python's own doing (PEP 538)
    assert directory == "/"
    assert environment == {
        "PATH": outer["PATH"],
        "HOME": "/nowhere",
        "SLOT": "2",
        "CARDSIGN_ALG": "ES256",
        "CARDSIGN_KID": es256.public.kid,
        "CARDSIGN_THUMBPRINT": es256.public.thumbprint,
    }


ENDLESS = """
    import sys
    while True:
        sys.stdout.write("x" * 1000)
"""
FAILURES = {
    "an exit status": ("raise SystemExit(3)", "exited with status 3"),
    "a complaint": ("import sys; sys.exit('no card in slot 2')", "it said: no card in slot 2"),
    "a complaint with escapes": (
        r"import sys; sys.exit('card \x1b[2J\u202e gone')",
        r"it said: card \?\[2J\? gone",
    ),
    "an endless complaint": (
        "import sys; sys.stderr.write('y' * 1_000_000); sys.exit(1)",
        "it said: y{200} ",
    ),
    "a signal": ("import os; os.kill(os.getpid(), 9)", "ended by signal 9"),
    "too long an answer": (ENDLESS, "more than 1024 bytes"),
}


@pytest.mark.parametrize(("body", "words"), FAILURES.values(), ids=FAILURES)
def test_a_program_that_fails(body: str, words: str, written: Program, es256: PrivateKey) -> None:
    """How it ended is said, and what it said last, on one harmless line."""
    with pytest.raises(SignerFault, match=words) as caught:
        opened(written(body), es256).sign(b"input")
    assert caught.value.code == "signer.failed"
    assert caught.value.message.isprintable()


SLOW = {
    "that says nothing": "import time; time.sleep(60)",
    "that closes its output": "import os, time; os.close(1); os.close(2); time.sleep(60)",
    "whose child goes on": """
    import subprocess, sys, time
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    """,
}


@pytest.mark.parametrize("body", SLOW.values(), ids=SLOW)
def test_a_program_that_does_not_end(
    body: str, written: Program, es256: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed with its children when its time is over."""
    monkeypatch.setattr(ProgramKey, "MAX_SECONDS", 0.5)
    start = time.monotonic()
    with pytest.raises(SignerFault, match="did not") as caught:
        opened(written(body), es256).sign(b"input")
    assert caught.value.code == "signer.failed"
    assert time.monotonic() - start < 20


def test_no_child_outlives_a_program_that_succeeds(tmp_path: Path) -> None:
    """One in the background, with no pipe of ours, is killed with the group."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    script = 'exec 3<>"$0"; sleep 1000 >&3 2>&3 <&3 & echo answer'
    program = programs.Program("/bin/sh", ("-c", script, str(gate)), os.environ, 60.0, 100)
    with os.fdopen(os.open(gate, NO_WAIT), "rb", buffering=0) as end:
        assert programs.run(program) == b"answer\n"
        with selectors.DefaultSelector() as selector:
            selector.register(end, selectors.EVENT_READ)
            assert selector.select(20)  # the end of the pipe: nobody holds it open any more
            assert end.read(1) == b""


WRONG = {
    "nothing": "",
    "half a signature": 'import sys; sys.stdout.write("x" * 63)',
    "text": 'print("c2lnbmF0dXJl")',
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_wrong_answer_is_not_given_out(body: str, written: Program, es256: PrivateKey) -> None:
    """What does not verify with the stored key is no signature; stdin need not be read."""
    signer = opened(written(body), es256)
    with pytest.raises(SignerFault) as caught:
        signer.sign(LARGE)
    assert caught.value.code == "signer.wrong_key"


def test_another_keys_answer_is_not_given_out(
    written: Program, es256: PrivateKey, another_es256: PrivateKey, tmp_path: Path
) -> None:
    """The program holds a key, and not this one."""
    file = tmp_path / "key"
    file.write_bytes(another_es256.to_pkcs8_der())
    with pytest.raises(SignerFault) as caught:
        opened(written(SIGNS, file), es256).sign(b"input")
    assert caught.value.code == "signer.wrong_key"


@pytest.mark.parametrize("name", ["absent", "a folder", "not executable", "no program"])
def test_a_program_that_cannot_be_started(name: str, tmp_path: Path, es256: PrivateKey) -> None:
    """It is not there, or none."""
    path = tmp_path / "it"
    if name == "a folder":
        path.mkdir()
    elif name != "absent":
        path.write_bytes(b"\x00\x01")
        path.chmod(0o700 if name == "no program" else 0o600)
    with pytest.raises(SignerFault, match="cannot be started") as caught:
        opened(f"exec:{path}", es256).sign(b"input")
    assert caught.value.code == "signer.unreachable"


def test_nothing_runs_without_leave(written: Program, es256: PrivateKey, tmp_path: Path) -> None:
    """Leave is for one URI as it is spelt, its arguments included."""
    ran = tmp_path / "ran"
    uri = written(f"open({str(ran)!r}, 'w')", "--harmless")
    allowed = Access(unasked, SignerPolicy(format=1, allow=frozenset({uri})))
    for other, access in (
        (uri, Access(unasked)),
        (uri.replace("harmless", "harmful"), allowed),
        (uri + "&arg=more", allowed),
        (uri.partition("?")[0], allowed),
    ):
        with pytest.raises(SignerFault) as caught:
            open_signer(other, es256.public, access)
        assert (caught.value.code, caught.value.path) == ("config.not_allowed", other)
    assert not ran.exists()
    with pytest.raises(SignerFault):
        open_signer(uri, es256.public, allowed).sign(b"input")
    assert ran.exists()


def test_a_program_cannot_be_asked_for_its_public_key(written: Program) -> None:
    """The user names it in a file."""
    uri = written("pass")
    with pytest.raises(SignerFault) as caught:
        list_public_keys(uri, Access(unasked, SignerPolicy(format=1, allow=frozenset({uri}))))[0]
    assert caught.value.code == "signer.no_public"
