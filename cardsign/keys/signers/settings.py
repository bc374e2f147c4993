"""``signers.toml`` as pydantic reads it: what a user allows signers on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cardsign.keys.model import Role

FORMAT: Final = 1
_SERVER: Final = re.compile(r"(?:[a-z0-9._-]*|\[[0-9a-f:.]+\]):[0-9]{1,5}")


def _check_absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("is not an absolute path")
    return path


def _check_server(server: str) -> str:
    if not _SERVER.fullmatch(server):
        raise ValueError("is not HOST:PORT, in lower case")
    return server


_LAX: Final = Field(strict=False)  # TOML has lists
_AbsolutePath = Annotated[Path, _LAX, AfterValidator(_check_absolute)]
_Server = Annotated[str, AfterValidator(_check_server)]


class SignersFile(BaseModel):
    """The members of the file; see :class:`cardsign.keys.signers.access.SignerPolicy`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: int = Field(ge=FORMAT, le=FORMAT)
    allow: Annotated[frozenset[str], _LAX] = frozenset()
    pkcs11_module: _AbsolutePath | None = None
    insecure_loopback_http: bool = False
    databases: Annotated[frozenset[_Server], _LAX] = frozenset()
    folders: Annotated[frozenset[_AbsolutePath], _LAX] = frozenset()
    passphrase_files: dict[Role, _AbsolutePath] = {}
