"""Pages and help have short sentences and none of the words that the glossary replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

LONGEST = 25  # words of a sentence; a colon or a semicolon ends one too
ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *(
        page
        for folder in ("guides", "concepts", "contributing")
        for page in sorted((ROOT / "docs" / folder).glob("*.md"))
    ),
]
#: What DESIGN calls riddles: a common word is there for each.
FORBIDDEN = re.compile(r"\b(mend\w*|whoever|whomever|private hal(?:f|ves))\b", re.IGNORECASE)


def prose(text: str) -> str:
    """A page without code, comments, tables and headings; a link is its text."""
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#")))
    return re.sub(r"\]\([^)]*\)", "]", text)


def sentences(text: str) -> Iterator[str]:
    """Each sentence, also of list items."""
    for paragraph in re.split(r"\n\s*\n|\n *(?=[*-] |\d+\. )", prose(text)):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split()))


def too_long(text: str) -> list[str]:
    """The sentences with too many words; a line of code alone is none."""
    return [
        one for one in sentences(text) if len(one.split()) > LONGEST and not one.startswith("`")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_are_short(page: Path) -> None:
    """At most 25 words each."""
    assert too_long(page.read_text(encoding="utf-8")) == []


def test_sentences_of_help_are_short() -> None:
    """At most 25 words each, in the text of every command and of every option."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    texts = (
        " ".join(text.split())
        for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL)
        for text in re.split(r"\n\n|\n {2,}(?=-)", block)
        if not text.startswith(("Commands:", "Usage:", "Exit status:"))
    )
    assert [one for text in texts for one in too_long(text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_words_are_common(page: Path) -> None:
    """In tables too."""
    assert FORBIDDEN.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" ".join(["word"] * 25) + ".", 0),
        (" ".join(["word"] * 26) + ".", 1),
        ("- one\n- " + " ".join(["word"] * 26), 1),
        ("| " + " ".join(["word"] * 40) + " |", 0),
        ("```text\n" + " ".join(["word"] * 40) + "\n```", 0),
        (" ".join(["word"] * 20) + ": " + " ".join(["word"] * 20), 0),
    ],
)
def test_a_long_sentence_is_seen(text: str, found: int) -> None:
    """Twenty-five words pass, twenty-six do not; tables and code are left out."""
    assert len(too_long(text)) == found
