"""Measure, print a table, and with ``--page`` write docs/reports/performance.md, .json and .svg.

``make bench``, or ``make bench T="--page"``. Only this machine is asked, over 127.0.0.1. Every
verdict has to be ``trusted`` and every count as documented, or the run fails; how fast anything
was fails nothing. The whole of it takes about three minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from batch import ONE, batch
from canonical import DEFINITION, canonicalizing
from documents import LARGE, MIDDLE, PARTED, SMALL, THREE, portable_card
from growth import drawn, growing
from hostile import MAX_CARD_BYTES, TIMES, hostile
from manifests import SKILLS, manifests
from measuring import CARDSIGN, Broken, Times, ratio
from page import page_of, tables
from peers import COLD, ONE_BY_ONE, SIDE_BY_SIDE, WARM, costs, meeting_again, meeting_many, peers
from policies import PINNED, policies
from serving import AGENTS, NGINX, memory_of_agents, serving
from signatures import BARE, NONE, Case, official_sdk, signing, signing_by_rsa, verifying
from startup import PASS, starting

from cardsign import PrivateKey
from cardsign.cli.peers import CONCURRENCY

DOCS: Final = Path(__file__).resolve().parents[1] / "docs" / "reports"
DELAY: Final = 0.05  # seconds before each answer: a peer on another continent


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All that is measured, as it goes into performance.json."""
    found: dict[str, Any] = {"about": about(options)}
    with official_sdk() as sdk:
        if sdk is not None:
            found["about"]["software"]["a2a-sdk"] = sdk.ask(do="about")["name"].split()[-1]
        for name, card in cards().items():
            case = Case(card, PrivateKey.generate("ES256"))
            say(f"verifying and signing: {name}")
            found.setdefault("cards", {})[name] = {"bytes": len(case.signed())}
            verified = verifying(case, sdk, options.rounds)
            found.setdefault("verify", {})[name] = against(verified, CARDSIGN, BARE)
            signed = signing(case, sdk, options.rounds)
            found.setdefault("sign", {})[name] = against(signed, CARDSIGN, NONE, BARE)
    say("verifying under other policies")
    found["policies"] = against(policies(options.rounds), PINNED)
    say("verifying larger cards, by larger policies")
    found["growth"] = growing(options.rounds, options.most)
    say("canonicalizing, and signing with RS256")
    found["canonicalize"] = {
        size: against(times, DEFINITION) for size, times in canonicalizing(options.rounds).items()
    }
    found["rsa"] = against(signing_by_rsa(options.rounds), BARE)
    say("starting commands")
    with TemporaryDirectory(prefix="cardsign-bench-") as folder:
        started = starting(portable_card(), Path(folder), options.rounds)
    found["start"] = {
        "wall": against(started.wall, PASS),
        "cpu": against(started.cpu, PASS),
    }
    say(f"verifying a folder of {options.batch} cards")
    with TemporaryDirectory(prefix="cardsign-bench-") as folder:
        found["batch"] = against(batch(options.batch, Path(folder), options.batch_rounds), ONE)
    say("serving")
    found["serving"] = served(options)
    say("linting, building and comparing")
    found["manifests"] = manifests(options.skills)
    say("hostile cards")
    found["hostile"] = hostile(options.hostile, min(options.rounds, TIMES))
    return {**found, **live(options)}


def served(options: argparse.Namespace) -> dict[str, Any]:
    """What is measured of `cardsign serve`; nothing without nginx and wrk."""
    with TemporaryDirectory(prefix="cardsign-bench-") as folder:
        times = serving(options.serving_rounds, options.serving_seconds, Path(folder))
        if not times:
            return {}
        agents = memory_of_agents(options.agents, Path(folder))
    return {**{clock: against(each, NGINX) for clock, each in times.items()}, "agents": agents}


def live(options: argparse.Namespace) -> dict[str, Any]:
    """What is measured with peers on sockets."""
    found: dict[str, Any] = {}
    with peers(options.peers) as world:
        say("meeting one peer again")
        found["costs"] = {what: asdict(cost) for what, cost in costs(world).items()}
        some, again = min(options.peers, 20), max(1, options.rounds // 5)
        found["again"] = {
            str(delay): against(meeting_again(world, some, delay, again), WARM, COLD)
            for delay in (options.delay, 0.0)
        }
        say(f"meeting {options.peers} peers, {options.fleet_rounds} times in each way")
        times = meeting_many(world, CONCURRENCY, options.delay, options.fleet_rounds)
        found["many"] = against(times, SIDE_BY_SIDE, ONE_BY_ONE)
    return found


def cards() -> Mapping[str, bytes]:
    """What is signed and verified."""
    return {
        SMALL: portable_card(),
        MIDDLE: portable_card(skills=33),
        LARGE: portable_card(skills=335),
        THREE: PARTED.read_bytes(),
    }


def against(times: Times, *names: str) -> dict[str, Any]:
    """Each contestant's time as a multiple of those named, and all rounds."""
    return {
        name: {
            "seconds": [float(f"{second:.4g}") for second in times[name]],
            **{f"x {to}": asdict(ratio(times, name, to)) for to in names if to != name},
        }
        for name in times
    }


def about(options: argparse.Namespace) -> dict[str, Any]:
    """The machine, as far as it matters to anybody else, and what was run."""
    software = ("cardsign", "cryptography", "joserfc", "rfc8785", "orjson", "httpcore")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "software": {name: version(name) for name in software},
        "rounds": options.rounds,
        "fleet_rounds": options.fleet_rounds,
        "peers": options.peers,
        "threads": CONCURRENCY,
        "delay": options.delay,
        "batch": options.batch,
    }


def say(what: str) -> None:
    """Talk, on stderr."""
    print(f"{what} ...", file=sys.stderr, flush=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="turns of each contestant")
    parser.add_argument("--fleet-rounds", type=int, default=2, help="of meeting all peers")
    parser.add_argument("--peers", type=int, default=200, help="how many there are")
    parser.add_argument("--delay", type=float, default=DELAY, help="seconds before each answer")
    parser.add_argument(
        "--hostile", type=int, default=MAX_CARD_BYTES, help="bytes of the hostile cards"
    )
    parser.add_argument("--batch", type=int, default=10_000, help="cards in a folder")
    parser.add_argument("--most", type=int, default=1000, help="keys and issuers of a policy")
    parser.add_argument("--batch-rounds", type=int, default=2, help="of verifying the folder")
    parser.add_argument("--serving-rounds", type=int, default=5, help="of asking each server")
    parser.add_argument("--serving-seconds", type=float, default=2.0, help="of each turn")
    parser.add_argument("--agents", type=int, default=AGENTS, help="that one process serves")
    parser.add_argument("--skills", type=int, default=SKILLS, help="SKILL.md files of a build")
    parser.add_argument("--page", action="store_true", help="write docs/reports/performance.*")
    parser.add_argument("--out", type=Path, default=DOCS, help="another folder for the page")
    options = parser.parse_args()
    try:
        found = measure(options)
    except Broken as broken:
        print(f"bench: {broken}", file=sys.stderr)
        return 1
    print("\n".join(tables(found)))
    if options.page:
        text = json.dumps(found, indent=1)
        (options.out / "performance.json").write_text(text + "\n", encoding="utf-8")
        (options.out / "performance.svg").write_text(drawn(found["growth"]), encoding="utf-8")
        (options.out / "performance.md").write_text(page_of(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
