"""The numbers of docs/concepts/scale.md: requests, bytes and minutes of a large publication.

python docs/picture/scale.py --agents 10000 --requests 1000000000
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

DAY = 86_400


@dataclass(frozen=True)
class Scale:
    """A publication behind a CDN.

    Attributes:
        agents: Cards.
        requests: GETs of cards a day, of all verifiers.
        places: Points of presence of the CDN, each with a cache of its own.
        card_age: Seconds that a cache may keep a card.
        statement_age: Seconds that it may keep a statement.
        card_bytes: Of one card.
        release_bytes: Of one release, before its list of cards.
        listed_bytes: That each listed card adds to it.
        issuers: Key stores, each with a release of its own for its agents.
        per_core: Requests a second that one core answers.
    """

    agents: int = 10_000
    requests: int = 1_000_000_000
    places: int = 100
    card_age: int = 3600
    statement_age: int = 300
    card_bytes: int = 3_000
    release_bytes: int = 1_000
    listed_bytes: int = 200
    issuers: int = 100
    per_core: int = 5_000

    def rows(self) -> list[tuple[str, str]]:
        """What is asked of whom, in the order of the page."""
        # A cache asks at most once in its max-age for each file, and not at all if nobody asks it.
        cards = min(self.requests, self.agents * self.places * DAY // self.card_age)
        # The least that a verifier does: each GET of a card may bring one of the release.
        statements = min(self.requests, 2 * self.issuers * self.places * DAY // self.statement_age)
        asked = cards + statements
        release = self.release_bytes + self.agents // self.issuers * self.listed_bytes
        # A rotation changes every card of an issuer, its key set and two statements.
        rotated = self.agents * self.card_bytes + self.issuers * release
        cores = max(1, -(-10 * asked // (DAY * self.per_core)))
        return [
            ("GETs that the CDN answers, a second", f"{self.requests / DAY:,.0f}"),
            ("GETs of cards that reach the origin, a day", f"{cards:,}"),
            ("GETs of statements that reach the origin, a day", f"{statements:,}"),
            ("GETs that the CDN answers by itself", f"{1 - asked / (2 * self.requests):.1%}"),
            ("cores of the origin, at ten times the mean", f"{cores}"),
            ("bytes of one release", f"{release:,}"),
            ("MB uploaded when all keys rotate", f"{rotated / 1e6:,.0f}"),
            ("MB to each place of the CDN after that", f"{rotated / 1e6:,.0f}"),
            ("minutes until a revocation is everywhere", f"{self.statement_age / 60:.0f}"),
            ("the same, if the CDN sends no Age", f"{2 * self.statement_age / 60:.0f}"),
            ("minutes until a new card is everywhere", f"{self.card_age / 60:.0f}"),
        ]


def main() -> None:
    """Print the rows as a table of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    plain = Scale()
    for name in ("agents", "requests", "places", "card_age", "issuers"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(plain, name))
    print("| what | how much |\n|---|---:|")
    for what, much in Scale(**vars(parser.parse_args())).rows():
        print(f"| {what} | {much} |")


if __name__ == "__main__":
    main()
