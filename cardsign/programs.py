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
from dataclasses import dataclass, field
from typing import IO, Final

#: What every program may know of the user's environment; the rest is named one by one.
INHERITED: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR")
MAX_COMPLAINT_BYTES: Final = 4096  # kept of stderr; the rest is read and dropped
MAX_COMPLAINT_LINES: Final = 4  # shown of it: Python has the cause in the last, Node above it
MAX_COMPLAINT_CHARS: Final = 200  # shown of each line
_CHUNK: Final = 64 * 1024  # bytes, as much as a pipe usually holds


class ProgramError(Exception):
    """A program gave no answer.

    Attributes:
        what: What it did, as a predicate: "exited with status 3".
        complaint: The last lines that it wrote to stderr, shortened and printable; may be empty.
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
        folder: Where it runs. In the root folder no relative import or .env of a repository is
            the program's.
    """

    path: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    max_seconds: float
    max_answer: int
    folder: str = "/"


def inherited(environment: Mapping[str, str], *names: str) -> dict[str, str]:
    """Of an environment :data:`INHERITED`, and what is named besides, where it is set."""
    return {name: environment[name] for name in (*INHERITED, *names) if name in environment}


def run(program: Program, untrusted_input: bytes = b"") -> bytes:
    """Run a program and return what it wrote to stdout.

    Its process group is killed if it outlives this call.

    Raises:
        ProgramError: It could not be started, took too long, said too much, or failed.
    """
    with _started(program) as process:
        talk = Conversation(program, process)
        talk.send(untrusted_input, last=True)
        answer = b"".join(iter(talk.receive, b""))
        talk.check_end()
    return answer


class Conversation:
    """What goes to and comes from a program that runs."""

    def __init__(self, program: Program, process: subprocess.Popen[bytes]) -> None:
        if not (process.stdin and process.stdout and process.stderr):
            raise RuntimeError("the program was started without pipes")
        self._program, self._process = program, process
        self._deadline = time.monotonic() + program.max_seconds
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._unsent = b""
        self._is_last = False
        self._received = 0
        self._complaint = b""
        self._open = {self._stdout, self._stderr}
        os.set_blocking(self._stdin.fileno(), False)

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Send this while :meth:`receive` waits; after the `last` its input is closed."""
        self._unsent += data
        self._is_last = last
        self._close_if_done()

    def receive(self) -> bytes:
        """What it wrote to stdout next; empty when stdout and stderr are closed.

        Raises:
            ProgramError: It took too long, or said too much.
        """
        while self._open:
            with selectors.DefaultSelector() as selector:
                for stream in self._open:
                    selector.register(stream, selectors.EVENT_READ)
                if self._unsent:
                    selector.register(self._stdin, selectors.EVENT_WRITE)
                ready = [key.fileobj for key, _ in selector.select(self.seconds_left())]
            if not ready:
                limit = self._program.max_seconds
                raise self.failed(f"did not answer within {limit:.0f} seconds")
            if self._stdin in ready:
                self._write()
            if self._stderr in ready:
                complaint = self._read(self._stderr)
                self._complaint = (self._complaint + complaint)[-MAX_COMPLAINT_BYTES:]
            if self._stdout in ready and (chunk := self._read(self._stdout)):
                self._received += len(chunk)
                if self._received > self._program.max_answer:
                    raise self.failed(f"answered more than {self._program.max_answer} bytes")
                return chunk
        return b""

    def check_end(self) -> None:
        """Wait for its end, once its output is closed.

        Raises:
            ProgramError: It did not end in time, or failed.
        """
        try:
            status = self._process.wait(self.seconds_left())
        except subprocess.TimeoutExpired:
            limit = self._program.max_seconds
            raise self.failed(f"did not end within {limit:.0f} seconds") from None
        if status != 0:
            signalled = f"was ended by signal {-status}"
            raise self.failed(signalled if status < 0 else f"exited with status {status}")

    def seconds_left(self) -> float:
        """Until the program must have ended."""
        return max(0.0, self._deadline - time.monotonic())

    def failed(self, what: str) -> ProgramError:
        """The error, with the last lines of what the program complained about."""
        lines = self._complaint.decode(errors="replace").split("\n")
        last = [one.strip()[:MAX_COMPLAINT_CHARS] for one in lines if one.strip()]
        text = " / ".join(last[-MAX_COMPLAINT_LINES:])
        return ProgramError(what, "".join(char if char.isprintable() else "?" for char in text))

    def _read(self, stream: IO[bytes]) -> bytes:
        chunk = os.read(stream.fileno(), _CHUNK)
        if not chunk:
            self._open.discard(stream)
        return chunk

    def _write(self) -> None:
        try:
            sent = os.write(self._stdin.fileno(), self._unsent[:_CHUNK])
        except BlockingIOError:
            return
        except BrokenPipeError:  # it answers without having read all: the answer will tell
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._is_last and not self._unsent:
            self._stdin.close()


@contextmanager
def _started(program: Program) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program in a process group of its own, which is killed if it outlives the block."""
    try:
        process = subprocess.Popen(  # noqa: S603  the user has allowed it
            [program.path, *program.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=program.folder,
            env=dict(program.environment),
            start_new_session=True,
            bufsize=0,
        )
    except OSError as exc:
        message = f"cannot be started: {exc.strerror}"
        raise ProgramError(message, was_started=False) from exc
    with process, ExitStack() as unfinished:
        unfinished.callback(_kill_group, process.pid)  # not yet waited for: the id is still its own
        yield process
        unfinished.pop_all()


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
