"""Token files and the tokens themselves."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cardsign.errors import ServeFault, UsageFault
from cardsign.jose.keys import PrivateKey
from cardsign.server.providers import Denied, Places, StaticTokens
from cardsign.server.settings import ProviderSettings, ServerSettings
from cardsign.server.tokens import (
    create_token,
    digest_token,
    edit_tokens,
    parse_tokens,
    read_tokens,
    remove_token,
)
from tests.publish.publications import NOW, PUBLIC, publish_cards
from tests.server.served import serve, write_tokens

TOKEN = "correct"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


#: What a token file holds, and its audiences and lines; or the line that is refused.
FILES: dict[str, tuple[str, list[tuple[str, int]] | int]] = {
    "an audience, no newline at the end": (f"{DIGEST} staff", [("staff", 1)]),
    "capitals, tabs, CRLF": (f"{DIGEST.upper()}\t staff\r\n", [("staff", 1)]),
    "comments and blank lines": (f"# who\n\n  {DIGEST} a # A\n{OTHER} b\n", [("a", 3), ("b", 4)]),
    "nothing": ("", []),
    "a token instead of its digest": ("hunter2-is-my-secret", 1),
    "a digest alone, bound to no audience": (DIGEST, 1),
    "a digest cut short": (f"{DIGEST} a\n{DIGEST[:-1]} a", 2),
    "a third word": (f"{DIGEST} staff extra", 1),
    "an impossible audience": (f"{DIGEST} Staff", 1),
    "no space before the audience": (f"{DIGEST}staff", 1),
    "the same token twice": (f"{DIGEST} a\n{OTHER} b\n{DIGEST} b", 3),
    "letters beyond ASCII": ("\N{NO-BREAK SPACE}" + DIGEST + "é", 1),
    # A token must not go on because its end cannot be read.
    "a year": (f"{DIGEST} staff until 2027", 1),
    "a month that there is not": (f"{DIGEST} staff until 2027-13-01T00:00:00Z", 1),
    "a word for a time": (f"{DIGEST} staff until never", 1),
}


@pytest.mark.parametrize(("content", "expected"), FILES.values(), ids=FILES)
def test_a_token_file_is_read_line_by_line(
    content: str, expected: list[tuple[str, int]] | int
) -> None:
    """A refusal does not repeat the line, which may be a secret in the wrong place."""
    if isinstance(expected, list):
        tokens = parse_tokens(content.encode()).values()
        assert [(token.audience, token.line) for token in tokens] == expected
        return
    with pytest.raises(ServeFault) as refused:
        parse_tokens(content.encode(), path="tokens.txt")
    assert refused.value.code == "serve.token_file"
    assert (refused.value.path, refused.value.finding.place.line) == ("tokens.txt", expected)
    assert content.splitlines()[expected - 1][:12] not in str(refused.value)


def tokens_of(path: Path, now: Callable[[], float]) -> StaticTokens:
    """The provider of a token file."""
    settings = ProviderSettings(type="static_token", token_file=path)
    return StaticTokens(settings, Places(1), now)


@pytest.mark.parametrize(
    "token", ["", "Correct", "correct ", DIGEST, "correct\x00", "größe", "\udcff"]
)
def test_any_other_token_opens_nothing(tmp_path: Path, token: str) -> None:
    """Neither a near miss nor the digest itself."""
    tokens = tokens_of(write_tokens(tmp_path, f"{DIGEST} a", f"{OTHER} b"), lambda: 0.0)
    with pytest.raises(Denied):
        tokens.check(token)
    assert tokens.check("correct") == "a"


def test_no_token_begins_as_an_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tokens revoke TOKEN` would take it for one."""
    made = iter(["-e", "--", "e-"])
    monkeypatch.setattr("secrets.token_urlsafe", lambda _size: next(made))
    assert create_token("staff")[0] == "e-"


def test_a_token_ends_with_its_time(tmp_path: Path) -> None:
    """To the second; the line says when, and for whom it is, but not the token."""
    end = datetime(2027, 1, 1, tzinfo=UTC)
    token, line = create_token("staff", end)
    assert re.fullmatch(r"[\w-]{43}", token)  # 32 bytes in base64url
    assert line == f"{digest_token(token)} staff until 2027-01-01T00:00:00Z"
    now = [end.timestamp() - 1]
    tokens = tokens_of(write_tokens(tmp_path, line), lambda: now[0])
    assert tokens.check(token) == "staff"
    now[0] += 1
    with pytest.raises(Denied):
        tokens.check(token)


@pytest.mark.parametrize("name", [DIGEST[:8], DIGEST.upper(), TOKEN])
def test_one_token_is_taken_out_by_its_digest_or_itself(tmp_path: Path, name: str) -> None:
    """All other lines stay as they are; what names none or several is refused."""
    path = write_tokens(tmp_path, "# who", f"{DIGEST} a # Ann", f"{OTHER} b")
    before = path.read_text()
    for wrong in ("", DIGEST[:8] + "00", TOKEN[:-1]):
        with pytest.raises(UsageFault), edit_tokens(path) as lines:
            remove_token(lines, wrong)
        assert path.read_text() == before
    with edit_tokens(path) as lines:
        assert remove_token(lines, name) == DIGEST
    assert path.read_text() == f"# who\n{OTHER} b\n"


def test_changes_at_once_lose_no_token_and_revive_none(tmp_path: Path) -> None:
    """Each reads what the one before has written."""
    path = write_tokens(tmp_path, f"{DIGEST} staff")

    def add(number: int) -> None:
        with edit_tokens(path) as lines:
            lines.append(f"{create_token(f'a{number}')[1]}\n")

    def revoke(_: int) -> None:
        with edit_tokens(path) as lines:
            remove_token(lines, DIGEST)

    with ThreadPoolExecutor(9) as pool:
        changes = [pool.submit(add, number) for number in range(8)] + [pool.submit(revoke, 0)]
    assert [change.exception() for change in changes] == [None] * 9
    tokens = read_tokens(path)
    assert DIGEST not in tokens
    assert sorted(token.audience for token in tokens.values()) == [f"a{n}" for n in range(8)]


def test_a_running_server_follows_its_token_file(
    tmp_path: Path, key: PrivateKey, log: list[str]
) -> None:
    """Without a signal; a broken file leaves the last good tokens, one that is gone none."""
    publish_cards(tmp_path / "pub", key, PUBLIC, "staff")
    (token, line), (newer, more) = create_token("staff"), create_token("staff")
    path = write_tokens(tmp_path, line)
    client = serve(tmp_path / "pub", ServerSettings(token_file=path), now=NOW.timestamp)

    def ask() -> tuple[int, ...]:
        bearers = ({"Authorization": f"Bearer {one}"} for one in (token, newer))
        return tuple(client.get("/extendedAgentCard", headers=b).status_code for b in bearers)

    assert ask() == (200, 401)
    write_tokens(tmp_path, line, more)
    assert ask() == (200, 200)
    write_tokens(tmp_path, more)
    assert ask() == (401, 200)
    path.write_text("broken")
    assert ask() == (401, 200)
    path.unlink()
    assert ask() == (401, 401)
    write_tokens(tmp_path, line)
    assert ask() == (200, 401)
    said = [text for text in log if "token" in text]
    assert [text.split()[0] for text in said] == ["the", f"{path}"]
    assert line[:64] not in "".join(log)
