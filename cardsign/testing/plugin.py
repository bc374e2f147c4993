"""The pytest plugin: a signed card, its issuer, a policy that trusts it, and one assertion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cardsign.findings import Severity
    from cardsign.testing.fake_issuer import FakeIssuer
    from cardsign.trust.policy import Policy


def assert_card_valid(
    card: bytes | str | Mapping[str, Any], *, fail_on: Severity = "warning"
) -> None:
    """Fail the test if lint finds something in a card.

    Args:
        card: Its bytes, or as a dict; a text is the path of a file.
        fail_on: The lightest finding that fails: ``error``, ``warning`` or ``note``.

    Raises:
        AssertionError: It names each finding, its place and its fix.
    """
    from cardsign.card.strictjson import MAX_CARD_BYTES
    from cardsign.files import read_bytes
    from cardsign.lint.cards import lint_card

    if isinstance(card, str):
        from pathlib import Path

        data = read_bytes(Path(card), max_bytes=MAX_CARD_BYTES)
    else:
        data = card if isinstance(card, bytes) else json.dumps(dict(card)).encode()
    order = ("error", "warning", "note")
    heavy = order[: order.index(fail_on) + 1]
    problems = []
    for finding in lint_card(data).findings:
        if finding.severity in heavy:
            where = finding.path or "the card"
            text = f"{finding.severity}: {finding.code}: {where}: {finding.message}. {finding.hint}"
            # For a terminal, and for a log of GitHub Actions, which obeys ``##[``.
            shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
            problems.append(shown.replace("##[", "#\\x23["))
    if problems:
        raise AssertionError("the card is not valid:\n" + "\n".join(problems))


@pytest.fixture
def fake_issuer() -> FakeIssuer:
    """An issuer with keys of its own, which are forgotten with the test."""
    from cardsign.testing.fake_issuer import FakeIssuer

    return FakeIssuer(datetime.now(UTC))


@pytest.fixture
def signed_card(fake_issuer: FakeIssuer) -> bytes:
    """A card that the issuer signed."""
    return fake_issuer.signed_card(fake_issuer.card_members())


@pytest.fixture
def trusting_policy(fake_issuer: FakeIssuer) -> Policy:
    """A policy that trusts the issuer's card keys."""
    from cardsign.trust.policy import Policy

    return Policy.from_jwks(fake_issuer.jwks(), name=fake_issuer.name)
