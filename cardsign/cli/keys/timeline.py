"""``cardsign keys timeline``: the lives of the keys, for people to look at before they dare."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import click

from cardsign.cli.keys.drawing import draw_svg
from cardsign.cli.options import (
    json_option,
    keystore_option,
    open_any_keystore,
    project_config,
    write_output,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.keys.lives import Life, Phase, Span, extent, lives
from cardsign.keys.opening import Place
from cardsign.keys.rotation import Step, steps
from cardsign.keys.timeline import SHOWN_TIME

WIDTH: Final = 60  # characters of a bar; with the kid before it a line fits 80 columns
_KID: Final = 12  # characters of a kid that are shown
_MARKS: Final[dict[Phase, str]] = {"waits": "·", "signs": "█", "signs_on": "▓", "verifies": "░"}
_AHEAD: Final = "▁"
_MEANING: Final = "· published, signs nothing   █ signs   ▓ signs beside its successor"
_MEANING_2: Final = "░ only verifies   ▁ will sign   X revoked   | now"


@click.command()
@click.option("-o", "--output", metavar="FILE", help="Write an SVG picture instead.")
@keystore_option
@json_option
def timeline(output: str | None, keystore: Place | None, as_json: bool) -> None:
    """Draw the lives of the keys, and say what comes next and for what it waits.

    What lies ahead is reckoned from the recorded publications and the [timeline] of
    cardsign.toml.
    """
    settings, now = project_config().timeline, datetime.now(UTC)
    state = open_any_keystore(keystore).state
    drawn = lives(state, settings, now)
    ahead = steps(state, settings, now)
    if as_json:
        print_json([_as_json(life) for life in drawn])
    elif output is not None:
        write_output(output, draw_svg(drawn, now))
        say(f"wrote {output}")
    else:
        for line in _picture(drawn, now):
            click.echo(line)
        for step in ahead:
            click.echo(_next(step, now))


def _picture(drawn: tuple[Life, ...], now: datetime) -> Iterator[str]:
    if not drawn:
        yield "there are no keys yet"
        return
    start, end = extent(drawn, now)
    left, right = f"{start:%Y-%m-%d %H:%M}", f"{end:%Y-%m-%d %H:%M} UTC"
    yield f"{'':<{_KID + 8}}{left}{right:>{WIDTH - len(left)}}"
    for life in drawn:
        yield f"{safe(life.key.kid)[:_KID]:<{_KID}} {life.key.alg:<6} {_bar(life, start, end, now)}"
    yield ""
    yield f"  {_MEANING}"
    yield f"  {_MEANING_2}"
    yield ""


def _bar(life: Life, start: datetime, end: datetime, now: datetime) -> str:
    def column(time: datetime) -> int:
        return min(WIDTH - 1, int((time - start) / (end - start) * WIDTH))

    cells = [" "] * WIDTH
    for span in life.spans:
        first, last = column(span.start), column(span.end or end)
        for cell in range(first, max(first, last) + 1):
            cells[cell] = _AHEAD if span.ahead else _MARKS[span.phase]
    if life.ended is not None:
        cells[column(life.ended)] = "X" if life.key.state == "revoked" else " "
    cells[column(now)] = "|"
    return "".join(cells).rstrip()


def _next(step: Step, now: datetime) -> str:
    what = f"{step.action} {step.key.kid if step.key else f'the next {step.alg} key'}"
    if step.is_due(now):
        return f"  now: {what}"
    when = "some day" if step.due is None else f"{step.due:{SHOWN_TIME}}"
    return safe(f"  {when}: {what} ({step.why})", limit=400)


def _as_json(life: Life) -> dict[str, Any]:
    return {
        "kid": life.key.kid,
        "alg": life.key.alg,
        "state": life.key.state,
        "spans": [_span_as_json(span) for span in life.spans],
        "ended": life.ended.isoformat() if life.ended else None,
    }


def _span_as_json(span: Span) -> dict[str, Any]:
    return {
        "phase": span.phase,
        "start": span.start.isoformat(),
        "end": span.end.isoformat() if span.end else None,
        "ahead": span.ahead,
    }
