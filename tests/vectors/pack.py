"""Pack the test kit: what another implementation of a verifier checks itself against.

``make testkit`` writes ``dist/cardsign-testkit-VERSION.tar.gz``: the vectors of cards and
statements, the attack corpus, and a README. The same checkout gives the same bytes.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parents[1]
#: Folders of the archive, and where their files come from.
FOLDERS: Final = {
    "cards": TESTS / "vectors" / "cards",
    "statements": TESTS / "vectors" / "statements",
    "attacks": TESTS / "attacks",
}
README: Final = TESTS / "vectors" / "KIT.md"


def members() -> dict[str, bytes]:
    """Each file of the archive by its name, in the order of names."""
    found = {
        f"{folder}/{path.name}": path.read_bytes()
        for folder, source in FOLDERS.items()
        for path in source.iterdir()
        if path.suffix in (".json", ".md")
    }
    cards = sum(name.startswith("cards/") for name in found)
    found["README.md"] = (
        README.read_text("utf-8").format(version=version("cardsign"), cards=cards).encode()
    )
    return dict(sorted(found.items()))


def archive() -> bytes:
    """The archive: gzip over tar, without the date, owner or rights of any file."""
    root = f"cardsign-testkit-{version('cardsign')}"
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, data in members().items():
            entry = tarfile.TarInfo(f"{root}/{name}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def main() -> None:
    """Write it into ``dist``."""
    target = TESTS.parent / "dist" / f"cardsign-testkit-{version('cardsign')}.tar.gz"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(archive())
    print(target.relative_to(TESTS.parent))
    print(f"{len(members())} files, {target.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
