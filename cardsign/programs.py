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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Final

#: What every program may know of the user's environment; the rest is named one by one.
INHERITED: Final = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR")
MAX_COMPLAINT_BYTES: Final = 4096  # kept of stderr; the rest is read and dropped
MAX_COMPLAINT_LINES: Final = 4  # shown of it: Python has the cause in the last, Node above it
MAX_COMPLAINT_CHARS: Final = 200  # shown of each line
_CHUNK: Final = 64 * 1024  # bytes, as much as a pipe usually holds


class ProgramError(Exception):
    """A program gave no answer; the text is what it did, as a predicate: "exited with status 3".

    Attributes:
        complaint: The last lines that it wrote to stderr, shortened and printable; may be empty.
        was_started: Whether it ran at all.
        status: Its exit status, if it ended by itself.
    """

    def __init__(
        self,
        predicate: str,
        stderr: bytes | bytearray = b"",
        *,
        was_started: bool = True,
        status: int | None = None,
    ) -> None:
        super().__init__(predicate)
        self.was_started = was_started
        self.status = status
        lines = filter(None, map(str.strip, stderr.decode(errors="replace").split("\n")))
        text = " / ".join([line[:MAX_COMPLAINT_CHARS] for line in lines][-MAX_COMPLAINT_LINES:])
        self.complaint = "".join(char if char.isprintable() else "?" for char in text)


def inherited(environment: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the variables :data:`INHERITED` and others by name, where they are set."""
    return {name: environment[name] for name in (*INHERITED, *names) if name in environment}


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    untrusted_input: bytes = b"",
    *,
    max_seconds: float,
    max_answer: int,
) -> bytes:
    """Run a program and return what it wrote to stdout.

    It runs in the root folder, where no relative import or .env of a repository is the program's.
    What of its process group outlives it is killed, such as a child in the background.

    Args:
        command: Its absolute path, as nothing is searched for, and its arguments.
        environment: All of the program's environment.
        untrusted_input: What it reads from stdin.
        max_seconds: From its start to its end.
        max_answer: Bytes on stdout.

    Raises:
        ProgramError: It could not be started, took too long, said too much, or failed.
    """
    deadline = time.monotonic() + max_seconds
    answer, stderr, unsent = bytearray(), bytearray(), memoryview(untrusted_input)
    with _started(command, environment) as process, selectors.DefaultSelector() as selector:
        selector.register(_piped(process.stdout), selectors.EVENT_READ, answer)
        selector.register(_piped(process.stderr), selectors.EVENT_READ, stderr)
        stdin = _piped(process.stdin)
        selector.register(stdin, selectors.EVENT_WRITE)
        while any(key.data is not None for key in selector.get_map().values()):
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ProgramError(f"did not answer within {max_seconds:.0f} seconds", stderr)
            for key, _ in ready:
                if key.data is None:
                    unsent = unsent[_write(key.fd, unsent) :]
                    if not unsent:
                        selector.unregister(stdin)
                        stdin.close()
                elif chunk := os.read(key.fd, _CHUNK):
                    key.data.extend(chunk)
                else:
                    selector.unregister(key.fileobj)
            del stderr[:-MAX_COMPLAINT_BYTES]
            if len(answer) > max_answer:
                raise ProgramError(f"answered more than {max_answer} bytes", stderr)
        try:
            status = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise ProgramError(f"did not end within {max_seconds:.0f} seconds", stderr) from None
    if status != 0:
        end = f"exited with status {status}" if status > 0 else f"was ended by signal {-status}"
        raise ProgramError(end, stderr, status=status)
    return bytes(answer)


def _piped(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise RuntimeError("the program was started without pipes")
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _write(descriptor: int, unsent: memoryview) -> int:
    try:
        return os.write(descriptor, unsent[:_CHUNK])
    except BlockingIOError:
        return 0
    except BrokenPipeError:  # it answers without having read all: the answer will tell
        return len(unsent)


@contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program in a process group of its own, which ends with the block."""
    try:
        process = subprocess.Popen(  # noqa: S603  the user has allowed it
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as exc:
        raise ProgramError(f"cannot be started: {exc.strerror}", was_started=False) from exc
    with process:
        try:
            yield process
        finally:
            # Its children too, if it has ended itself; as long as one is left, the id is theirs.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
