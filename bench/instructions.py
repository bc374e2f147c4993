"""Count the processor's instructions, which no other tenant of the machine changes.

``python bench/instructions.py`` verifies a card of 2 KB with one signature so often, and once more
as often again, each in a Python of its own under callgrind (Debian's valgrind). The difference is
what the work costs without the start. It is printed as a multiple of one bare verification.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_FEW: Final = 20
_MANY: Final = 120
_TOTAL: Final = re.compile(r"^(?:summary|totals): ([0-9]+)", re.MULTILINE)


def works() -> dict[str, Callable[[], object]]:
    """What is counted, by name; the keys are made outside of the count."""
    from documents import PARTED, portable_card

    from cardsign import JwkSet, Policy, PrivateKey
    from cardsign.jose import encode
    from cardsign.sign import SigningOptions, sign_with_notes
    from cardsign.trust import Holder
    from cardsign.verify import examine_card, trusted_card

    key = PrivateKey.generate("ES256")
    policy, now = Policy.from_jwks(JwkSet.of([key.public]), name="bench"), datetime.now(UTC)
    bare = SigningOptions(compat="none")

    def verifying(card: bytes, options: SigningOptions) -> Callable[[], object]:
        signed = sign_with_notes(card, [key], options).document
        return lambda: trusted_card(examine_card(signed, expect=Holder(), policy=policy, now=now))

    signing_input = b"x." + encode(portable_card()).encode()
    signature = key.sign(signing_input)
    return {
        "bare": lambda: key.public.check(signing_input, signature),
        "2 KB": verifying(portable_card(), bare),
        "10 KB": verifying(portable_card(skills=40), bare),
        "100 KB": verifying(portable_card(skills=400), bare),
        "parted": verifying(PARTED.read_bytes(), SigningOptions()),
    }


def instructions(name: str, times: int) -> int:
    """How many a Python takes that does one work so many times, its start included."""
    with TemporaryDirectory(prefix="cardsign-bench-") as folder:
        out = Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable]
        subprocess.run(
            [*command, __file__, name, str(times)],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        found = _TOTAL.search(out.read_text())
    assert found is not None
    return int(found[1])


def main(arguments: list[str]) -> int:
    """Do a work so many times; or count those named, or all."""
    if len(arguments) == 2 and arguments[1].isdecimal():
        work = works()[arguments[0]]
        for _ in range(int(arguments[1])):
            work()
        return 0
    counted: dict[str, float] = {}
    for name in arguments or list(works()):
        few, many = (instructions(name, times) for times in (_FEW, _MANY))
        counted[name] = (many - few) / (_MANY - _FEW)
        against = f", {counted[name] / counted['bare']:.2f} x bare" if "bare" in counted else ""
        print(f"{name}: {counted[name] / 1e6:.3f} million instructions{against}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
