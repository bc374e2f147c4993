"""docs/reports/performance.md, and the same tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from textwrap import fill
from typing import Any, Final

from batch import ONE
from canonical import DEFINITION, FAST, PLAIN
from measuring import figure
from peers import COLD, ONE_BY_ONE, SIDE_BY_SIDE, WARM
from policies import PINNED
from signatures import AGAIN, BARE, BY_HAND, CARDSIGN, NONE, SDK
from startup import PASS

Found = Mapping[str, Any]

#: What 200 peers with 50 ms each were to gain at least by being met side by side.
GOAL: Final = 8

_WIDTH: Final = 100  # columns of prose

_PAGE: Final = """# Performance

Written by `make bench T="--page"`; every number in full: [performance.json](performance.json). Run
it on your machine: what is compared takes turns, A B C A B C, and only ratios are given, of the
medians of all rounds, behind them the least and the most of any single round. Every verdict in it
was `trusted`, every verifier first had to refuse a changed card, and no time fails a test.

{machine}

## Verifying a card

From the bytes of a card to a verdict, with pinned keys and nothing fetched, ES256; CPU time.

{verify}

What they look at is not the same. The bare primitive hashes the payload and checks one signature.
By hand, ten lines check that some signature fits the card as it stands. The a2a-sdk checks that
one fits what its own reading keeps of the card, which may lack what you see. cardsign refuses what
can be read in two ways, asks of every signature which readings it covers and what it leaves open,
holds the endpoints against the policy, and gives the reasons.

Bytes that were trusted before are not checked again while the verdict holds ("the same bytes
again"): for the same subject, policy and statements, never for the same bytes alone. Each caller
gets a card of their own, parsed anew, so that none can change another's. The goal was 0.3 at 2 KB;
the digest, the policy's lookup, the time checks and that parse are what is left.

## Policies

The same card under other policies, in multiples of pinned keys. Every issuer is remembered
before, and no verdict is kept.

{policies}

What a policy and its memory come to is resolved once. It is used again for the same policy,
memory and supplied statements until the next time at which a statement or a key begins or ends.

## Canonical JSON

From a parsed card to its RFC 8785 bytes. The bytes are those of rfc8785, which writes wherever
nothing proves that an encoder writes the same. The extra `fast` is orjson.

{canonicalize}

## Signing a card

From the bytes of a card to those of the signed one, ES256, key in memory; CPU time.

{sign}

cardsign signs each distinct reading, reads what it has signed, and verifies it as an outsider
would. `--compat none` signs the card as it stands, as the others do. The goal beside the a2a-sdk
was 3 times at 2 KB and 6 times for larger cards. The outsider's check is one whole verification,
which alone costs {floor} bare signatures at 2 KB: as long as it stays, signing cannot be faster
than that and the signature. The rest is the first reading and the notes about what each SDK will
say, which the a2a-sdk does not give.

{rsa}

## A folder of cards

{batch_count} cards of 2 KB in a folder, from the start of the command to its end, on the wall.

{batch}

## Hostile cards

Cards of 256 KiB with 16 signatures by a known key over something else, of the shapes that cost
most: the worst of {shapes}. A card of more than 10,000 values is refused before any payload is
made of it, so none of these has more. CPU time.

{hostile}

## Starting

From nothing to the end of the process; the second start, so nothing is compiled. In multiples of
`python -c pass`.

{start}

## Meeting a peer again

A peer with a keyset and a release, trusted by its first keyset, looked up by URL. What one check
costs:

{costs}

So an unchanged peer is one conditional request and no signature check, and any other count fails
the run. Statements are asked for at most every 300 seconds; what was not there is asked for again.
The time of a verification when the card is stale:

{again}

## Meeting many peers

{peers} peers on this machine, each with an origin, keys, keyset and release of its own; every
answer is delayed by {delay} ms. The verifier has met none of them, and keeps its memory on a disk.
Each peer is {requests} requests, one after the other, and {checks} signatures. {threads} threads,
as many as `cardsign peers verify` has, against one:

{many}

The goal was {goal} times. One thread spends its time waiting, {threads} spend it computing, in one
process.
"""


def page_of(found: Found) -> str:
    """The page."""
    about, first = found["about"], found["costs"][COLD]
    software = ", ".join(f"{name} {version}" for name, version in about["software"].items())
    machine = f"This page is from {about['date']}: {about['cores']} cores, {about['python']}, "
    machine += f"{about['rounds']} rounds; {software}."
    if SDK not in next(iter(found["verify"].values())):
        machine += " The a2a-sdk was not installed: `make interop-env`."
    machine += f" {about['note']}" if "note" in about else ""
    return _PAGE.format(
        **{name: "\n".join(table) for name, table in _tables(found).items()},
        machine=fill(machine, _WIDTH),
        peers=about["peers"],
        threads=about["threads"],
        delay=f"{about['delay'] * 1000:g}",
        requests=sum(first["requests"].values()),
        checks=first["checks"],
        goal=GOAL,
        floor=figure(_floor(found)),
        batch_count=f"{about['batch']:,}",
        shapes=len(found["hostile"]["verify"]),
    )


def _floor(found: Found) -> float:
    """A verification in bare signatures, of the smallest card."""
    name = next(iter(found["verify"]))
    whole, bare = (found[what][name][who] for what, who in (("verify", CARDSIGN), ("sign", BARE)))
    return median(whole["seconds"]) / median(bare["seconds"])


def tables(found: Found) -> Iterator[str]:
    """All tables, for a terminal."""
    about = found["about"]
    yield f"{about['cores']} cores, {about['python']}, {about['rounds']} rounds"
    for name, table in _tables(found).items():
        yield from ("", f"# {name}", *table)


def _tables(found: Found) -> dict[str, list[str]]:
    return {
        "verify": list(_beside(found, "verify", (BARE, CARDSIGN, AGAIN, BY_HAND, SDK))),
        "policies": list(_policies(found["policies"])),
        "canonicalize": list(_canonicalized(found["canonicalize"])),
        "sign": list(_beside(found, "sign", (BARE, CARDSIGN, NONE, BY_HAND, SDK))),
        "rsa": list(_rsa(found["rsa"])),
        "batch": list(_batch(found["batch"])),
        "hostile": list(_hostile(found["hostile"])),
        "start": list(_start(found["start"])),
        "costs": list(_costs(found["costs"])),
        "again": list(_again(found["again"])),
        "many": list(_many(found["many"])),
    }


def _canonicalized(sizes: Found) -> Iterator[str]:
    """How many times as fast as the definition."""
    yield from _header("times as fast as rfc8785", *sizes)
    for name in (PLAIN, FAST):
        if all(name in times for times in sizes.values()):
            medians = [1 / times[name][f"x {DEFINITION}"]["median"] for times in sizes.values()]
            yield _row(name, *map(figure, medians))


def _rsa(times: Found) -> Iterator[str]:
    yield from _header("RS256, 3072 bits, 2 KB", "times the bare primitive")
    for name in (CARDSIGN, NONE):
        yield _row(name, _ratio(times[name], BARE))


def _beside(found: Found, what: str, names: Iterable[str]) -> Iterator[str]:
    """In multiples of the bare primitive."""
    cards = found[what]
    yield from _header("times the bare primitive", *cards)
    for name in names:
        if all(name in card for card in cards.values()):
            cells = ["1" if name == BARE else _ratio(card[name], BARE) for card in cards.values()]
            yield _row(name, *cells)
    if all(SDK in card for card in cards.values()):
        cells = [_ratio(card[SDK], CARDSIGN) for card in cards.values()]
        yield _row("*a2a-sdk, times cardsign*", *cells)


def _policies(policies: Found) -> Iterator[str]:
    yield from _header("policy", "times pinned keys")
    for name, times in policies.items():
        yield _row(name, "1" if name == PINNED else _ratio(times, PINNED))


def _start(start: Found) -> Iterator[str]:
    yield from _header("command", "on the wall", "CPU")
    for name in start["wall"]:
        both = (start[clock][name] for clock in ("wall", "cpu"))
        yield _row(name, *("1" if name == PASS else _ratio(one, PASS) for one in both))


def _batch(batch: Found) -> Iterator[str]:
    yield from _header("how", "times one process of cardsign")
    for name, times in batch.items():
        yield _row(name, "1" if name == ONE else _ratio(times, ONE))


def _hostile(hostile: Found) -> Iterator[str]:
    yield from _header("reader", "the worst shape", "seconds", "bare verifications")
    for reader, seconds in hostile.items():
        if reader != BARE:
            shape, worst = max(seconds.items(), key=lambda one: one[1])
            bare = hostile[BARE]["ES256"]
            yield _row(reader, shape, f"{worst:.2f}", f"{round(worst / bare, -2):,.0f}")


def _costs(costs: Found) -> Iterator[str]:
    yield from _header("when", "requests", "signatures checked")
    for when, cost in costs.items():
        asked = ", ".join(
            f"{count} answered {status}" for status, count in sorted(cost["requests"].items())
        )
        yield _row(when, asked or "none", str(cost["checks"]))


def _again(again: Found) -> Iterator[str]:
    yield from _header("each answer delayed by", "again, unchanged, in multiples of the first time")
    for delay, times in again.items():
        yield _row(f"{float(delay) * 1000:g} ms", _ratio(times[WARM], COLD))


def _many(many: Found) -> Iterator[str]:
    yield from _header("how", "times as fast")
    yield _row(ONE_BY_ONE, "1")
    yield _row(SIDE_BY_SIDE, _ratio(many[ONE_BY_ONE], SIDE_BY_SIDE))


def _ratio(one: Found, to: str) -> str:
    numbers = one[f"x {to}"]
    return f"{figure(numbers['median'])} ({figure(numbers['least'])} to {figure(numbers['most'])})"


def _header(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|---" + "|---:" * (len(names) - 1) + "|"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
