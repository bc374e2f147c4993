"""What the judges in Python share: one JSON request a line on stdin, one JSON answer on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from platform import python_version
from typing import Any


def serve(actions: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    """Answer every line, whatever it holds, until the input ends."""
    for line in sys.stdin.buffer:
        try:
            request = json.loads(line)
            answer = actions[request["do"]](request)
        except Exception as error:  # noqa: BLE001 - a judge answers every line
            answer = {"error": describe(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def describe(error: BaseException) -> str:
    """Return the type and message of an error, in one string."""
    return f"{type(error).__name__}: {error}"


def describe_versions(package: str, *others: str) -> dict[str, Any]:
    """Return the answer about versions."""
    beside = {name: version(name) for name in others}
    beside["Python"] = python_version()
    return {"name": package, "version": version(package), "beside": beside}
