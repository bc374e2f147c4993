"""docs/reports/performance.md, and the same tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from textwrap import fill
from typing import Any, Final

from batch import ONE, SDK_LOOP, TWO
from canonical import DEFINITION
from documents import LARGE, MIDDLE, SMALL, THREE
from measuring import CARDSIGN, FAST, figure
from peers import COLD, ONE_BY_ONE, SIDE_BY_SIDE, WARM
from policies import HISTORY, ISSUERS, KEYS, PINNED, REMEMBERED
from serving import AGENTS, JWT, NGINX, PUBLIC, TOKEN
from signatures import AGAIN, ALONE, BARE, BY_HAND, NONE, SDK
from startup import HELP, PASS, SDK_SCRIPT, VERIFY

Found = Mapping[str, Any]

_STRICT: Final = (
    "all that is not the primitive is 0.8 of a bare verification by instructions, but 1.5 by time: "
    "in turn with the primitive, each finds the processor's caches full of the other"
)

#: How many times as fast as the a2a-sdk a card of one signature is verified.
_VERIFY: Final = tuple(
    (
        f"verify {size}, one signature, times as fast as a2a-sdk{orjson}",
        ("verify", size),
        f"{SDK}{ALONE}",
        f"{name}{ALONE}",
        wanted,
        _STRICT if (name, size) == (CARDSIGN, SMALL) else "the same",
    )
    for name, orjson, goals in ((CARDSIGN, "", (4.5, 7, 9)), (FAST, ", with orjson", (5, 9, 12)))
    for size, wanted in zip((SMALL, MIDDLE, LARGE), goals, strict=True)
)

#: Of each goal: what is compared, where it stands in the numbers, what was wanted of it, and what
#: stands in the way where it is missed.
GOALS: Final[tuple[tuple[str, tuple[str, ...], str, str, float, str], ...]] = (
    # what, in which table, who, against whom, wanted (at least, or at most as a negative), limit
    *_VERIFY,
    (
        "verify 2 KB as signed by default, times as fast as a2a-sdk",
        ("verify", SMALL),
        SDK,
        CARDSIGN,
        4.5,
        "the same",
    ),
    (
        "verify 3.5 KB where readings part, three signatures, likewise",
        ("verify", THREE),
        SDK,
        CARDSIGN,
        2.5,
        "one signature is checked; the rest is strict reading and the search for a name that is "
        "spelt in two ways",
    ),
    (
        "the same bytes again, 2 KB, in bare verifications",
        ("verify", SMALL),
        AGAIN,
        BARE,
        -0.3,
        "digest, lookup of the policy, and times",
    ),
    (
        "sign 2 KB, `--compat none`, times as fast as a2a-sdk",
        ("sign", SMALL),
        SDK,
        NONE,
        3,
        "the outsider's check: a bare verification takes as long as two bare signatures, so the "
        "primitives are half of all instructions",
    ),
    (
        "sign 100 KB, likewise",
        ("sign", LARGE),
        SDK,
        NONE,
        6,
        "one strict parse, one proof that all readings agree, and the outsider's check",
    ),
    (
        "sign RS256, `--compat none`, in bare signatures",
        ("rsa",),
        NONE,
        BARE,
        -1.4,
        "the other work costs the same as with ES256: 0.3 ms, a seventh of it the outsider's "
        "check, a quarter the types and REQUIRED members of the card",
    ),
    (
        "RFC 8785, 2 KB, times as fast as rfc8785",
        ("canonicalize", "2 KB"),
        DEFINITION,
        CARDSIGN,
        3,
        "",
    ),
    ("the same, 100 KB", ("canonicalize", "100 KB"), DEFINITION, CARDSIGN, 3, ""),
    ("with orjson, 2 KB", ("canonicalize", "2 KB"), DEFINITION, FAST, 5.5, ""),
    ("with orjson, 100 KB", ("canonicalize", "100 KB"), DEFINITION, FAST, 9, ""),
    ("keyset and release remembered, in pinned keys", ("policies",), REMEMBERED, PINNED, -1.3, ""),
    ("with 500 keysets of history", ("policies",), HISTORY.format(500), PINNED, -1.4, ""),
    ("with 1,000 issuers", ("policies",), ISSUERS.format("1,000"), PINNED, -1.1, ""),
    ("with 1,000 keys", ("policies",), KEYS.format("1,000"), PINNED, -1.1, ""),
    ("`cardsign --help`, in starts of Python", ("start", "cpu"), HELP, PASS, -5.5, ""),
    ("`cardsign verify FILE`, likewise", ("start", "cpu"), VERIFY, PASS, -14, ""),
    ("the same against an a2a-sdk script", ("start", "cpu"), VERIFY, SDK_SCRIPT, -0.45, ""),
    (
        "a folder on two cores, times as fast as an a2a-sdk loop",
        ("batch",),
        SDK_LOOP,
        TWO,
        7,
        "each card is verified, as the first row has it; finding, opening and telling of a file "
        "is a fifth of it",
    ),
    (
        "what the second core brings to it",
        ("batch",),
        ONE,
        TWO,
        1.8,
        "one process starts alone, finds the cards, hands them out and prints what came of them",
    ),
    (
        "serve the public card, in requests/s of nginx",
        ("serving", "wall"),
        NGINX,
        PUBLIC,
        0.75,
        "most of it is granian's own: see its constant in the table below",
    ),
    (
        "the same, CPU of a request, in nginx's",
        ("serving", "cpu"),
        PUBLIC,
        NGINX,
        -1.7,
        "the same",
    ),
    (
        "the extended card by a static token, in requests/s of the public one",
        ("serving", "wall"),
        PUBLIC,
        TOKEN,
        0.5,
        "the caller is checked anew each time",
    ),
    (
        "by a JWT that was seen before, likewise",
        ("serving", "wall"),
        PUBLIC,
        JWT,
        0.3,
        "the same, and the digest and the times of the token",
    ),
    ("200 peers, side by side against one by one", ("many",), ONE_BY_ONE, SIDE_BY_SIDE, 8, ""),
)
#: The rows of the table of verification.
_VERIFIERS: Final = (
    BARE,
    *(f"{name}{plan}" for plan in ("", ALONE) for name in (CARDSIGN, FAST, SDK)),
    AGAIN,
    BY_HAND,
)
#: MiB of a process that serves 1,000 agents.
MOST_MEMORY: Final = 120
#: A hostile card of 256 KiB, in bare verifications.
MOST_HOSTILE: Final = 3_000

_WIDTH: Final = 100  # columns of prose

_PAGE: Final = """# Performance

Written by `make bench T="--page"`; every number in full: [performance.json](performance.json). Run
it on your machine. What is compared takes turns: A B C A B C. Only ratios are given: of the medians
of all rounds, then the least and the most of any round. Every verdict in it was `trusted`, and
every verifier first had to refuse a changed card. No time fails a test.

{machine}

## Goals

What was wanted before the work began, and what this run measured. The last column says what stands
in the way where a goal is missed, as it was measured.

{goals}

## Verifying a card

From the bytes of a card to a verdict, with pinned keys and nothing fetched, ES256; CPU time.

{verify}

What they look at is not the same. The bare primitive hashes the payload and checks one signature.
By hand, ten lines check that some signature fits the card as it stands. The a2a-sdk checks that
one fits what its own reading keeps of the card, which may lack what you see. cardsign refuses what
can be read in two ways, asks which readings a signature covers and what it leaves open, and
holds the endpoints against the policy. The last signature over the whole card decides; the others
are checked for a report of the card (`examine_card`, `cardsign verify`).

Cards are signed as `cardsign sign` does by default. Where readings agree that is one signature, and
one more for an old SDK. The a2a-sdk tries that one first and then the other. "One signature" means
a card that was signed with `--compat none`; the a2a-sdk refuses it where readings part.
`cardsign[fast]` has orjson. All else on this page that verifies or signs one card has none;
commands, folders and policies have it.

Bytes that were trusted before are not checked again while the verdict holds ("the same bytes
again"): for the same subject, policy and statements, never for the same bytes alone. Each caller
who asks for the card gets one of their own, parsed anew, so that none can change another's.

## Policies

The same card under other policies, in multiples of pinned keys. Every issuer is remembered
before, and no verdict is kept.

{policies}

What a policy and its memory come to is resolved once. It is used again for the same policy,
memory and supplied statements until the next time at which a statement or a key begins or ends.

What grows, and what does not, in bare verifications; the figures are in performance.json:

![The cost of a verdict by the size of a card, its signatures, the keys of a set and the issuers of
a policy](performance.svg)

## Canonical JSON

From a parsed card to its RFC 8785 bytes. The bytes are those of rfc8785, which writes wherever
nothing proves that an encoder writes the same. The extra `fast` is orjson.

{canonicalize}

## Signing a card

From the bytes of a card to those of the signed one, ES256, key in memory; CPU time.

{sign}

cardsign signs each distinct reading, and verifies what it has signed as an outsider would. It reads
its own output anew unless the bytes are those that were given, with signatures put in at the end:
then what a reader reads is known. `--compat none` signs the card as it stands, as the others do.
A verification alone costs {floor} bare signatures at 2 KB. The notes about what each SDK will say
are made when they are asked for.

{rsa}

## A folder of cards

{batch_count} cards of 2 KB in a folder, from the start of the command to its end, on the wall.

{batch}

## Hostile cards

Cards of 256 KiB with 16 signatures by a known key over something else, of the shapes that cost
most: the worst of {shapes}. A card of more than 10,000 values is refused before any payload is
made of it, so none of these has more. CPU time, the least of three.

{hostile}

## Starting

From nothing to the end of the process; the second start, so nothing is compiled. In multiples of
`python -c pass`.

{start}

## Serving

One process of `cardsign serve` beside one of nginx, over loopback, asked by `wrk` through 8
connections that stay open; a card of 2 KB. CPU is that of the server's processes.

{serving}

{building}## Meeting a peer again

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

One thread spends its time waiting, {threads} spend it computing, in one
process.
"""


_MANIFESTS: Final = """## Linting, building, comparing

CPU time. The corpus holds real cards. The files and the two cards are made; every field of the
one card has another type in the other.

{table}

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
        building=_building(found),
        machine=fill(machine, _WIDTH),
        peers=about["peers"],
        threads=about["threads"],
        delay=f"{about['delay'] * 1000:g}",
        requests=sum(first["requests"].values()),
        checks=first["checks"],
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
        "goals": list(_goals(found)),
        "verify": list(_beside(found, "verify", _VERIFIERS)),
        "policies": list(_policies(found["policies"])),
        "canonicalize": list(_canonicalized(found["canonicalize"])),
        "sign": list(_beside(found, "sign", (BARE, CARDSIGN, NONE, BY_HAND, SDK))),
        "rsa": list(_rsa(found["rsa"])),
        "batch": list(_batch(found["batch"])),
        "hostile": list(_hostile(found["hostile"])),
        "start": list(_start(found["start"])),
        "serving": list(_serving(found["serving"])),
        "manifests": list(_manifests(found.get("manifests", {}))),
        "costs": list(_costs(found["costs"])),
        "again": list(_again(found["again"])),
        "many": list(_many(found["many"])),
    }


def _goals(found: Found) -> Iterator[str]:
    yield from _header("goal", "wanted", "measured", "what stands in the way")
    for what, (table, *below), who, to, wanted, limit in GOALS:
        times = found[table]
        for name in below:
            times = times.get(name, {})
        if who in times and to in times:
            measured = median(times[who]["seconds"]) / median(times[to]["seconds"])
            yield _goal(what, measured, wanted, limit)
    worst = max(_in_bare(found["hostile"], "verify").values())
    hostile = "verify a hostile card of 256 KiB, in bare verifications"
    limit = (
        "a card of 10,000 values, each of which every reading looks at; 2,200 where nothing else "
        "runs on the machine"
    )
    yield _goal(hostile, round(worst, -2), -MOST_HOSTILE, limit)
    for what, one in found.get("manifests", {"rows": {}})["rows"].items():
        yield _goal(f"{what}, seconds", one["seconds"], -one["most"], "")
    if "agents" in found["serving"]:
        what = f"{AGENTS:,} agents in one process, MiB"
        yield _goal(what, found["serving"]["agents"], -MOST_MEMORY, "")


def _goal(what: str, measured: float, wanted: float, limit: str) -> str:
    """One row; of a negative goal its amount is wanted at most."""
    word, most = ("at least", wanted) if wanted > 0 else ("at most", -wanted)
    is_met = measured >= most if wanted > 0 else measured <= most
    return _row(
        what, f"{word} {most:,.4g}", figure(measured), "met" if is_met else limit or "missed"
    )


def _canonicalized(sizes: Found) -> Iterator[str]:
    """How many times as fast as the definition."""
    yield from _header("times as fast as rfc8785", *sizes)
    for name in (CARDSIGN, FAST):
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
        if any(name in card for card in cards.values()):
            yield _row(name, *(_multiple(card, name) for card in cards.values()))
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


def _in_bare(hostile: Found, reader: str) -> dict[str, float]:
    """What each shape costs a reader, in verifications by the primitive just before."""
    return {shape: seconds / hostile[BARE][shape] for shape, seconds in hostile[reader].items()}


def _hostile(hostile: Found) -> Iterator[str]:
    yield from _header("reader", "the worst shape", "seconds", "bare verifications")
    for reader, seconds in hostile.items():
        if reader != BARE:
            shape, worst = max(_in_bare(hostile, reader).items(), key=lambda one: one[1])
            yield _row(reader, shape, f"{seconds[shape]:.2f}", f"{round(worst, -2):,.0f}")


def _serving(serving: Found) -> Iterator[str]:
    if not serving:
        yield "Not measured: nginx or wrk was not installed."
        return
    yield from _header(
        "what is asked for", "requests/s, in nginx's", "CPU of a request, in nginx's"
    )
    for name in serving["wall"]:
        if name == NGINX:
            yield _row(name, "1", "1")
        else:
            speed = 1 / serving["wall"][name][f"x {NGINX}"]["median"]
            yield _row(name, figure(speed), _ratio(serving["cpu"][name], NGINX))


def _building(found: Found) -> str:
    """Nothing for a run before these were measured."""
    table = "\n".join(_manifests(found.get("manifests", {})))
    return _MANIFESTS.format(table=table) if table else ""


def _manifests(manifests: Found) -> Iterator[str]:
    if manifests:
        yield from _header("what", "seconds", "bare verifications")
        for what, one in manifests["rows"].items():
            times = round(one["seconds"] / manifests["bare"], -2)
            yield _row(what, f"{one['seconds']:.2f}", f"{times:,.0f}")


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


def _multiple(times: Found, name: str) -> str:
    """Of the bare primitive; a dash where it was not measured."""
    if name == BARE:
        return "1"
    return _ratio(times[name], BARE) if name in times else "-"


def _ratio(one: Found, to: str) -> str:
    numbers = one[f"x {to}"]
    return f"{figure(numbers['median'])} ({figure(numbers['least'])} to {figure(numbers['most'])})"


def _header(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|---" + "|---:" * (len(names) - 1) + "|"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
