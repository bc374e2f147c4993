"""Token files and the tokens themselves."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import pytest

from cardsign.errors import ServeFault
from cardsign.server.providers import Denied, StaticTokens
from cardsign.server.settings import ProviderSettings
from cardsign.server.tokens import (
    create_token,
    digest_token,
    edit_tokens,
    parse_tokens,
    read_tokens,
    remove_token,
)
from tests.server.served import write_tokens
from tests.support import each_case

TOKEN = "correct"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()


@each_case(__file__, "files", "content", "expected")
def test_a_token_file_is_read_line_by_line(content: str, expected: list[Any] | int) -> None:
    """A refusal does not repeat the line, which may be a secret in the wrong place."""
    content = content.replace("DIGEST", DIGEST).replace("OTHER", OTHER)
    content = content.replace("CAPITALS", DIGEST.upper()).replace("SHORT", DIGEST[:-1])
    if isinstance(expected, list):
        tokens = parse_tokens(content.encode()).values()
        assert [[token.audience, token.line] for token in tokens] == expected
        return
    with pytest.raises(ServeFault) as refused:
        parse_tokens(content.encode(), path="tokens.txt")
    assert refused.value.code == "serve.token_file"
    assert (refused.value.path, refused.value.finding.place.line) == ("tokens.txt", expected)
    assert content.splitlines()[expected - 1][:12] not in str(refused.value)


def tokens_of(path: Path, now: Callable[[], float]) -> StaticTokens:
    """The provider of a token file."""
    settings = ProviderSettings(type="static_token", token_file=path)
    return StaticTokens(settings, BoundedSemaphore(1), now)


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


def test_changes_at_once_lose_no_token_and_revive_none(tmp_path: Path) -> None:
    """Each reads what the one before has written."""
    path = write_tokens(tmp_path, f"{DIGEST} staff")

    def add(number: int) -> None:
        with edit_tokens(path) as lines:
            lines.append(f"{create_token(f'a{number}')[1]}\n")

    def revoke(_: int) -> None:
        with edit_tokens(path) as lines:
            remove_token(lines, DIGEST, "tokens")

    with ThreadPoolExecutor(9) as pool:
        changes = [pool.submit(add, number) for number in range(8)] + [pool.submit(revoke, 0)]
    assert [change.exception() for change in changes] == [None] * 9
    tokens = read_tokens(path)
    assert DIGEST not in tokens
    assert sorted(token.audience for token in tokens.values()) == [f"a{n}" for n in range(8)]
