"""Write attacks anew: `python -m tests.attack_maker [NUMBER ...]`, all of `made` without one."""

from __future__ import annotations

import sys

from tests.attack_maker.made import attacks
from tests.attack_maker.writer import document
from tests.attack_runner.corpus import CORPUS

if __name__ == "__main__":
    chosen = {int(one) for one in sys.argv[1:]}
    for attack in attacks():
        if not chosen or attack.number in chosen:
            path = CORPUS / f"{attack.name}.json"
            path.write_text(document(attack.about, attack.files), encoding="utf-8")
            print(f"{path.name}: {len(attack.cases) + len(attack.transcripts)} cases")
