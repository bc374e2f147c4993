"""Running a program that the user has named: no shell, few variables, bounded time and output.

The one place that starts a program. Whether it may be started is decided before; what it
answers is believed by nobody yet.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from typing import IO, Final

from cardsign.records import dataclass

#: What every program may know of the user's environment; the rest is named one by one.
INHERITED: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR")
MAX_COMPLAINT_BYTES: Final = 4096  # kept of stderr; the rest is read and dropped
MAX_COMPLAINT_CHARS: Final = 200  # shown of its last line
_CHUNK: Final = 64 * 1024  # bytes, as much as a pipe usually holds


class ProgramError(Exception):
    """A program gave no answer.

    Attributes:
        what: What it did, as a predicate: "exited with status 3".
        complaint: The last line that it wrote to stderr, shortened and printable; may be empty.
        was_started: Whether it ran at all.
    """

    def __init__(self, what: str, complaint: str = "", *, was_started: bool = True) -> None:
        super().__init__(what)
        self.what = what
        self.complaint = complaint
        self.was_started = was_started


@dataclass(frozen=True, slots=True)
class Program:
    """What is run, and within which bounds.

    Attributes:
        path: Absolute; nothing is searched for.
        arguments: Handed over as they are.
        environment: All of the program's environment.
        max_seconds: From its start to its end.
        max_answer: Bytes on stdout.
    """

    path: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    max_seconds: float
    max_answer: int


def inherited(environment: Mapping[str, str], *names: str) -> dict[str, str]:
    """Of an environment :data:`INHERITED`, and what is named besides, where it is set."""
    return {name: environment[name] for name in (*INHERITED, *names) if name in environment}


def run(program: Program, untrusted_input: bytes = b"") -> bytes:
    """Run a program in the root folder and return what it wrote to stdout.

    Its process group is killed if it outlives this call.

    Raises:
        ProgramError: It could not be started, took too long, said too much, or failed.
    """
    exchange = _Exchange(program, memoryview(untrusted_input))
    deadline = time.monotonic() + program.max_seconds
    with _started(program) as process:
        _converse(process, exchange, deadline)
        try:
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise exchange.failed(f"did not end within {program.max_seconds:.0f} seconds") from None
    if status != 0:
        how = f"exited with status {status}" if status > 0 else f"was ended by signal {-status}"
        raise exchange.failed(how)
    return bytes(exchange.answer)


@dataclass(slots=True)
class _Exchange:
    """What goes to and comes from a program that runs."""

    program: Program
    unsent: memoryview
    answer: bytearray = field(default_factory=bytearray)
    complaint: bytearray = field(default_factory=bytearray)

    def failed(self, what: str) -> ProgramError:
        text = bytes(self.complaint).decode(errors="replace").strip().rpartition("\n")[2]
        shown = "".join(char if char.isprintable() else "?" for char in text)
        return ProgramError(what, shown[:MAX_COMPLAINT_CHARS])


@contextmanager
def _started(program: Program) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program in a process group of its own, which is killed if it outlives the block."""
    try:
        process = subprocess.Popen(  # noqa: S603  the user has allowed it
            [program.path, *program.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",  # a relative import or .env of the repository is not the program's
            env=dict(program.environment),
            start_new_session=True,
            bufsize=0,
        )
    except OSError as exc:
        what = f"cannot be started: {exc.strerror}"
        raise ProgramError(what, was_started=False) from exc
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
                limit = exchange.program.max_seconds
                raise exchange.failed(f"did not answer within {limit:.0f} seconds")
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
    except BrokenPipeError:  # it answers without having read all: the answer will tell
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
        if len(exchange.answer) > exchange.program.max_answer:
            raise exchange.failed(f"answered more than {exchange.program.max_answer} bytes")
    else:
        exchange.complaint = (exchange.complaint + chunk)[-MAX_COMPLAINT_BYTES:]
    return not chunk
