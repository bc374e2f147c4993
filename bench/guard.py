"""Count the instructions of verifying, signing and starting; fail where one grew by over 5 %.

``make guard`` holds them against bench/guard.json, ``make guard T=--write``
writes that file anew. Valgrind counts instructions, so a busy machine changes nothing. The counts
belong to one version of Python, of cryptography and of the machine; elsewhere they are only shown.
Without valgrind nothing is measured, which fails where CARDSIGN_CI is set.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
BASELINE: Final = HERE / "guard.json"
MOST: Final = 1.05
#: How many cards there are; no two are the same, and each is verified or signed once.
TIMES: Final = 10
#: What needs no new card is done more often: a start of Python is not the same to 0.02 %, and
#: that difference must stay small beside the work.
REPEATED: Final = {"bare check": 50, "verify again": 300}
#: A piece of work that ends with this is done with orjson, all others without.
FAST: Final = ", fast"
PIECES: Final = (
    "bare check",
    "verify",
    f"verify{FAST}",
    "verify three",
    "verify again",
    "sign",
    f"sign{FAST}",
)
COMMAND: Final = "cardsign verify FILE --jwks JWKS"
VALGRIND: Final = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=")
NOW: Final = datetime(2026, 11, 1, tzinfo=UTC)


def main() -> int:
    """Count, show, and compare or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write bench/guard.json")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.work)
        return 0
    if shutil.which("valgrind") is None:
        print("instructions are not counted: install valgrind")
        return 1 if os.environ.get("CARDSIGN_CI") else 0
    found = {"where": where(), "instructions": measured()}
    if options.write:
        BASELINE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return compare(found, json.loads(BASELINE.read_text(encoding="utf-8")))


def where() -> dict[str, str]:
    """What the counts depend on besides cardsign."""
    return {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cryptography": version("cryptography"),
        "orjson": version("orjson"),
    }


def measured() -> dict[str, int]:
    """Instructions of a bare check, verifications, a signature, and of a whole command."""
    script = [str(Path(__file__).resolve()), "--work"]
    idle = {end: counted([*script, f"nothing{end}"]) for end in ("", FAST)}
    found = {
        name: (counted([*script, name]) - idle[FAST if name.endswith(FAST) else ""])
        // REPEATED.get(name, TIMES)
        for name in PIECES
    }
    with tempfile.TemporaryDirectory() as folder:
        card, jwks = Path(folder, "card.json"), Path(folder, "jwks.json")
        subprocess.run([sys.executable, *script, f"{card} {jwks}"], check=True)
        command = ["-m", "cardsign", "verify", str(card), "--jwks", str(jwks)]
        found[COMMAND] = counted(command)
    return found


def counted(arguments: list[str]) -> int:
    """Instructions of a Python that does this, after one that has compiled what it imports."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE.parent)}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *arguments]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, cwd=folder)
        ended = subprocess.run(
            [*VALGRIND[:-1], VALGRIND[-1] + "/dev/null", *command],
            check=True,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
    told = re.search(r"I\s+refs:\s+([\d,]+)", ended.stderr)
    assert told is not None, ended.stderr
    return int(told[1].replace(",", ""))


def compare(found: dict[str, Any], held: dict[str, Any]) -> int:
    """Print both; 1 where one grew by too much, or stands in one of the two alone."""
    grown = False
    comparable = found["where"] == held["where"]
    counts, baselines = found["instructions"], held["instructions"]
    for name, count in counts.items():
        before = baselines.get(name)
        change = f"{100 * (count / before - 1):+.1f} %" if before else "no baseline"
        print(f"{count / 1e6:10.2f} million  {name}  ({change})")
        grown |= comparable and before is not None and count > MOST * before
    if not comparable:
        print(f"not compared: counted with {found['where']}, the baseline with {held['where']}")
    elif grown:
        print("more than 5 % above bench/guard.json: find out why before you write it anew")
    if unpaired := counts.keys() ^ baselines.keys():
        print(f"measured or held, not both: {', '.join(sorted(unpaired))}; make guard T=--write")
    return 1 if grown or unpaired else 0


def work(what: str) -> None:
    """In a process of its own: the same preparation, and then one kind of work or none."""
    # Signatures are random: without this, so would be the number of collections before the count.
    gc.disable()
    if not what.endswith(FAST):
        sys.modules["orjson"] = None  # type: ignore[assignment]  # so it cannot be imported
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from documents import PARTED, portable_card

    from cardsign import JwkSet, Policy, PrivateKey, sign_card
    from cardsign.trust import Holder
    from cardsign.verify import VerdictCache, reach_verdict, trusted_card

    native = ec.derive_private_key(
        int.from_bytes(hashlib.sha256(b"a key of the benchmark").digest()), ec.SECP256R1()
    )
    der = native.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    key = PrivateKey.from_pkcs8_der(der, kid="bench")
    policy = Policy.from_jwks(JwkSet.of([key.public]), name="bench")
    cards = [
        portable_card().replace(b'"2.0.0"', f'"2.{number:03}.0"'.encode())
        for number in range(TIMES + 1)
    ]
    signed = [sign_card(card, [key], compat="none") for card in cards]
    parted = [
        sign_card(PARTED.read_bytes().replace(b'"2.3.0"', f'"2.3.{number}"'.encode()), [key])
        for number in range(TIMES + 1)
    ]
    seen = VerdictCache()
    if what.endswith(".json"):
        card_file, jwks_file = map(Path, what.split(" "))
        card_file.write_bytes(signed[0])
        jwks_file.write_bytes(JwkSet.of([key.public]).to_bytes())
        return

    def verify(card: bytes, cache: VerdictCache | None = None) -> None:
        given = {"expect": Holder(), "policy": policy, "now": NOW, "cache": cache}
        trusted_card(reach_verdict(card, **given, stop_early=True))

    signing_input = b"x." + signed[0]
    signature = key.sign(signing_input)
    key.public.check(signing_input, signature)
    for card in (signed[0], parted[0]):  # what is done once in a process
        verify(card)
    for _ in range(2):
        verify(signed[0], seen)
    gc.collect()
    gc.enable()
    for _ in range(REPEATED.get(what, 0)):
        if what == "bare check":
            key.public.check(signing_input, signature)
        else:
            verify(signed[0], seen)
    for number in range(1, TIMES + 1):
        if what.removesuffix(FAST) == "verify":
            verify(signed[number])
        elif what == "verify three":
            verify(parted[number])
        elif what.removesuffix(FAST) == "sign":
            sign_card(cards[number], [key])


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    sys.exit(main())
