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


_AbsolutePath = Annotated[Path, Field(strict=False), AfterValidator(_check_absolute)]
_Server = Annotated[str, AfterValidator(_check_server)]


class SignersFile(BaseModel):
    """The members of the file; see :class:`cardsign.keys.signers.access.SignerPolicy`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: int = Field(ge=FORMAT, le=FORMAT)
    allow: list[str] = []
    pkcs11_module: _AbsolutePath | None = None
    insecure_loopback_http: bool = False
    databases: list[_Server] = []
    folders: list[_AbsolutePath] = []
    passphrase_files: dict[Role, _AbsolutePath] = {}
