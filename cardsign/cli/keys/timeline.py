"""``cardsign keys timeline``: the lives of the keys, for people to look at before they dare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from cardsign.cli.keys.drawing import MEANINGS, draw_svg
from cardsign.cli.options import (
    json_option,
    keystore_option,
    open_keystore,
    project_config,
    write_output,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.keys.ledger import Ledger
from cardsign.keys.lives import Life, Phase, Span, extent, lives, standings
from cardsign.keys.opening import Place
from cardsign.keys.records import StoreState
from cardsign.keys.renewal import Renewal, renewal
from cardsign.keys.rotation import Step, steps
from cardsign.keys.timeline import SHOWN_TIME

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
}
_AHEAD: Final = "▁"


@click.command(short_help="Draw the lives of the keys, and what comes next.")
@click.option("-o", "--output", metavar="FILE", help="Write an SVG picture instead.")
@keystore_option
@json_option
def timeline(output: str | None, keystore: Place | None, as_json: bool) -> None:
    """Draw the lives of the keys, and say what comes next and for what it waits.

    What lies ahead is reckoned from the recorded publications and the [timeline] of
    cardsign.toml. Where there are statements, they are drawn until they end.
    """
    settings, now = project_config().timeline, datetime.now(UTC)
    store = open_keystore(keystore)
    state, ledger = store.state, Ledger.beside(store)
    keyset, release = ledger.newest_keyset(), ledger.newest_release()
    drawn = (*lives(state, settings, now), *standings(keyset, release))
    told = [_step(step, now) for step in steps(state, settings, now)]
    if keyset is not None:
        told.append(_keyset_step(renewal(state, keyset, now=now)))
    said = [f"{_when(due, now)}: {what}" for due, what in sorted(told, key=_order)]
    if as_json:
        print_json([_as_json(life) for life in drawn])
    elif output is not None:
        write_output(output, draw_svg(drawn, now, said))
        say(f"wrote {output}")
    else:
        for line in _picture(drawn, state, now):
            click.echo(line)
        for line in said:
            click.echo(safe(f"  {line}", limit=400))


def _picture(drawn: Sequence[Life], state: StoreState, now: datetime) -> Iterator[str]:
    if not state.keys:
        yield "there are no keys yet"
        return
    start, end = extent(drawn, now)
    left, right = f"{start:%Y-%m-%d %H:%M}", f"{end:%Y-%m-%d %H:%M} UTC"
    yield f"{'':<{_LABEL}}{left}{right:>{WIDTH - len(left)}}"
    for life in drawn:
        label = f"{safe(life.name)[:_NAME]:<{_NAME}} {life.what}"
        yield f"{label[: _LABEL - 1]:<{_LABEL}}{_bar(life, start, end, now)}"
    yield ""
    yield from _legend(drawn)
    yield ""


def _bar(life: Life, start: datetime, end: datetime, now: datetime) -> str:
    def column(time: datetime) -> int:
        return min(WIDTH - 1, int((time - start) / (end - start) * WIDTH))

    cells = [" "] * WIDTH
    for span in life.spans:
        first, last = column(span.start), column(span.end or end)
        for cell in range(first, max(first, last) + 1):
            cells[cell] = _AHEAD if span.ahead else _MARKS[span.phase]
    cells[column(now)] = "|"
    if life.ended is not None and life.key is not None:
        cells[column(life.ended)] = "X" if life.key.state == "revoked" else "."
    if life.due is not None and life.due > now:
        cells[column(life.due)] = "!"
    return "".join(cells).rstrip()


def _legend(drawn: Sequence[Life]) -> Iterator[str]:
    """What the marks mean that are in the picture, two or three to a line."""
    shown = {span.phase for life in drawn for span in life.spans if not span.ahead}
    marks = [f"{_MARKS[phase]} {meaning}" for phase, meaning in MEANINGS if phase in shown]
    if any(span.ahead for life in drawn for span in life.spans):
        marks.append(f"{_AHEAD} will sign")
    if any(life.ended for life in drawn):
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


def _keyset_step(told: Renewal) -> tuple[datetime | None, str]:
    return told.due, f"let the roots sign keyset {told.number} ({told.why})"


def _order(told: tuple[datetime | None, str]) -> tuple[bool, float]:
    due, _ = told
    return due is None, due.timestamp() if due else 0.0


def _when(due: datetime | None, now: datetime) -> str:
    if due is None:
        return "no date yet"
    return "now" if due <= now else f"{due:{SHOWN_TIME}}"


def _as_json(life: Life) -> dict[str, Any]:
    key = life.key
    about: dict[str, Any] = {"statement": life.what, "number": life.name}
    if key is not None:
        about = {"kid": key.kid, "alg": key.alg, "roles": list(key.roles), "state": key.state}
    return {
        **about,
        "spans": [_span_as_json(span) for span in life.spans],
        "due": life.due.isoformat() if life.due else None,
        "ended": life.ended.isoformat() if life.ended else None,
    }


def _span_as_json(span: Span) -> dict[str, Any]:
    return {
        "phase": span.phase,
        "start": span.start.isoformat(),
        "end": span.end.isoformat() if span.end else None,
        "ahead": span.ahead,
    }
