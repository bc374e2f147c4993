"""The transit engine of an OpenBao server signs, and what can be wrong with it is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cardsign.errors import CardsignError, SignerFault
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.signers.access import Access, SignerPolicy
from cardsign.keys.signers.registry import check_possession, list_public_keys, open_signer
from tests.keys.openbao import OpenBao, running

pytestmark = pytest.mark.needs_openbao

LARGE = b'{"name":"' + b"x" * 20_000 + b'"}'
KINDS = [("ES256", "ecdsa-p256"), ("RS256", "rsa-2048"), ("RS256", "rsa-3072")]


def access(openbao: OpenBao, token: str | None = None, **changes: str | None) -> Access:
    """What a user of the server has."""
    secret = (token or openbao.root_token).encode()
    return Access(lambda kind, of: secret, environment=openbao.environment(**changes))


def sign(uri: str, public: PublicKey, access: Access, payload: bytes = b"{}") -> None:
    """Sign a payload as a card's is signed."""
    sign_payload(payload, open_signer(uri, public, access), typ="JOSE")


@pytest.fixture(scope="session")  # as the server's: made again, it would have more versions
def rotated(openbao: OpenBao) -> tuple[str, str]:
    """The URIs of both versions of one key."""
    uri = openbao.make("rotated", "ecdsa-p256", versions=2)
    return uri.replace("version=2", "version=1"), uri


@pytest.mark.parametrize(("alg", "key_type"), KINDS, ids=[kind for _, kind in KINDS])
def test_the_server_signs(alg: str, key_type: str, openbao: OpenBao) -> None:
    """The public key is read once; the signatures verify, also over TLS of a private CA."""
    uri = openbao.make(f"signs-{key_type}", key_type)
    public = list_public_keys(uri, access(openbao), kid="cards-1")[0]
    assert (public.kid, public.alg) == ("cards-1", alg)

    sign(uri, public, access(openbao), LARGE)
    check_possession(open_signer(uri, public, access(openbao)))


@pytest.mark.parametrize("variables", ["BAO", "VAULT"])
def test_the_variables_of_either_product_serve(
    variables: str, openbao: OpenBao, rotated: tuple[str, str]
) -> None:
    """Vault's names and OpenBao's mean the same."""
    environment = {
        f"{variables}_ADDR": openbao.address,
        f"{variables}_CACERT": str(openbao.authority),
    }
    with_these = Access(lambda kind, of: openbao.root_token.encode(), environment=environment)
    sign(rotated[1], list_public_keys(rotated[1], with_these)[0], with_these)


def test_each_version_signs_for_itself(openbao: OpenBao, rotated: tuple[str, str]) -> None:
    """A key that is rotated on the server goes on signing as what was published."""
    old, new = (list_public_keys(uri, access(openbao))[0] for uri in rotated)
    assert old != new
    sign(rotated[0], old, access(openbao))
    sign(rotated[1], new, access(openbao))
    for uri, public in zip(rotated, (new, old), strict=True):
        with pytest.raises(SignerFault) as caught:
            sign(uri, public, access(openbao))
        assert caught.value.code == "signer.wrong_key"


@pytest.mark.parametrize(("alg", "key_type"), KINDS[:2], ids=["DER", "PSS"])
def test_what_the_server_does_unasked_is_refused(
    alg: str, key_type: str, openbao: OpenBao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without our options it answers in DER, and pads by PSS: neither is given out."""
    uri = openbao.make(f"unasked-{key_type}", key_type)
    public = list_public_keys(uri, access(openbao))[0]
    monkeypatch.setattr(
        "cardsign.keys.signers.services._VAULT_FORMS", {alg: {"marshaling_algorithm": "asn1"}}
    )

    with pytest.raises(SignerFault, match="in DER" if alg == "ES256" else "PSS") as caught:
        sign(uri, public, access(openbao))
    assert caught.value.code == "signer.wrong_key"


def test_a_token_that_may_only_sign(openbao: OpenBao, rotated: tuple[str, str]) -> None:
    """That is all that signing needs; to enrol takes the right to read."""
    token = openbao.limited_token('path "transit/sign/rotated" { capabilities = ["update"] }')
    public = list_public_keys(rotated[1], access(openbao))[0]

    sign(rotated[1], public, access(openbao, token))
    with pytest.raises(SignerFault, match="permission denied") as caught:
        list_public_keys(rotated[1], access(openbao, token))[0]
    assert caught.value.code == "signer.credentials"


def test_a_version_that_the_server_no_longer_uses(openbao: OpenBao) -> None:
    """A version below `min_encryption_version` verifies there and signs no more."""
    openbao.make("ended", "ecdsa-p256", versions=2)
    uri = "hashivault://transit/ended?version=1"
    public = list_public_keys(uri, access(openbao))[0]
    openbao.root.secrets.transit.update_key_configuration(name="ended", min_encryption_version=2)

    with pytest.raises(SignerFault, match="minimum") as caught:
        sign(uri, public, access(openbao))
    assert caught.value.code == "signer.failed"


FAULTS: dict[str, tuple[str, Callable[[OpenBao], Access], str, str]] = {
    "no such version": ("transit/rotated?version=9", access, "signer.failed", "latest"),
    "no such key": ("transit/nobody?version=1", access, "signer.no_key", "not found"),
    "no such engine": ("nowhere/rotated?version=1", access, "signer.no_key", "no handler"),
    "a token that is none": (
        "transit/rotated?version=1",
        lambda openbao: access(openbao, "no-token"),
        "signer.credentials",
        "permission denied",
    ),
    "a certificate of nobody's": (
        "transit/rotated?version=1",
        lambda openbao: access(openbao, BAO_CACERT=None),
        "signer.unreachable",
        "SSLError",
    ),
    "a server that is not there": (
        "transit/rotated?version=1",
        lambda openbao: access(openbao, BAO_ADDR="https://127.0.0.1:1"),
        "signer.unreachable",
        "ConnectionError",
    ),
    "no server named": (
        "transit/rotated?version=1",
        lambda openbao: access(openbao, BAO_ADDR=None),
        "signer.uri",
        "names no server",
    ),
    "a user in the address": (
        "transit/rotated?version=1",
        lambda openbao: access(openbao, BAO_ADDR="https://me@127.0.0.1:1"),
        "signer.uri",
        "names no server",
    ),
    "a file as address": (
        "transit/rotated?version=1",
        lambda openbao: access(openbao, BAO_ADDR="file:///etc"),
        "signer.uri",
        "names no server",
    ),
    "an address without TLS": (
        "transit/rotated?version=1",
        lambda openbao: access(openbao, BAO_ADDR="http://vault.example:8200"),
        "config.not_allowed",
        "without TLS",
    ),
}


@pytest.mark.parametrize(("place", "have", "code", "words"), FAULTS.values(), ids=FAULTS)
@pytest.mark.usefixtures("rotated")
def test_each_fault_has_its_own_message(
    place: str,
    have: Callable[[OpenBao], Access],
    code: str,
    words: str,
    openbao: OpenBao,
    es256: PrivateKey,
) -> None:
    """A stable code, and never the token."""
    with pytest.raises(SignerFault, match=words) as caught:
        sign(f"hashivault://{place}", es256.public, have(openbao))
    assert caught.value.code == code
    assert openbao.root_token not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "code"),
    [
        pytest.param("transit/rotated?version=9", "signer.no_key", id="no such version"),
        pytest.param("transit/nobody?version=1", "signer.no_key", id="no such key"),
        pytest.param("transit/secret?version=1", "signer.no_public", id="a symmetric key"),
        pytest.param("transit/edwards?version=1", "signer.no_public", id="Ed25519"),
        pytest.param("transit/p384?version=1", "key.unsupported", id="another curve"),
    ],
)
@pytest.mark.usefixtures("rotated")
def test_a_public_half_that_cannot_be_enrolled(place: str, code: str, openbao: OpenBao) -> None:
    """The wrong place, or a key that signs no card."""
    openbao.make("secret", "aes256-gcm96")
    openbao.make("edwards", "ed25519")
    openbao.make("p384", "ecdsa-p384")
    with pytest.raises(CardsignError) as caught:
        list_public_keys(f"hashivault://{place}", access(openbao))[0]
    assert caught.value.code == code


def test_no_tls_only_on_this_machine_and_by_leave(tmp_path: Path) -> None:
    """A development server without TLS is asked if the user allows it."""
    with running(tmp_path, tls=False) as plain:
        uri = plain.make("plain", "ecdsa-p256")
        shut = access(plain)
        leave = Access(
            shut.secrets, SignerPolicy(format=1, insecure_loopback_http=True), shut.environment
        )

        sign(uri, list_public_keys(uri, leave)[0], leave)
        with pytest.raises(SignerFault, match="without TLS") as caught:
            list_public_keys(uri, shut)[0]
        assert caught.value.code == "config.not_allowed"
