"""Token files and the tokens themselves."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from publications import NOW, PUBLIC, publish_cards
from werkzeug.test import Client

from cardsign.errors import FileFault, ServeFault, UsageFault
from cardsign.jose.keys import PrivateKey
from cardsign.server.live import LiveApplication
from cardsign.server.settings import ServerSettings
from cardsign.server.tokens import TokenTable, create_token, without_token

DIGEST = hashlib.sha256(b"correct").hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


def test_a_created_token_opens_what_its_line_says() -> None:
    """Token and line belong together, and the line does not hold the token."""
    token, line = create_token("staff")

    entry = TokenTable.from_bytes(line.encode()).find(token, now=0.0)

    assert entry is not None
    assert entry.audience == "staff"
    assert token not in line
    assert re.fullmatch(r"[\w-]{43}", token)  # 32 bytes in base64url


def test_no_two_tokens_are_the_same() -> None:
    """They are random, not derived from anything."""
    assert len({create_token("staff")[0] for _ in range(100)}) == 100


def test_a_token_for_an_impossible_audience_is_refused() -> None:
    """Its line could not be read back."""
    with pytest.raises(UsageFault) as refused:
        create_token("a b")
    assert refused.value.code == "publish.audience_name"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(f"{DIGEST} staff", [("staff", 1)], id="an audience, no newline at the end"),
        pytest.param(f"{DIGEST.upper()}\t staff\r\n", [("staff", 1)], id="capitals, tabs, CRLF"),
        pytest.param(
            f"# who\n\n  {DIGEST} a # Ann\n{OTHER} b\n",
            [("a", 3), ("b", 4)],
            id="comments, blank lines and two tokens",
        ),
        pytest.param("", [], id="nothing"),
    ],
)
def test_a_token_file_is_read_line_by_line(content: str, expected: list[tuple[str, int]]) -> None:
    """Audience and line number of each entry."""
    table = TokenTable.from_bytes(content.encode())
    assert [(entry.audience, entry.line) for entry in table.entries] == expected


@pytest.mark.parametrize(
    ("content", "line"),
    [
        pytest.param("hunter2-is-my-secret", 1, id="a token instead of its digest"),
        pytest.param(DIGEST, 1, id="a digest alone, bound to no audience"),
        pytest.param(f"{DIGEST} a\n{DIGEST[:-1]} a", 2, id="a digest cut short"),
        pytest.param(f"{DIGEST} staff extra", 1, id="a third word"),
        pytest.param(f"{DIGEST} Staff", 1, id="an impossible audience"),
        pytest.param(f"{DIGEST}staff", 1, id="no space before the audience"),
        pytest.param(f"{DIGEST} a\n{OTHER} b\n{DIGEST} b", 3, id="the same token twice"),
        pytest.param("\N{NO-BREAK SPACE}" + DIGEST + "é", 1, id="letters beyond ASCII"),
    ],
)
def test_a_malformed_token_file_is_refused_by_line_without_showing_it(
    content: str, line: int
) -> None:
    """The line may be a secret in the wrong place, so the message must not repeat it."""
    with pytest.raises(ServeFault) as refused:
        TokenTable.from_bytes(content.encode(), path="tokens.txt")

    assert refused.value.code == "serve.token_file"
    assert (refused.value.path, refused.value.line) == ("tokens.txt", line)
    assert content.splitlines()[line - 1][:12] not in str(refused.value)


@pytest.mark.parametrize(
    "token", ["", "Correct", "correct ", DIGEST, "correct\x00", "größe", "\udcff"]
)
def test_any_other_token_opens_nothing(token: str) -> None:
    """Neither a near miss nor the digest itself."""
    table = TokenTable.from_bytes(f"{DIGEST} a\n{OTHER} b".encode())
    assert table.find(token, now=0.0) is None
    assert table.find("correct", now=0.0) is not None


def test_bytes_that_are_no_text_are_refused_as_a_line() -> None:
    """A binary file named by mistake."""
    with pytest.raises(ServeFault, match="this line"):
        TokenTable.from_bytes(b"\xff\xfe\x00")


def test_a_token_file_is_read_from_disk(tmp_path: Path) -> None:
    """World-readable is fine: it holds digests."""
    path = tmp_path / "tokens"
    path.write_text(f"{DIGEST} staff\n")
    path.chmod(0o644)

    assert TokenTable.read(path).find("correct", now=0.0) is not None
    with pytest.raises(FileFault):
        TokenTable.read(tmp_path / "absent")


@pytest.mark.parametrize(
    ("lines", "audiences", "words"),
    [
        pytest.param(f"{DIGEST} crew", {"staff"}, ["line 1 (crew)", ": staff"], id="another's"),
        pytest.param(f"{DIGEST} crew", set(), ["line 1 (crew)", ": none"], id="no card at all"),
        pytest.param(
            f"{DIGEST} a\n{OTHER} b", {"c"}, ["line 1 (a), line 2 (b)"], id="all of them at once"
        ),
    ],
)
def test_tokens_without_a_card_are_one_line(
    lines: str, audiences: set[str], words: list[str]
) -> None:
    """For the operator, by line of the token file."""
    problem = TokenTable.from_bytes(lines.encode()).without_card(audiences)
    assert all(word in problem for word in words)
    assert "\n" not in problem


def test_many_tokens_without_a_card_are_still_one_short_line() -> None:
    """A card that was withdrawn may have had thousands of readers."""
    lines = "\n".join(f"{number:064x} crew" for number in range(5000))
    problem = TokenTable.from_bytes(lines.encode()).without_card({"staff"})
    assert "and 4990 more" in problem
    assert len(problem) < 500


def test_tokens_with_a_card_are_no_problem() -> None:
    """The twin of the two above; another audience's card is nothing to them."""
    table = TokenTable.from_bytes(f"{DIGEST} staff\n{OTHER} staff".encode())
    assert table.without_card({"staff", "crew"}) == ""


def test_a_token_ends_with_its_time() -> None:
    """To the second; the line says when."""
    end = datetime(2027, 1, 1, tzinfo=UTC)
    token, line = create_token("staff", end)
    assert line.endswith(" staff until 2027-01-01T00:00:00Z")
    table = TokenTable.from_bytes(line.encode())
    assert table.find(token, now=end.timestamp() - 1) is not None
    assert table.find(token, now=end.timestamp()) is None


@pytest.mark.parametrize("until", ["2027", "2027-13-01T00:00:00Z", "never"])
def test_a_time_that_is_none_is_refused(until: str) -> None:
    """A token must not go on because its end cannot be read."""
    with pytest.raises(ServeFault) as caught:
        TokenTable.from_bytes(f"{DIGEST} staff until {until}".encode())
    assert (caught.value.code, caught.value.line) == ("serve.token_file", 1)


def test_one_token_is_taken_out_by_its_digest() -> None:
    """All other lines stay as they are; what names none or several is refused."""
    data = f"# who\n{DIGEST} a # Ann\n{OTHER} b\n".encode()
    assert without_token(data, DIGEST[:8]) == f"# who\n{OTHER} b\n".encode()
    for name in ("", "zz", DIGEST[:8] + "00"):
        with pytest.raises(UsageFault):
            without_token(data, name)


def test_a_running_server_follows_its_token_file(tmp_path: Path, key: PrivateKey) -> None:
    """Without a signal; what is broken or gone leaves the last good table, and is said once."""
    publish_cards(tmp_path / "pub", key, PUBLIC, "staff")
    (token, line), (newer, more) = create_token("staff"), create_token("staff")
    path, seconds, log = tmp_path / "tokens", [0.0], list[str]()
    path.write_text(line)
    live = LiveApplication(
        tmp_path / "pub",
        ServerSettings(TokenTable.read(path)),
        now=lambda: NOW.timestamp() + seconds[0],
        log=log.append,
    )
    client = Client(live)

    def ask(one: str) -> int:
        seconds[0] += 1.5
        bearer = {"Authorization": f"Bearer {one}"}
        return client.get("/extendedAgentCard", headers=bearer).status_code

    assert (ask(token), ask(newer)) == (200, 401)
    path.write_text(f"{line}\n{more}\n")
    assert (ask(token), ask(newer)) == (200, 200)
    path.write_text(f"{more}\n")
    assert (ask(token), ask(newer)) == (401, 200)
    path.write_text("broken")
    assert (ask(token), ask(newer)) == (401, 200)
    path.unlink()
    assert (ask(token), ask(newer)) == (401, 200)
    told = [one for one in log if "tokens" in one]
    assert [one.partition(" ")[0] for one in told] == ["took", "took", "the", "the"]
    assert line[:64] not in "".join(log)
