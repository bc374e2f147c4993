"""What a look at a key store finds: something that somebody should know, and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Level = Literal["alarm", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        code: ``doctor.*``, or the code of the fault that was met.
        level: An ``alarm`` needs somebody to act; a ``note`` does not.
        message: What, in one sentence.
        path: Where; may be empty.
        mended: Whether it has been mended.
        mend: What mends it, where that is safe.
        real: When it does harm, or is due, if nobody acts; None: it does already, or nobody can
            know when.
    """

    code: str
    level: Level
    message: str
    path: str = ""
    mended: bool = False
    mend: Callable[[], None] | None = None
    real: datetime | None = None
