"""A policy on disk: where it is found, read and edited."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
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


def read_policy(path: Path, *, is_own: bool = True) -> tuple[Policy, str]:
    """Read a policy file: the policy, and the text where it stands.

    Raises:
        UsageFault: ``policy.malformed``, ``config.not_allowed``.
        FileFault: It is a link, or cannot be read.
    """
    from cardsign.trust.policyfile import parse_policy  # pydantic, which --jwks needs not

    data = read_bytes(path, max_bytes=MAX_POLICY_BYTES, plain=True)
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        message = "this is not UTF-8"
        raise UsageFault("policy.malformed", message, path=str(path), line=line) from exc
    policy = parse_policy(text, source=str(path), is_own=is_own)
    return replace(policy, path=path, is_own=is_own), text


def lock_of(policy: Path) -> Path:
    """Return where the lock of a policy file is: beside it, ``trust.lock`` for ``trust.toml``."""
    return policy.with_suffix(".lock")


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy, and where it stands.

    Attributes:
        policy: What it says.
        path: The file.
        text: The file's text.
    """

    policy: Policy
    path: Path
    text: str

    @classmethod
    def find(
        cls,
        named: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        *,
        here: bool = True,
    ) -> PolicyFile | None:
        """Read the policy that is named or found (:func:`find_policy`); None where there is none.

        Args:
            named: The file that the user names.
            environ: The environment.
            here: Look for it in the working directory too.

        Raises:
            UsageFault: ``file.not_found``: the one that is named; ``policy.malformed``;
                ``config.not_allowed``: it was only found, and says what only a policy that is
                named may say.
            FileFault: It is a link, or cannot be read.
        """
        path = find_policy(named, environ, here=here)
        if path is None:
            return None
        is_named = named is not None or bool(environ.get(POLICY_VARIABLE))
        try:
            policy, text = read_policy(path, is_own=is_named or path != Path(POLICY_FILE))
        except FileMissing as fault:
            missing = "there is no such policy file"
            hint = "Check the path. A new one is begun by: cardsign trust add URL"
            raise UsageFault("file.not_found", missing, path=str(path), hint=hint) from fault
        return cls(policy, path, text)

    @classmethod
    def begin(cls, path: Path, *, is_own: bool) -> PolicyFile:
        """Return a policy that is not there yet; nothing is written."""
        from cardsign.trust.policytext import EMPTY_POLICY

        return cls(Policy(path=path, is_own=is_own), path, EMPTY_POLICY)

    @property
    def lock(self) -> Path:
        """The lock beside it."""
        return lock_of(self.path)

    def issuer(self, name: str) -> TrustedIssuer:
        """Return the trusted issuer of that name.

        Raises:
            UsageFault: ``policy.unknown_issuer``.
        """
        try:
            return self.policy.issuer(name)
        except UsageFault as fault:
            fault.finding = fault.finding.at(str(self.path))
            raise

    def edit(
        self,
        change: Callable[[str], str],
        expected: Callable[[tuple[TrustedIssuer, ...]], Iterable[TrustedIssuer]],
    ) -> None:
        """Change the text of the file, alone among processes; on any error it stays as it was.

        The new text is read before it replaces the file, and must then say what is expected.

        Raises:
            UsageFault: ``policy.malformed``: no such change can be made to this text.
            FileFault: It cannot be read or written.
        """
        from cardsign.trust.policyfile import parse_policy

        busy = FileFault("file.busy", "another process edits the policy", path=str(self.path))
        with locked(self.path.parent, patience=PATIENCE, busy=busy):
            policy, text = read_policy(self.path)
            changed = change(text)
            after = parse_policy(changed, source=str(self.path))
            if (after.issuers, after.limits) != (tuple(expected(policy.issuers)), policy.limits):
                raise UsageFault(
                    "policy.malformed",
                    "the file is laid out in a way that cannot be edited for you",
                    path=str(self.path),
                    hint="Nothing was changed; make the change by hand.",
                )
            write_atomic(self.path, changed.encode(), plain=True)
