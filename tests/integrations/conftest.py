"""The small internet of tests/net, for the tests of other people's SDKs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "net"))  # whose helpers import one another

from authorities import Authority
from internet import Network


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority of this run."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def network(authority: Authority) -> Network:
    """All hosts there are."""
    return Network(authority)
