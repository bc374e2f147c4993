"""``exec:``: any program that signs. The signing input on stdin, the signature on stdout.

``exec:/absolute/path?arg=A&arg=B&env=NAME`` runs ``/absolute/path A B``: no shell, the root as
working directory, and of the environment only :data:`INHERITED`, the variables that ``env=``
names, and CARDSIGN_ALG, CARDSIGN_KID and CARDSIGN_THUMBPRINT, which say what is wanted.

On stdin comes ``protected.payload``, ASCII. On stdout go the bytes of the JWS signature and
nothing else, without base64, newline or DER: r and s, 32 bytes each, or PKCS #1 v1.5.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO, Final

from cardsign.errors import SignerFault
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers.access import Access, Ask, refuse_uri
from cardsign.keys.signers.uri import parse_uri

INHERITED: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR")
MAX_SECONDS: Final = 60.0  # a person may have to touch a device
MAX_ANSWER_BYTES: Final = 1024  # the signature of an RSA key of 8192 bits
MAX_COMPLAINT_BYTES: Final = 4096  # kept of stderr; the rest is read and dropped
MAX_COMPLAINT_CHARS: Final = 200  # shown of its last line
_CHUNK: Final = 64 * 1024  # bytes, as much as a pipe usually holds


def custody(uri: str) -> str:
    """The whole URI: a program is a program by its path and its arguments."""
    _Program.parse(uri)
    return uri


def needs_leave(uri: str) -> bool:
    """Always."""
    return True


def fetch_public(uri: str, access: Access, *, kid: str | None) -> PublicKey:
    """Refuse: a program only signs.

    Raises:
        SignerFault: ``signer.no_public``.
    """
    raise SignerFault("signer.no_public", "a program cannot be asked for its public key", path=uri)


def open(uri: str, public: PublicKey, access: Access) -> Ask:
    """Return what runs the program, once for each signature.

    Raises:
        SignerFault: ``signer.uri``. The signer: ``signer.unreachable`` (it cannot be started) or
            ``signer.failed`` (its exit status, too long, too much).
    """
    program = _Program.parse(uri)
    inherited = {
        name: value
        for name in (*INHERITED, *program.variables)
        if (value := access.environment.get(name)) is not None
    }
    told = {
        "CARDSIGN_ALG": public.alg,
        "CARDSIGN_KID": public.kid,
        "CARDSIGN_THUMBPRINT": public.thumbprint,
    }
    return lambda signing_input: _run(program, inherited | told, signing_input)


@dataclass(frozen=True, slots=True)
class _Program:
    path: str
    arguments: tuple[str, ...]
    variables: tuple[str, ...]

    @classmethod
    def parse(cls, uri: str) -> _Program:
        parts = parse_uri(uri)
        parts.only("arg", "env")
        if parts.authority or not PurePosixPath(parts.path).is_absolute():
            refuse_uri(uri, "expected exec: and the absolute path of a program")
        return cls(parts.path, parts.all("arg"), parts.all("env"))


@dataclass(slots=True)
class _Exchange:
    """What goes to and comes from a program that runs."""

    path: str
    unsent: memoryview
    answer: bytearray = field(default_factory=bytearray)
    complaint: bytearray = field(default_factory=bytearray)

    def fault(self, what: str) -> SignerFault:
        text = bytes(self.complaint).decode(errors="replace").strip().rpartition("\n")[2]
        shown = "".join(char if char.isprintable() else "?" for char in text)
        said = f"; it said: {shown[:MAX_COMPLAINT_CHARS]}" if shown else ""
        return SignerFault("signer.failed", f"the program {what}{said}", path=self.path)


def _run(program: _Program, environment: dict[str, str], signing_input: bytes) -> bytes:
    exchange = _Exchange(program.path, memoryview(signing_input))
    deadline = time.monotonic() + MAX_SECONDS
    with _started(program, environment) as process:
        _converse(process, exchange, deadline)
        try:
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise exchange.fault(f"did not end within {MAX_SECONDS:.0f} seconds") from None
    if status != 0:
        how = f"exited with status {status}" if status > 0 else f"was ended by signal {-status}"
        raise exchange.fault(how)
    return bytes(exchange.answer)


@contextmanager
def _started(program: _Program, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program in a process group of its own, which is killed if it outlives the block."""
    try:
        process = subprocess.Popen(  # noqa: S603  the user has allowed it
            [program.path, *program.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",  # a relative import or .env of the repository is not the program's
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as exc:
        raise SignerFault(
            "signer.unreachable",
            f"the program cannot be started: {exc.strerror}",
            path=program.path,
        ) from exc
    with process, ExitStack() as unfinished:
        unfinished.callback(_kill_group, process.pid)  # not yet waited for: the id is still its own
        yield process
        unfinished.pop_all()


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _converse(process: subprocess.Popen[bytes], exchange: _Exchange, deadline: float) -> None:
    """Write and read whatever is ready, until the program has closed its output."""
    if not (process.stdin and process.stdout and process.stderr):
        raise RuntimeError("the program was started without pipes")
    with selectors.DefaultSelector() as selector:
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        for stream in (process.stdout, process.stderr):
            selector.register(stream, selectors.EVENT_READ)
        streaming = {process.stdout, process.stderr}
        while streaming:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise exchange.fault(f"did not answer within {MAX_SECONDS:.0f} seconds")
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    done = _send(process.stdin, exchange)
                else:
                    of_stdout = key.fileobj is process.stdout
                    done = _receive(key.fd, exchange, of_stdout=of_stdout)
                if done:
                    selector.unregister(key.fileobj)
                    streaming.discard(key.fileobj)


def _send(stdin: IO[bytes], exchange: _Exchange) -> bool:
    """Send what the pipe takes; true when there is nothing left to send."""
    try:
        sent = os.write(stdin.fileno(), exchange.unsent[:_CHUNK])
    except BlockingIOError:
        return False
    except BrokenPipeError:  # it signs without having read all: the signature will tell
        sent = len(exchange.unsent)
    exchange.unsent = exchange.unsent[sent:]
    if not exchange.unsent:
        stdin.close()
    return not exchange.unsent


def _receive(descriptor: int, exchange: _Exchange, *, of_stdout: bool) -> bool:
    """Read what is there; true when the program has closed this stream."""
    chunk = os.read(descriptor, _CHUNK)
    if of_stdout:
        exchange.answer += chunk
        if len(exchange.answer) > MAX_ANSWER_BYTES:
            raise exchange.fault(f"answered more than {MAX_ANSWER_BYTES} bytes")
    else:
        exchange.complaint = (exchange.complaint + chunk)[-MAX_COMPLAINT_BYTES:]
    return not chunk
