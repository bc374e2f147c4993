"""Sources are read one way only, and every problem names its file and line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cardsign.build.reading import SourceValue, read_one, read_source
from cardsign.errors import BuildRefused
from tests.build.making import Write
from tests.support import read_cases

#: Beside `reading.json`: what is long.
LONG = [
    ("a.yaml", "a: " + "[" * 5000, 1, "nested more than"),
    ("a.yaml", f"%YAML 1.{'1' * 5000}\n---\na: b\n", 1, "too large|long version"),
]


@pytest.mark.parametrize(
    ("name", "text", "line", "words"), [*read_cases(__file__)["refused"].values(), *LONG]
)
def test_what_two_readers_could_read_differently_is_refused(
    write: Write, name: str, text: str, line: int | None, words: str
) -> None:
    """The error names the file and the line."""
    path = write(name, text)
    with pytest.raises(BuildRefused, match=words.replace("?", r"\?")) as caught:
        read_source(path)
    assert caught.value.code == ("build.unknown_source" if name == "a.ini" else "build.syntax")
    assert caught.value.path == str(path)
    assert caught.value.finding.place.line == line


def test_a_yaml_bomb_costs_nothing(write: Write) -> None:
    """The first anchor ends it."""
    bomb = "a: &a [x,x]\n" + "".join(f"b{n}: &b{n} [*a,*a]\n" for n in range(1000))
    with pytest.raises(BuildRefused, match="anchors"):
        read_source(write("bomb.yaml", bomb))


def test_scalars_are_those_of_YAML_1_2(write: Write) -> None:
    """`no` is a word, 1:30 a text, and a version keeps its zeros where a text is wanted."""
    path = write(
        "a.yaml", "a: no\nb: 1:30\nc: 1.10\nd: true\ne: ~\nf: '1'\ng: 00123456789012345678\n"
    )
    document = read_one(path)
    expected = {"a": "no", "b": "1:30", "c": 1.1, "d": True, "e": None, "f": "1"}
    assert {name: document.value[name] for name in expected} == expected
    assert document.text("c") == "1.10"
    assert document.text("g") == "00123456789012345678"


@pytest.mark.parametrize("suffix", ["yaml", "json", "toml"])
def test_every_value_has_its_line(write: Write, suffix: str) -> None:
    """Lists and objects too; what a value of TOML holds has the line of that value."""
    text = {
        "yaml": "a: 1\nb:\n  c: x\n  d:\n    - y\n    - z\n",
        "json": '{"a": 1,\n"b": {\n  "c": "x",\n  "d": [\n "y",\n "z"]}}',
        "toml": 'a = 1\n[b]\nc = "x"\nd = [\n  "y",\n  "z",\n]\n',
    }[suffix]
    document = read_one(write(f"a.{suffix}", text))
    places = [("a",), ("b", "c"), ("b", "d", 1), ("b", "d", 7)]
    lines = [document.get(*place).line for place in places]
    assert lines == [1, 3, 4 if suffix == "toml" else 6, 4]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (SourceValue.text, "a: [1]"),
        (SourceValue.texts, "a: {b: c}"),
        (lambda document, name: document.read(bool, name), "a: x"),
        (lambda document, name: [*document.rows(name)], "a: [x]"),
    ],
    ids=["text", "texts", "bool", "rows"],
)
def test_a_value_of_another_type_is_refused(
    write: Write, read: Callable[[SourceValue, str], object], text: str
) -> None:
    """With its line; an absent one is none."""
    document = read_one(write("a.yaml", f"z: 1\n{text}\n"))
    with pytest.raises(BuildRefused, match=r"a.*: expected") as caught:
        read(document, "a")
    assert (caught.value.code, caught.value.finding.place.line) == ("build.type", 2)
    assert not read(document, "absent")


def test_several_documents_stand_in_one_stream(write: Write) -> None:
    """Each with lines of its own; where one is expected, two are refused."""
    path = write("a.yaml", "a: 1\n---\n---\nb: 2\n")
    first, second = read_source(path)
    assert (first.value, second.value) == ({"a": 1}, {"b": 2})
    assert second.get("b").line == 4
    with pytest.raises(BuildRefused, match="found 2"):
        read_one(path)


def test_of_a_markdown_file_the_frontmatter_is_read(write: Write) -> None:
    """What follows it is a prompt; a file without one has an empty one."""
    document = read_one(write("a.md", "---\nname: a\n---\nBody\n---\nmore\n"))
    assert document.value == {"name": "a"}
    assert read_one(write("b.md", "# Title\n")).value == {}
