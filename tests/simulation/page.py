"""docs/reports/simulation.md: what the simulation is, and what its last long run came to."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.simulation.run import Outcome

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reports" / "simulation.md"

_TEXT: Final = """# The simulation: does a rotation break anybody, or leave a thief in?

`make simulate` lets worlds run under a virtual clock, each for 45 days and each from one seed.
Random issuers rotate and revoke keys with cardsign's own code: `cardsign.keys`, `cardsign.issuer`
and `cardsign.sign`. They miss runs of cron, lose a host and deploy hours or days late. They let the
roots wait, they edit their card, and their clocks differ. A new key waits until the roots have
listed it, and hinders nothing meanwhile.

There is a cache between each verifier and each URL. Random verifiers come after each change. Their
copies are as fresh or as old as the timeline assumes at worst, and their clocks are off. Those with
a keyset anchor refresh their issuers as `cardsign verify` does, and lose their state now and then.
Others have a JWK Set and a card. Some of these want one good signature, the others want every
signature to be good. In three worlds of four a thief takes the active card key. In one of these
three the thief takes the release key, too.

## Three statements

1. No honest card is refused by a verifier within the assumptions.
2. No card signed with a revoked key is accepted by a verifier that has refreshed since: that has a
   release, or a JWK Set, from when the revocation was live.
3. With statements withheld, a thief is believed as long as documented below, to the second.

Any exception stops the run and prints the seed, the world and its history. Signatures are real. A
question that was asked before, (payload, key, signature), has the answer that it had.

## The last run

`make simulate T="--verifications {asked} --seed {first} --page"` with CPython {python} and
{workers} processes: **{total} verifications in {worlds} worlds** (seeds {first} to {last}),
{seconds} s, {distinct} signatures checked ({questions} times asked for). All three statements held.

| who verifies | verifications |
|---|---:|
{verifications}

Honest cards that were refused, of which the assumptions say nothing:

| why | verifications |
|---|---:|
{excluded}

* A revocation takes the last key from copies of the card that only it had signed, or it and a key
  that was retired since; that ends card_max_age after the card that is signed anew is live. The
  longest was {after} s after the revocation was decided, by an issuer who deploys days late. That
  everybody believes the standby at once needs that it was published for max(A, W) before.
* What has ended because of missed runs of cron is refused until it is signed anew.

## How long a thief is believed

Counted from when the revocation is live, or from when a verifier is cut off.

| whom, by whom | bound | longest seen, s | least below the bound, s |
|---|---|---:|---:|
{beliefs}

The bounds differ from world to world: a release lasts 2 to 7 days here, a keyset 20 to 40, W is 1
to 24 hours, M is 0 s to 4 hours. In worlds with a thief one verifier is cut off; it must believe
the thief in the last second before its bound, and must not in the next. Statements end by the
verifier's clock, so seen by the issuer's they last up to `skew` longer.

## Rotations that are wrong

`python -m pytest tests/simulation` holds that each is found: no pre-publication, waiting by the
clock of the state instead of a record, no overlap, dropping a key too early, taking a revoked key
back, raising the floor with the release that lists the next card; retiring a key while cards still
bear its signature, and publishing a keyset before the release that speaks of it. The last two were
found here: `retire` once asked only that the successor had signed, and `keyset publish` once
published at once.

## What is not simulated

Sockets, HTTP and TLS (a cache is a dictionary); several issuers or cards; compat profiles, RS256
and extended cards; first contact (TOFU); thieves of root or recovery keys, and new epochs; a thief
of a release key before verifiers who are not cut off; two hosts that commit at the same moment
(`tests/crash` has that); clocks that are further off than `skew`.
"""

_BOUNDS: Final = {
    "a thief of a card key, by who keeps a JWK Set for the longest": "max(A, W)",
    "a thief of a card key, by who asks us every 300 s": "max-age M of the cache + min(M, 300 s)",
    "a thief of a card key, by who gets no newer statements": "`exp` of the release held",
    "a thief of a card and a release key, by who gets no newer statements": "`exp` of the keyset",
}


def write_page(outcome: Outcome, workers: int, asked: int) -> None:
    """Write the page."""
    figures = outcome.figures
    beliefs = [
        f"| {what} | {bound} | {figures.longest.get(what, 0):,} | "
        f"{figures.short_of_bound.get(what, '')} |"
        for what, bound in _BOUNDS.items()
    ]
    text = _TEXT.format(
        asked=asked,
        first=outcome.first,
        last=outcome.first + outcome.worlds - 1,
        python=platform.python_version(),
        workers=workers,
        total=f"{figures.total:,}",
        worlds=f"{outcome.worlds:,}",
        seconds=f"{outcome.seconds:,.0f}",
        distinct=f"{outcome.distinct:,}",
        questions=f"{outcome.asked:,}",
        verifications=_rows(figures.verifications),
        excluded=_rows(figures.excluded),
        beliefs="\n".join(beliefs),
        after=f"{figures.longest.get('honest cards refused after a revocation was decided', 0):,}",
    )
    PAGE.write_text(text, encoding="utf-8")


def _rows(counted: dict[str, int]) -> str:
    return "\n".join(f"| {what} | {times:,} |" for what, times in sorted(counted.items()))
