"""``cardsign keys timeline``: each key and statement from its beginning to its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from cardsign.cli.arguments import option, write_output
from cardsign.cli.commands import command
from cardsign.cli.keys.picture import MEANINGS, draw_svg
from cardsign.cli.options import KeystoreOptions, keystore_options, project_config
from cardsign.cli.talk import printed, safe, say
from cardsign.cli.views import members
from cardsign.keys.history import StatementHistory
from cardsign.keys.keyset_drafts import has_ended, keyset_due
from cardsign.keys.lifecycle import SHOWN_TIME
from cardsign.keys.model import StoreState
from cardsign.keys.rotation import Step, steps
from cardsign.keys.timeline import Phase, TimelineRow, extent, key_rows, statement_rows

WIDTH: Final = 52  # characters of a bar; with what stands before it a line fits 80 columns
_NAME: Final = 12  # characters of a kid that are shown
_LABEL: Final = 28  # kid, algorithm and role
_MARKS: Final[dict[Phase, str]] = {
    "unlisted": "?",
    "waits": "·",
    "signs": "█",
    "signs_on": "▓",
    "verifies": "░",
    "stands": "═",
    "trusts": "+",
    "refuses": "-",
    "fooled": "!",
    "lost": "x",
}
_AHEAD: Final = "▁"


@command(
    short_help="Draw when each key signs, and what comes next.", example="cardsign keys timeline"
)
@option("-o --output FILE", "Write an SVG picture instead.")
@keystore_options
def timeline(output: str | None, keystore: KeystoreOptions) -> None:
    """Draw when each key signs, and say which step is next and what it waits for.

    The future is computed from the recorded publications and [timeline] in cardsign.toml.
    Statements are drawn too, until they expire.
    """
    settings, now = project_config().timeline, datetime.now(UTC)
    store = keystore.open()
    state, history = store.state, StatementHistory.of(store)
    keyset, release = history.newest_keyset(), history.newest_release()
    drawn = (*key_rows(state, settings, now), *statement_rows(keyset, release))
    told = [_step(step, now) for step in steps(state, settings, now)]
    if keyset is not None and not has_ended(state, keyset):
        next_one = keyset_due(state, keyset, now=now, settings=settings)
        told.append((next_one.due, f"let the roots sign keyset {next_one.number} ({next_one.why})"))
    said = [f"{_when(due, now)}: {what}" for due, what in sorted(told, key=_order)]
    if printed([_as_json(row) for row in drawn]):
        return
    if output is not None:
        write_output(output, draw_svg(drawn, now, said=said))
        say(f"wrote {output}")
    else:
        for line in _picture(drawn, state, now):
            click.echo(line)
        for line in said:
            click.echo(safe(f"  {line}", limit=400))


def _picture(drawn: Sequence[TimelineRow], state: StoreState, now: datetime) -> Iterator[str]:
    if not state.keys:
        yield "there are no keys yet"
        return
    start, end = extent(drawn, now)
    left, right = f"{start:%Y-%m-%d %H:%M}", f"{end:%Y-%m-%d %H:%M} UTC"
    yield f"{'':<{_LABEL}}{left}{right:>{WIDTH - len(left)}}"
    for row in drawn:
        label = f"{safe(row.name)[:_NAME]:<{_NAME}} {row.what}"
        yield f"{label[: _LABEL - 1]:<{_LABEL}}{_bar(row, start, end, now)}"
    yield ""
    yield from _legend(drawn)
    yield ""


def _bar(row: TimelineRow, start: datetime, end: datetime, now: datetime) -> str:
    def column(time: datetime) -> int:
        return min(WIDTH - 1, int((time - start) / (end - start) * WIDTH))

    cells = [" "] * WIDTH
    for span in row.spans:
        first, last = column(span.start), column(span.end or end)
        for cell in range(first, max(first, last) + 1):
            cells[cell] = _AHEAD if span.ahead else _MARKS[span.phase]
    cells[column(now)] = "|"
    if row.ended is not None and row.key is not None:
        cells[column(row.ended)] = "X" if row.key.state == "revoked" else "."
    if row.due is not None and row.due > now:
        cells[column(row.due)] = "!"
    return "".join(cells).rstrip()


def _legend(drawn: Sequence[TimelineRow]) -> Iterator[str]:
    """What the marks mean that are in the picture, two or three to a line."""
    shown = {span.phase for row in drawn for span in row.spans if not span.ahead}
    marks = [f"{_MARKS[phase]} {meaning}" for phase, meaning in MEANINGS if phase in shown]
    if any(span.ahead for row in drawn for span in row.spans):
        marks.append(f"{_AHEAD} will sign")
    if any(row.ended for row in drawn):
        marks.append("X revoked  . retired")
    marks.append("! to be done  | now")
    line = ""
    for mark in marks:
        if line and len(line) + len(mark) > 72:
            yield f"  {line}"
            line = ""
        line = f"{line}   {mark}" if line else mark
    yield f"  {line}"


def _step(step: Step, now: datetime) -> tuple[datetime | None, str]:
    """When, and what, and what it waits for until then."""
    if step.key is None:
        return step.due, f"{step.action} the next {step.alg} {step.role} key ({step.why})"
    what = f"{step.action} {step.role} key {step.key.kid[:_NAME]}"
    return step.due, what if step.is_due(now) else f"{what} ({step.why})"


def _order(told: tuple[datetime | None, str]) -> tuple[bool, float]:
    due, _ = told
    return due is None, due.timestamp() if due else 0.0


def _when(due: datetime | None, now: datetime) -> str:
    if due is None:
        return "no date yet"
    return "now" if due <= now else f"{due:{SHOWN_TIME}}"


def _as_json(row: TimelineRow) -> dict[str, Any]:
    key = row.key
    about: dict[str, Any] = {"statement": row.what, "number": row.name}
    if key is not None:
        about = members(key, "kid alg roles state")
    spans = [members(span, "phase start end ahead") for span in row.spans]
    return {**about, "spans": spans, **members(row, "due ended")}
