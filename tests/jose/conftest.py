"""Keys made for this run, and what the tests of signatures build with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cardsign.card.values import Json
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.keys import PrivateKey
from tests.jose.explicit_making import PAYLOAD
from tests.support import rsa_key


@pytest.fixture(scope="session")
def es256() -> PrivateKey:
    """A P-256 key under the kid `es`."""
    return PrivateKey.generate("ES256", kid="es")


@pytest.fixture(scope="session")
def rs256() -> PrivateKey:
    """An RSA key under the kid `rs`."""
    return rsa_key("rs")


@pytest.fixture(scope="session", params=["es256", "rs256"])
def key(request: pytest.FixtureRequest) -> PrivateKey:
    """Each of the two in turn."""
    private: PrivateKey = request.getfixturevalue(request.param)
    return private


@pytest.fixture(scope="session")
def forge() -> Callable[..., dict[str, Json]]:
    """Sign `payload` under any header text at all, as a hostile holder of a key could."""

    def forged(key: PrivateKey, header: bytes, payload: bytes = PAYLOAD) -> dict[str, Json]:
        protected = encode_base64url(header)
        signing_input = f"{protected}.{encode_base64url(payload)}".encode("ascii")
        return {"protected": protected, "signature": encode_base64url(key.sign(signing_input))}

    return forged
