"""Attack 58 as transcripts: chains that are drawn out, so that one visit never ends."""

from __future__ import annotations

from corpus import Attack, refused
from crafting import Json
from stage import INDETERMINATE, LATER, Stage, keyset_url
from statements import House, Statement, yes

#: Seconds that a statement takes to come: half of what one request may take.
_SLOW = 5
#: Seconds for all that one refresh asks; a visit may make two.
_BUDGET = 30


def drawn_out(attack: Attack) -> None:
    """Each request is answered in time, and there is always one more."""
    stage = Stage(attack)
    by_roots, by_keyset = stage.by_roots(), stage.by_keyset()
    stranger = House()
    forged = [
        stranger.keyset(
            version=version, prev="0" * 64 if version > 1 else None, label=f"forged-{version}"
        )
        for version in range(1, 13)
    ]
    stage.refused(
        "drawn-out",
        "A server without any key has well-formed statements without end, five seconds each",
        INDETERMINATE,
        "trust.no_keys",
        policy=by_roots,
        answers=_slowly(stage, forged, _SLOW),
        expecting={"times": {keyset_url(one): 0 for one in forged[_BUDGET // _SLOW + 1 :]}},
    )
    chain = [stage.first]
    for _ in range(16):
        chain.append(stage.house.after(chain[-1]))
    newest = stage.house.release(chain[-1], seq=6, label="release-of-17")
    world = {**_slowly(stage, chain, _SLOW), **stage.statements(newest)}
    part = stage.step(refused(INDETERMINATE, "statement.keyset"), answers=world)
    stage.case(
        "long-way",
        "A lawful chain that is as slow: one visit is not enough",
        part,
        policy=by_keyset,
    )
    stage.case(
        "long-way-on",
        "The next visit goes on from where the first one ended",
        part,
        stage.step(yes(), now=LATER),
        policy=by_keyset,
        twin=True,
    )
    quick = {**_slowly(stage, chain, 1), **stage.statements(newest)}
    stage.honest("quick", "The same chain, a second each", policy=by_roots, answers=quick)


def _slowly(stage: Stage, statements: list[Statement], seconds: int) -> Json:
    """Where they lie, and how long each takes."""
    said = {keyset_url(one): stage.said(one.data, one.label) for one in statements}
    return {url: {**answer, "pause": seconds} for url, answer in said.items()}
