"""The small internet of tests/net, for the tests of other people's SDKs."""

from __future__ import annotations

import pytest

from tests.net.authorities import Authority
from tests.net.internet import Network


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority of this run."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def network(authority: Authority) -> Network:
    """All hosts there are."""
    return Network(authority)
