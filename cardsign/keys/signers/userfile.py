"""``signers.toml``: what this user allows signers on this machine, in any project.

::

    format = 1
    allow = ["exec:/usr/local/bin/sign-with-the-card?arg=--slot&arg=2"]
    pkcs11_module = "/usr/lib/softhsm/libsofthsm2.so"
    insecure_loopback_http = true
    databases = ["db.example:5432"]

It lies in the user's own configuration directory, never in a repository, and nobody else may
have access to it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cardsign.errors import FileFault, UsageFault
from cardsign.files import read_private
from cardsign.keys.signers.access import NOTHING_ALLOWED, SignerPolicy

FORMAT: Final = 1
MAX_BYTES: Final = 64 * 1024  # some lines are usual
MODULE_VARIABLE: Final = "CARDSIGN_PKCS11_MODULE"
_MEMBERS: Final[dict[str, type]] = {
    "format": int,
    "allow": list,
    "pkcs11_module": str,
    "insecure_loopback_http": bool,
    "databases": list,
}
_SERVER: Final = re.compile(r"(?:[a-z0-9._-]*|\[[0-9a-f:.]+\]):[0-9]{1,5}")


def user_file(environment: Mapping[str, str], name: str = "signers.toml") -> Path | None:
    """Where a file of the user's own lies; None if there is no place for one.

    Args:
        environment: XDG_CONFIG_HOME counts if it is an absolute path, else HOME.
        name: The file's; it lies beside `signers.toml`.
    """
    configured = Path(environment.get("XDG_CONFIG_HOME", ""))
    home = Path(environment.get("HOME", ""))
    if not configured.is_absolute():
        configured = home / ".config"
    return configured / "cardsign" / name if configured.is_absolute() else None


def user_policy(environment: Mapping[str, str]) -> SignerPolicy:
    """What the user's own file allows; nothing where there is none.

    Raises:
        UsageFault: As :func:`read_signer_policy`.
        FileFault: As :func:`read_signer_policy`.
    """
    file = user_file(environment)
    return NOTHING_ALLOWED if file is None else read_signer_policy(file)


def read_signer_policy(path: Path) -> SignerPolicy:
    """Read the file; one that is not there allows nothing.

    Raises:
        UsageFault: ``config.malformed``.
        FileFault: ``file.permissions``: others have access to it, or it is a link;
            ``file.unreadable``.
    """
    try:
        members = tomllib.loads(read_private(path, max_bytes=MAX_BYTES).decode())
    except FileFault as fault:
        if fault.code == "file.not_found":
            return NOTHING_ALLOWED
        raise
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise _malformed(path, f"not TOML: {exc}") from exc
    for name, value in members.items():
        if name not in _MEMBERS:
            raise _malformed(path, f"unknown member {name!r}; known are {', '.join(_MEMBERS)}")
        if type(value) is not _MEMBERS[name]:
            raise _malformed(path, f"{name!r} has the wrong type")
    if members.get("format") != FORMAT:
        raise _malformed(path, f"expected format = {FORMAT}, found {members.get('format')!r}")
    return _policy(path, members)


def _policy(path: Path, members: dict[str, Any]) -> SignerPolicy:
    uris = members.get("allow", [])
    if not all(isinstance(uri, str) for uri in uris):
        raise _malformed(path, "'allow' is not a list of URIs")
    module = Path(members["pkcs11_module"]) if "pkcs11_module" in members else None
    if module is not None and not module.is_absolute():
        raise _malformed(path, "'pkcs11_module' is no absolute path")
    servers = members.get("databases", [])
    if not all(isinstance(one, str) and _SERVER.fullmatch(one) for one in servers):
        raise _malformed(path, "'databases' is not a list of HOST:PORT, in lower case")
    return SignerPolicy(
        frozenset(uris),
        module,
        members.get("insecure_loopback_http", False),
        frozenset(servers),
    )


def _malformed(path: Path, problem: str) -> UsageFault:
    return UsageFault("config.malformed", problem, path=str(path))
