"""Measure and print the page of the figures; with ``--page`` write docs/reports/performance.md.

``make bench``, or ``make bench T=--page``. Only this machine is asked, over 127.0.0.1. Every
verdict has to be ``trusted``, or the run fails; how fast anything was fails nothing. The whole of
it takes about three minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Final

from cards import measure_cards, official_sdk
from hostile import measure_hostile
from measuring import Broken
from peers import measure_peers
from policies import measure_policies
from serving import measure_serving
from starting import measure_commands
from stores import measure_stores

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "reports" / "performance.md"

_TEXT: Final = """# Performance

`make bench T=--page` writes this page. What is compared takes turns: A B C A B C. Only ratios are
given, of the least time of all rounds. Every verdict was `trusted`, and every verifier first had to
refuse a changed card.

{machine}

## Verifying a card

From the bytes of a card to a verdict, with pinned keys and nothing fetched, ES256; CPU time.

{verify}

They do not check the same. The bare primitive hashes the payload and checks one signature. By
hand, ten lines check that some signature fits the card as it stands. The a2a-sdk checks that one
fits what its own reading keeps of the card. cardsign also refuses what can be read in two ways,
lists what a signature leaves open, and compares the endpoints with the policy.

Cards are signed as `cardsign sign` does by default. "One signature" means `--compat none`; the
a2a-sdk refuses that where readings part.

## Policies

The same card under other policies. The statements are cached, and no verdict is.

{policies}

## Canonical JSON

From the bytes of a card to those of a payload, by profile; CPU time. rfc8785 writes all of them.

{canonicalize}

## Signing a card

From the bytes of a card to those of the signed one, ES256, key in memory; CPU time.

{sign}

cardsign signs each distinct reading, and verifies what it has signed as an outsider would.

## A folder of cards

Cards of 2 KB in a folder, from the start of the command to its end, on the wall.

{batch}

## A key store of ten years

A publication and a release each day, and new keys each two months. Each command that opens a key
store reads its log.

{stores}

## Hostile cards

Cards of 256 KiB with 16 signatures by a known key over something else, of the shapes that cost
most.

{hostile}

## Starting

From nothing to the end of the process, in multiples of `python -c pass`.

{start}

## Serving

One process of `cardsign serve` beside one of nginx, a view of Flask with the same headers and
`make_conditional`, and a2a-sdk's route, over loopback, asked by `wrk` through 8 connections that
stay open; a card of 4 KB. CPU is that of the server's processes.

{serving}

## Meeting a peer again

A peer with a keyset and a release, trusted by its first keyset, looked up by URL. What one check
costs:

{costs}

Statements are asked for at most every 300 seconds; what was not there is asked for again. The time
of a verification when the card is stale, with answers that take 50 ms:

{again}

## Meeting many peers

Each peer has an origin, keys, keyset and release of its own, and answers after 50 ms. The verifier
has met none of them, and keeps its memory on a disk.

{many}
"""


def measure(quick: bool) -> dict[str, str]:
    """Return all tables by name, and what they were measured on."""
    rounds = 3 if quick else 15
    tables: dict[str, str] = {}
    with official_sdk() as sdk:
        sdk_version = sdk.ask(do="version") if sdk is not None else ""
        say("cards")
        tables |= measure_cards(sdk, rounds)
    say("policies")
    tables |= measure_policies(rounds)
    say("hostile cards")
    tables |= measure_hostile()
    with TemporaryDirectory(prefix="cardsign-bench-") as folder:
        say("commands")
        tables |= measure_commands(Path(folder), 500 if quick else 5_000, rounds)
        say("stores")
        tables |= measure_stores(Path(folder), 3)
        say("serving")
        tables |= measure_serving(Path(folder), *((1, 1) if quick else (5, 2)))
    say("peers")
    tables |= measure_peers(20 if quick else 200, 1 if quick else 3)
    return {**tables, "machine": fill(_machine(rounds, sdk_version), 100)}


def _machine(rounds: int, sdk_version: str) -> str:
    names = ("cardsign", "cryptography", "joserfc", "rfc8785")
    software = [f"{name} {version(name)}" for name in names]
    software.append(f"a2a-sdk {sdk_version}" if sdk_version else "no a2a-sdk (make tools)")
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return (
        f"This page is from {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, {python}, "
        f"{rounds} rounds; {', '.join(software)}."
    )


def say(what: str) -> None:
    """Talk, on stderr."""
    print(f"{what} ...", file=sys.stderr, flush=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", action="store_true", help="write docs/reports/performance.md")
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it runs")
    options = parser.parse_args()
    try:
        page = _TEXT.format(**measure(options.quick))
    except Broken as broken:
        print(f"bench: {broken}", file=sys.stderr)
        return 1
    if options.page:
        PAGE.write_text(page, encoding="utf-8")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
