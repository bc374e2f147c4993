"""A policy on disk: where it is found, read and edited."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from cardsign.errors import FileFault, FileMissing, UsageFault
from cardsign.files import locked, read_bytes, write_atomic
from cardsign.trust.policy import POLICY_FILE, Policy, TrustedIssuer

#: The environment variable that names the policy.
POLICY_VARIABLE: Final = "CARDSIGN_TRUST"
#: Ours, below the XDG base directories.
USER_FOLDER: Final = "cardsign"
#: Bytes. Some thousand issuers; one has about 300.
MAX_POLICY_BYTES: Final = 1024 * 1024
#: Seconds to wait for another process that edits the policy.
PATIENCE: Final = 10.0


def find_policy(
    named: Path | None = None, environ: Mapping[str, str] = os.environ, *, here: bool = True
) -> Path | None:
    """Return `named`, else the environment's, the working directory's if `here`, the user's own.

    What is named is returned whether or not it is there.
    """
    if named is not None:
        return named
    if variable := environ.get(POLICY_VARIABLE):
        return Path(variable)
    own = user_folder("CONFIG", environ) / POLICY_FILE
    candidates = (Path(POLICY_FILE), own) if here else (own,)
    return next((path for path in candidates if os.path.lexists(path)), None)


def user_folder(kind: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return our folder below the XDG base directory ``CONFIG`` or ``CACHE``.

    A relative base directory is ignored.

    Raises:
        UsageFault: ``usage.conflict``: this user has no home folder.
    """
    base = Path(environ.get(f"XDG_{kind}_HOME", ""))
    if base.is_absolute():
        return base / USER_FOLDER
    try:
        return Path.home() / {"CONFIG": ".config", "CACHE": ".cache"}[kind] / USER_FOLDER
    except RuntimeError as exc:
        raise UsageFault(
            "usage.conflict",
            f"this user has no home folder, and XDG_{kind}_HOME is not set",
            hint="Name the policy with --trust FILE.",
        ) from exc


def read_policy(path: Path, *, is_own: bool = True) -> Policy:
    """Read a policy file.

    Raises:
        UsageFault: ``policy.malformed``, ``config.not_allowed``.
        FileFault: It is a link, or cannot be read.
    """
    from cardsign.trust.policyfile import parse_policy  # pydantic, which --jwks needs not

    policy = parse_policy(_read_text(path), source=str(path), is_own=is_own)
    return replace(policy, path=path, is_own=is_own)


def _read_text(path: Path) -> str:
    data = read_bytes(path, max_bytes=MAX_POLICY_BYTES, plain=True)
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        message = "this is not UTF-8"
        raise UsageFault("policy.malformed", message, path=str(path), line=line) from exc


def load_policy(
    named: Path | None = None, environ: Mapping[str, str] = os.environ, *, here: bool = True
) -> Policy | None:
    """Read the policy that is named or found (:func:`find_policy`); None where there is none.

    Args:
        named: The file that the user names.
        environ: The environment.
        here: Look for it in the working directory too.

    Raises:
        UsageFault: ``file.not_found``: the one that is named; ``policy.malformed``;
            ``config.not_allowed``: it was only found, and says what only a policy that is named
            may say.
        FileFault: It is a link, or cannot be read.
    """
    path = find_policy(named, environ, here=here)
    if path is None:
        return None
    is_named = named is not None or bool(environ.get(POLICY_VARIABLE))
    try:
        return read_policy(path, is_own=is_named or path != Path(POLICY_FILE))
    except FileMissing as fault:
        missing = "there is no such policy file"
        hint = "Check the path. A new one is begun by: cardsign trust add URL"
        raise UsageFault("file.not_found", missing, path=str(path), hint=hint) from fault


def edit_policy(
    path: Path,
    change: Callable[[str], str],
    expected: Callable[[tuple[TrustedIssuer, ...]], Iterable[TrustedIssuer]],
    *,
    dry_run: bool = False,
) -> None:
    """Change a policy file, alone among processes; on any error it stays as it was.

    Where there is none yet, one is begun. The new text is read before it replaces the file, and
    must then say what is expected.

    Raises:
        UsageFault: ``policy.malformed``: no such change can be made to this text.
        FileFault: It cannot be read or written.
    """
    from cardsign.trust.policyfile import parse_policy
    from cardsign.trust.policytext import EMPTY_POLICY

    busy = FileFault("file.busy", "another process edits the policy", path=str(path))
    with locked(path.parent, patience=PATIENCE, busy=busy):
        text = _read_text(path) if os.path.lexists(path) else EMPTY_POLICY
        policy = parse_policy(text, source=str(path))
        changed = change(text)
        after = parse_policy(changed, source=f"{path} with the new entry")
        if (after.issuers, after.limits) != (tuple(expected(policy.issuers)), policy.limits):
            raise UsageFault(
                "policy.malformed",
                "the file is laid out in a way that cannot be edited for you",
                path=str(path),
                hint="Nothing was changed; make the change by hand.",
            )
        if not dry_run:
            write_atomic(path, changed.encode(), plain=True)
