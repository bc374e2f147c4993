"""Keys on a PKCS#11 token: SoftHSM of Debian signs, and what can be wrong with it is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cardsign.errors import CardsignError, SignerFault
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.registry import check_possession, list_public_keys, open_signer
from tests.keys.softhsm import PIN, SoftHsm
from tests.net.authorities import Authority

pytestmark = pytest.mark.needs_softhsm

LARGE = b'{"name":"' + b"x" * 20_000 + b'"}'


def using(library: Path, pin: str) -> Access:
    environment = {"CARDSIGN_PKCS11_MODULE": str(library)}
    return Access(lambda kind, of: pin.encode(), environment=environment)


def access(softhsm: SoftHsm, pin: str = PIN) -> Access:
    return using(softhsm.library, pin)


def sign(uri: str, public: PublicKey, access: Access, payload: bytes = b"{}") -> None:
    sign_payload(payload, open_signer(uri, public, access), typ="JOSE")


@pytest.mark.parametrize(
    ("uri", "alg"),
    [
        pytest.param("pkcs11:token=cards;object=es256-a", "ES256", id="ES256 by label"),
        pytest.param("pkcs11:token=cards;object=rs256-a", "RS256", id="RS256 by label"),
        pytest.param("pkcs11:token=cards;id=%01", "ES256", id="ES256 by id"),
        pytest.param("pkcs11:token=cards;id=%02;type=private", "RS256", id="RS256 by id"),
        pytest.param("pkcs11:token=cards;object=twin;id=%03", "ES256", id="one of two by both"),
        pytest.param(
            "pkcs11:manufacturer=SoftHSM%20project;token=cards;object=es256-a",
            "ES256",
            id="with its maker",
        ),
    ],
)
def test_the_token_signs(uri: str, alg: str, softhsm: SoftHsm) -> None:
    """The public key is read once; the signatures verify, also of more than a token takes."""
    public = list_public_keys(uri, access(softhsm), kid="cards-1")[0]
    assert (public.kid, public.alg) == ("cards-1", alg)

    sign(uri, public, access(softhsm), LARGE)
    check_possession(open_signer(uri, public, access(softhsm)))


@pytest.mark.parametrize(("number", "alg"), [("07", "ES256"), ("08", "RS256")])
def test_a_label_of_two_kinds_of_keys_means_the_one_of_the_algorithm(
    number: str, alg: str, softhsm: SoftHsm
) -> None:
    """The algorithm is the stored key's."""
    uri = "pkcs11:token=cards;object=both"
    public = list_public_keys(f"{uri};id=%{number}", access(softhsm))[0]

    assert public.alg == alg
    sign(uri, public, access(softhsm))


FAULTS = {
    "no such token": ("pkcs11:token=absent;object=k", PIN, "signer.unreachable", "no token"),
    "two tokens of one name": ("pkcs11:token=double;object=k", PIN, "signer.no_key", "tokens"),
    "a wrong PIN": (
        "pkcs11:token=cards;object=es256-a",
        "9999-x",
        "signer.credentials",
        "PinIncorrect",
    ),
    "a PIN too short": ("pkcs11:token=cards;object=es256-a", "1", "signer.credentials", "PIN"),
    "no such key": ("pkcs11:token=cards;object=nobody", PIN, "signer.no_key", "no private key"),
    "two keys that fit": ("pkcs11:token=cards;object=twin", PIN, "signer.no_key", "2 keys"),
    "only a key of another kind": ("pkcs11:token=cards;id=%02", PIN, "signer.no_key", "ES256"),
    "another key": ("pkcs11:token=cards;id=%03", PIN, "signer.wrong_key", "does not fit"),
}


@pytest.mark.parametrize(("uri", "pin", "code", "words"), FAULTS.values(), ids=FAULTS)
def test_each_fault_has_its_own_message(
    uri: str, pin: str, code: str, words: str, softhsm: SoftHsm
) -> None:
    """A stable code, what was expected, and never the PIN."""
    public = list_public_keys("pkcs11:token=cards;object=es256-a", access(softhsm))[0]

    with pytest.raises(SignerFault, match=words) as caught:
        sign(uri, public, access(softhsm, pin))

    assert caught.value.code == code
    assert pin == "1" or pin not in str(caught.value)


def test_after_a_wrong_pin_the_right_one_still_signs(softhsm: SoftHsm) -> None:
    """No session is left behind by a failure."""
    uri = "pkcs11:token=cards;object=es256-a"
    public = list_public_keys(uri, access(softhsm))[0]
    with pytest.raises(SignerFault):
        sign(uri, public, access(softhsm, "9999-x"))

    sign(uri, public, access(softhsm))


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        pytest.param("pkcs11:token=cards;object=lonely", "signer.no_public", id="no public key"),
        pytest.param("pkcs11:token=cards;object=both", "signer.no_key", id="two public keys"),
        pytest.param("pkcs11:token=cards;object=p384", "key.unsupported", id="another curve"),
    ],
)
def test_a_public_half_that_cannot_be_enrolled(uri: str, code: str, softhsm: SoftHsm) -> None:
    """The user then names it in a file, or another key."""
    with pytest.raises(CardsignError) as caught:
        list_public_keys(uri, access(softhsm))[0]
    assert caught.value.code == code


def test_a_key_without_public_object_signs(softhsm: SoftHsm, es256: PrivateKey) -> None:
    """It is found and asked; only the public key given here is another's."""
    with pytest.raises(SignerFault) as caught:
        sign("pkcs11:token=cards;object=lonely", es256.public, access(softhsm))
    assert caught.value.code == "signer.wrong_key"


def test_a_library_that_is_none(softhsm: SoftHsm, tmp_path: Path, es256: PrivateKey) -> None:
    """What cannot be loaded is named by its path."""
    file = tmp_path / "none.so"
    file.write_bytes(b"no library")
    with pytest.raises(SignerFault, match="file too short") as caught:
        sign("pkcs11:token=cards;id=%01", es256.public, using(file, PIN))
    assert caught.value.code == "signer.unreachable"
    assert str(file) in str(caught.value)


#: A TLS connection is open while the same thread signs; then nothing has come over it yet.
BESIDE_TLS = """
import ssl, sys
from cardsign.keys.signers.registry import list_public_keys
from cardsign.keys.signers.access import Access

module, pin, certificate = sys.argv[1:]
here, there = ssl.MemoryBIO(), ssl.MemoryBIO()
server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(certificate)
ends = (
    ssl.create_default_context(cafile=certificate).wrap_bio(here, there, server_hostname="host"),
    server.wrap_bio(there, here, server_side=True),
)
for end in ends * 3:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        pass
access = Access(lambda *_: pin.encode(), environment={"CARDSIGN_PKCS11_MODULE": module})
print(list_public_keys("pkcs11:token=cards;object=es256-a", access)[0].alg)
try:
    ends[1].read()
except ssl.SSLWantReadError:
    print("waits")
"""


def test_a_tls_connection_of_the_same_thread_goes_on(softhsm: SoftHsm, tmp_path: Path) -> None:
    """SoftHSM leaves an error in OpenSSL's queue, which the next read would take for its own."""
    certificate = Authority(tmp_path).certificate("host", self_signed=True)
    command = [sys.executable, "-c", BESIDE_TLS, str(softhsm.library), PIN, str(certificate)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ES256\nwaits\n", "")
