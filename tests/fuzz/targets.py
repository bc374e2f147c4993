"""What is fuzzed: each target takes bytes and raises nothing but what its reader documents.

Anything else, an ``AssertionError`` of an oracle included, is a finding. Time and memory are
libFuzzer's to bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from cardsign.errors import (
    BuildRefused,
    CardRefused,
    CardsignError,
    JsonRefused,
    KeyRefused,
    SignatureRefused,
)
from cardsign.findings import list_codes
from cardsign.statements.envelope import StatementRefused
from tests.fuzz import mutations as change
from tests.fuzz import readers, seeds

#: Of our own vectors and attacks, those that one target starts from, drawn by the seed: with all
#: of them a short run would do nothing else.
MOST_PUBLISHED: Final = 64


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that reads what strangers write.

    Attributes:
        check: Holds the properties against one input; returns a verdict if it reaches one.
        refuses: The errors that its documentation names; it may raise no others.
        mutate: The mutator that knows the kind of input.
        examples: Good inputs, made now.
        published: Inputs among our own vectors and attacks.
    """

    check: Callable[[bytes], str | None]
    refuses: tuple[type[CardsignError], ...]
    mutate: change.Mutator
    examples: Callable[[], list[bytes]]
    published: Callable[[], list[bytes]] = list

    def seeds(self, random: Random) -> list[bytes]:
        """What to start from."""
        published = self.published()
        return self.examples() + random.sample(published, min(len(published), MOST_PUBLISHED))

    def run(self, data: bytes) -> str:
        """Hold the properties against an input: its verdict, ``accepted``, or a refusal's code."""
        refused: CardsignError | None = None
        try:
            verdict = self.check(data)
        except self.refuses as exc:
            refused = exc
        if refused is None:
            return verdict or "accepted"
        assert refused.code in list_codes(), refused.code
        assert str(refused).startswith(refused.code)
        return refused.code


TARGETS: Final[dict[str, Target]] = {
    "json": Target(
        readers.check_json,
        (JsonRefused,),
        change.mutate_json,
        seeds.cards,
        seeds.published_cards,
    ),
    "entry": Target(
        readers.check_entry, (JsonRefused, SignatureRefused), change.mutate_entry, seeds.entries
    ),
    "jwks": Target(
        readers.check_key_set,
        (KeyRefused,),
        change.mutate_json,
        seeds.key_sets,
        seeds.published_key_sets,
    ),
    "keyset": Target(
        readers.check_keyset,
        (StatementRefused,),
        change.mutate_statement,
        seeds.keysets,
        seeds.published_keysets,
    ),
    "release": Target(
        readers.check_release,
        (StatementRefused,),
        change.mutate_statement,
        seeds.releases,
        seeds.published_releases,
    ),
    "marker": Target(
        readers.check_marker,
        (JsonRefused, CardRefused),
        change.mutate_json,
        seeds.cards,
        seeds.published_cards,
    ),
    "verify": Target(
        readers.check_pinned, (), change.mutate_card, seeds.cards, seeds.published_cards
    ),
    "inspect": Target(
        readers.check_inspection, (), change.mutate_card, seeds.cards, seeds.published_cards
    ),
    "source": Target(readers.check_source, (BuildRefused,), change.mutate_lines, seeds.sources),
}
