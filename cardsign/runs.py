"""What earlier runs came to: verdicts of a run that goes on, and the last check of each card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cardsign.batch import Outcome, attempt, read_card
from cardsign.card.strictjson import parse_object
from cardsign.errors import FileFault, FileMissing, InputRefused, StateFault, UsageFault
from cardsign.files import PRIVATE_MODE, make_directory, read_bytes, write_atomic
from cardsign.records import dataclass

#: Bytes of a log of checks: 200 for each of 10,000 cards.
MAX_CHECK_LOG_BYTES: Final = 2_000_000
#: How long a verdict of a run that was stopped counts when the run goes on.
RESUMED_WITHIN: Final = timedelta(hours=12)
_BEGINNING: Final = b'{"input": "'  # of a line in a file of verdicts

# Verdicts in a file, so that a run can be continued.


def verdict_line(outcome: Outcome, name: str, judged_by: str, *, now: datetime) -> dict[str, Any]:
    """The verdict on a card as a line of such a file, parsed."""
    sha256 = hashlib.sha256(outcome.untrusted_bytes).hexdigest()
    more = {"judged_by": judged_by, "sha256": sha256, "judged_at": now.isoformat()}
    return {**outcome.to_json(), "input": name, **more}


def verdicts_before(
    file: Path, judged_by: str, is_same: Callable[[str, str], bool], *, now: datetime
) -> dict[str, str]:
    """The verdicts that a run which was stopped has written to a file, if they still count.

    One counts for :data:`RESUMED_WITHIN`, and at most until its own `valid_until`. A last line
    that a crash cut short is cut off.

    Args:
        file: JSON Lines, as :func:`verdict_line` makes them; it need not exist.
        judged_by: By what this run judges.
        is_same: Whether the card of a name still has this SHA-256; see :func:`is_as_judged`.
        now: Aware.

    Returns:
        The verdict of each card, by its name.

    Raises:
        UsageFault: ``usage.conflict``: something else was judged by, or it is no such file.
        FileFault: It cannot be read.
    """
    found: dict[str, tuple[str, str]] = {}
    whole = 0
    try:
        with file.open("rb+") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    if not line.startswith(_BEGINNING[: len(line)]):
                        raise ValueError
                    lines.truncate(whole)
                    break
                one = json.loads(line)
                if one["judged_by"] != judged_by:
                    raise ValueError
                until = datetime.fromisoformat(one["judged_at"]) + RESUMED_WITHIN
                if one["valid_until"] is not None:
                    until = min(until, datetime.fromisoformat(one["valid_until"]))
                if now < until:
                    found[str(one["input"])] = str(one["verdict"]), str(one["sha256"])
                whole += len(line)
    except FileNotFoundError:
        return {}
    except OSError as exc:
        why = f"the operating system says: {exc.strerror}"
        raise FileFault("file.unreadable", why, path=str(file)) from exc
    except (ValueError, KeyError, TypeError, OverflowError) as exc:
        why = "the file holds something else, or verdicts by another policy or other options"
        hint = "Name another file, or remove this one to judge all cards anew."
        raise UsageFault("usage.conflict", why, path=str(file), hint=hint) from exc
    return {name: verdict for name, (verdict, sha256) in found.items() if is_same(name, sha256)}


def is_as_judged(
    folders: Mapping[str, str], given: Mapping[str, bytes], name: str, sha256: str
) -> bool:
    """Whether a card still has the bytes that were judged; of a URL or an object, always."""
    data = attempt(lambda one: read_card(one, folders, given), name)
    is_here = isinstance(data, bytes) and hashlib.sha256(data).hexdigest() == sha256
    return data is None or is_here


# What the last check of each card came to.


@dataclass(frozen=True, slots=True)
class LastCheck:
    """What the last check of one card came to.

    Attributes:
        at: When, in UTC.
        verdict: Its verdict, or ``fault``.
        code: The first reason's code; empty where there is none.
    """

    at: datetime
    verdict: str
    code: str


def _check_log(folder: Path, policy: str) -> Path:
    digest = hashlib.sha256(policy.encode(errors="surrogatepass")).hexdigest()
    return folder / "checks" / f"{digest[:16]}.json"


def read_checks(folder: Path, policy: str) -> dict[str, LastCheck]:
    """The last checks of the cards of one policy, by URL; empty where nothing was ever checked.

    They are kept for people; no verdict rests on them.

    Args:
        folder: The folder of the issuer states.
        policy: The policy's identity.

    Raises:
        StateFault: ``state.corrupt``.
        FileFault: They cannot be read.
    """
    file = _check_log(folder, policy)
    try:
        data = read_bytes(file, max_bytes=MAX_CHECK_LOG_BYTES)
        cards = parse_object(data, max_bytes=MAX_CHECK_LOG_BYTES)["cards"]
        return {url: _last_check(one) for url, one in dict(cards).items()}  # type: ignore[arg-type]
    except FileMissing:
        return {}
    except (InputRefused, KeyError, TypeError, ValueError) as error:
        raise StateFault(
            "state.corrupt",
            "the log of checks cannot be read",
            path=str(file),
            hint="Remove it; the next cardsign peers verify writes it anew.",
        ) from error


def add_checks(folder: Path, policy: str, checks: Mapping[str, LastCheck]) -> None:
    """Put these checks in place of earlier ones of the same cards; as :func:`read_checks`."""
    known = read_checks(folder, policy) | dict(checks)
    cards = {
        url: {"at": one.at.isoformat(), "verdict": one.verdict, "code": one.code}
        for url, one in sorted(known.items())
    }
    file = _check_log(folder, policy)
    make_directory(file.parent, mode=0o700)
    text = json.dumps({"format": 1, "cards": cards}, indent=1)
    write_atomic(file, text.encode(), mode=PRIVATE_MODE)


def _last_check(members: Any) -> LastCheck:
    at = datetime.fromisoformat(members["at"])
    if at.tzinfo is None:
        raise ValueError("no zone")
    return LastCheck(at, str(members["verdict"]), str(members["code"]))
