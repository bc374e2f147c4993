"""Write tests/attacks anew: `python tests/attack_maker [GROUP ...] [NUMBER ...]`.

Without a group all are made, without a number all that were made are written.

Keys are made here and forgotten, so every run changes every signature; the expectations are
declared by hand in the groups, never taken from a run of the verifier.
"""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS.parent), str(Path(__file__).resolve().parent)]

import algorithms  # noqa: E402
import caching  # noqa: E402
import certificates  # noqa: E402
import challenges  # noqa: E402
import clock  # noqa: E402
import contents  # noqa: E402
import current  # noqa: E402
import endless  # noqa: E402
import envelopes  # noqa: E402
import extended  # noqa: E402
import extended_marks  # noqa: E402
import foreign_keys  # noqa: E402
import headers  # noqa: E402
import hints  # noqa: E402
import holders  # noqa: E402
import json_texts  # noqa: E402
import key_names  # noqa: E402
import key_sets  # noqa: E402
import lifetimes  # noqa: E402
import links  # noqa: E402
import live_clocks  # noqa: E402
import members  # noqa: E402
import memory  # noqa: E402
import missing  # noqa: E402
import naive  # noqa: E402
import pins  # noqa: E402
import places  # noqa: E402
import recovery  # noqa: E402
import release_rights  # noqa: E402
import releases  # noqa: E402
import replies  # noqa: E402
import rsa_keys  # noqa: E402
import sequence  # noqa: E402
import several  # noqa: E402
import signatures  # noqa: E402
import sources  # noqa: E402
import spellings  # noqa: E402
import storm  # noqa: E402
import strangers  # noqa: E402
import thresholds  # noqa: E402
import tofu  # noqa: E402
import uncovered  # noqa: E402
from corpus import Corpus  # noqa: E402

#: A group registers its attacks with a Corpus; a new one is entered here.
GROUPS = (
    algorithms,
    headers,
    signatures,
    rsa_keys,
    key_sets,
    key_names,
    hints,
    several,
    json_texts,
    contents,
    places,
    uncovered,
    naive,
    envelopes,
    members,
    sequence,
    thresholds,
    links,
    pins,
    foreign_keys,
    lifetimes,
    recovery,
    current,
    release_rights,
    releases,
    sources,
    clock,
    memory,
    missing,
    tofu,
    holders,
    extended,
    extended_marks,
    strangers,
    spellings,
    replies,
    endless,
    certificates,
    storm,
    caching,
    live_clocks,
    challenges,
)


def main() -> None:
    """Make groups, write attacks."""
    named = sys.argv[1:]
    corpus = Corpus()
    for group in [one for one in GROUPS if one.__name__ in named] or GROUPS:
        group.build(corpus)
    chosen = {int(one) for one in named if one.isdigit()} or set(corpus.attacks)
    corpus.attacks = {n: attack for n, attack in corpus.attacks.items() if n in chosen}
    corpus.write(TESTS / "attacks")
    cases = sum(len(attack.cases) for attack in corpus.attacks.values())
    print(f"{len(corpus.attacks)} attacks, {cases} cases")


if __name__ == "__main__":
    main()
