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
    from pathlib import Path

    from cardsign.findings import SEVERITIES
    from cardsign.lint.cards import lint_card

    data = Path(card).read_bytes() if isinstance(card, str) else card
    written = data if isinstance(data, bytes) else json.dumps(dict(data)).encode()
    problems = []
    for finding in lint_card(written).findings:
        if SEVERITIES.index(finding.severity) <= SEVERITIES.index(fail_on):
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
