"""How the cost of a verdict grows with the card, its signatures, and the policy; and its picture.

Run alone: ``python bench/growth.py`` prints the figures. All are CPU time in multiples of one bare
verification, taken in turns. Policies are loaded and issuers remembered before the first turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Final, TypeAlias

from documents import portable_card
from measuring import Broken, cpu_seconds, figure, in_turns, ratio
from policies import ISSUERS, KEYS, cases

from cardsign import JwkSet, Policy, PrivateKey, sign_card
from cardsign.trust import Holder
from cardsign.verify import reach_verdict

#: By what is counted, and for each curve: of each number the multiples of a bare verification.
Growth: TypeAlias = Mapping[str, Mapping[str, Mapping[str, float]]]

VERDICT: Final = "the verdict"
REPORT: Final = "with the whole report"
SKILLS: Final = (5, 31, 135, 550)
SIGNATURES: Final = (1, 2, 4, 8, 16)
ENTRIES: Final = (1, 10, 100, 1000)
_BLOCK: Final = 0.02  # seconds of one turn


def growing(rounds: int, most: int = max(ENTRIES)) -> Growth:
    """Measure; of keys and issuers no more than `most`."""
    keys = [PrivateKey.generate("ES256", kid=f"k{at}") for at in range(max(SIGNATURES))]
    policy, now = Policy.from_jwks(JwkSet.of([key.public for key in keys])), datetime.now(UTC)

    def verifying(card: bytes, stop_early: bool) -> Callable[[], None]:
        def verify() -> None:
            given = {"expect": Holder(), "policy": policy, "now": now}
            report = reach_verdict(card, **given, stop_early=stop_early)
            if report.verdict != "trusted":
                raise Broken(f"{report.verdict}: {report.reasons}")

        return verify

    turns: dict[tuple[str, str, str], Callable[[], None]] = {}
    for skills in SKILLS:
        card = sign_card(portable_card(skills=skills), keys[:1])
        size = f"{len(card) / 1000:.0f}"
        turns["KB of a card", VERDICT, size] = verifying(card, stop_early=True)
    for number in SIGNATURES:
        card = sign_card(portable_card(), keys[:number])
        for curve, stop_early in ((VERDICT, True), (REPORT, False)):
            turns["signatures", curve, str(number)] = verifying(card, stop_early)
    for number in sorted({min(most, one) for one in ENTRIES}):
        found = cases(number, 1, now)
        turns["keys in a set", VERDICT, f"{number:,}"] = found[KEYS.format(f"{number:,}")]
        turns["issuers in a policy", VERDICT, f"{number:,}"] = found[ISSUERS.format(f"{number:,}")]
    message = b"x" * 2048
    signature, bare = keys[0].sign(message), ("", "", "")
    turns[bare] = lambda: keys[0].public.check(message, signature)
    timed = {str(name): cpu_seconds(work, of_about=_BLOCK) for name, work in turns.items()}
    times = in_turns(timed, rounds)
    grown: dict[str, dict[str, dict[str, float]]] = {}
    for name in turns:
        what, curve, at = name
        if name != bare:
            cost = ratio(times, str(name), str(bare)).median
            grown.setdefault(what, {}).setdefault(curve, {})[at] = float(f"{cost:.3g}")
    return grown


# The picture: a field for each thing that grows, its numbers side by side, costs upwards from 0.

_WIDTH, _HEIGHT, _MARGIN = 440, 280, 48
_FONT: Final = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"
# Paper, ink, faint lines, and the two curves: on a light page and on a dark one.
_COLOURS: Final = (
    ("#ffffff", "#1f2328", "#d0d7de", "#0550ae", "#a03c00"),
    ("#0d1117", "#e6edf3", "#3d444d", "#79c0ff", "#ffa657"),
)


def drawn(growth: Growth) -> str:
    """The picture, which the theme of its page colours."""
    rows = (len(growth) + 1) // 2
    size = f'width="{2 * _WIDTH}" height="{rows * _HEIGHT}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _WIDTH} {rows * _HEIGHT}" '
        f'{size} role="img"><title>What a verdict costs, in bare verifications</title>',
        f"<style>text{{font:13px {_FONT}}}.name{{font-weight:600}}{_style(0)}"
        f"@media(prefers-color-scheme:dark){{{_style(1)}}}</style>",
        '<rect width="100%" height="100%" rx="8"/>',
    ]
    for at, (what, curves) in enumerate(growth.items()):
        lines.append(f'<g transform="translate({at % 2 * _WIDTH} {at // 2 * _HEIGHT})">')
        lines += (*_field(what, curves), "</g>")
    return "\n".join((*lines, "</svg>", ""))


def _style(theme: int) -> str:
    paper, ink, faint, *curves = _COLOURS[theme]
    lines = "".join(
        f".c{at}{{fill:{colour}}}path.c{at}{{fill:none;stroke:{colour};stroke-width:2}}"
        for at, colour in enumerate(curves)
    )
    return f"rect{{fill:{paper}}}text{{fill:{ink}}}.axis{{stroke:{faint}}}{lines}"


def _field(what: str, curves: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    numbers = list(next(iter(curves.values())))
    highest = max(cost for curve in curves.values() for cost in curve.values()) * 1.15
    low, high = _HEIGHT - _MARGIN, _MARGIN + 8
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(numbers) - 1)
    yield f'<text x="{_MARGIN}" y="24" class="name">{escape(what)}</text>'
    yield f'<path d="M{_MARGIN - 12} {low}H{_WIDTH - _MARGIN + 12}" class="axis"/>'
    for at, number in enumerate(numbers):
        x = _MARGIN + at * step
        yield f'<text x="{x:g}" y="{low + 20}" text-anchor="middle">{number}</text>'
    for at, (name, curve) in enumerate(curves.items()):
        points = [
            (_MARGIN + place * step, low - cost / highest * (low - high))
            for place, cost in enumerate(curve.values())
        ]
        yield f'<path d="M{" L".join(f"{x:g} {y:.1f}" for x, y in points)}" class="c{at}"/>'
        below = at == 0 and len(curves) > 1
        for (x, y), cost in zip(points, curve.values(), strict=True):
            yield f'<circle cx="{x:g}" cy="{y:.1f}" r="3" class="c{at}"/>'
            yield (
                f'<text x="{x:g}" y="{y + (18 if below else -9):.1f}" text-anchor="middle" '
                f'class="c{at}">{figure(cost)}</text>'
            )
        if len(curves) > 1:
            yield (
                f'<text x="{_WIDTH - _MARGIN}" y="{24 + 16 * at}" text-anchor="end" '
                f'class="c{at}">{escape(name)}</text>'
            )


if __name__ == "__main__":
    print(json.dumps(growing(rounds=9), indent=1))
