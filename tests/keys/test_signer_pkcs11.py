"""Keys on a PKCS#11 token: SoftHSM of Debian signs, and what can be wrong with it is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cardsign.keys.signers import Access
from tests.keys.elsewhere import enrol, enrols_and_signs, refusal, sign
from tests.keys.softhsm import PIN, SoftHsm
from tests.keys.states import FIRST
from tests.net.authorities import Authority
from tests.support import each_case

pytestmark = pytest.mark.needs_softhsm

LABELLED = "pkcs11:token=cards;object=es256-a"


def using(library: Path, pin: str) -> Access:
    environment = {"CARDSIGN_PKCS11_MODULE": str(library)}
    return Access(lambda kind, of: pin.encode(), environment=environment)


def access(softhsm: SoftHsm, pin: str = PIN) -> Access:
    return using(softhsm.library, pin)


@pytest.mark.parametrize(
    ("alg", "attributes"),
    [
        ("ES256", "object=es256-a"),
        ("RS256", "object=rs256-a"),
        ("ES256", "id=%01"),
        ("RS256", "id=%02;type=private"),
        ("ES256", "object=twin;id=%03"),  # one of two by both
        ("ES256", "manufacturer=SoftHSM%20project;object=es256-a"),
    ],
)
def test_the_token_signs(alg: str, attributes: str, softhsm: SoftHsm) -> None:
    """By label, id or both."""
    enrols_and_signs(f"pkcs11:token=cards;{attributes}", alg, access(softhsm))


@pytest.mark.parametrize(("number", "alg"), [("07", "ES256"), ("08", "RS256")])
def test_a_label_of_two_kinds_of_keys_means_the_one_of_the_algorithm(
    number: str, alg: str, softhsm: SoftHsm
) -> None:
    """The algorithm is the stored key's."""
    uri = "pkcs11:token=cards;object=both"
    public = enrol(f"{uri};id=%{number}", access(softhsm))
    assert public.alg == alg
    sign(uri, public, access(softhsm))


@each_case(__file__, "faults", "attributes", "code", "words")
def test_each_fault_has_its_own_message(
    attributes: str, code: str, words: str, softhsm: SoftHsm
) -> None:
    """A stable code, and what was expected."""
    public, silent = enrol(LABELLED, access(softhsm)), f"^(?!.*{PIN}).*{words}"
    assert refusal(sign, f"pkcs11:{attributes}", public, access(softhsm), match=silent) == code


@pytest.mark.parametrize(("pin", "words"), [("9999-x", "^(?!.*9999).*PinIncorrect"), ("1", "Pin")])
def test_after_a_wrong_pin_the_right_one_still_signs(
    pin: str, words: str, softhsm: SoftHsm
) -> None:
    """It is never repeated, and no session is left behind."""
    public, wrong = enrol(LABELLED, access(softhsm)), access(softhsm, pin)
    assert refusal(sign, LABELLED, public, wrong, match=words) == "signer.credentials"
    sign(LABELLED, public, access(softhsm))


@each_case(__file__, "not_enrolled", "label", "code", "words")
def test_a_public_half_that_cannot_be_enrolled(
    label: str, code: str, words: str, softhsm: SoftHsm
) -> None:
    """None, two, or one on another curve: the user names it in a file, or another key."""
    uri = f"pkcs11:token=cards;object={label}"
    assert refusal(enrol, uri, access(softhsm), match=words) == code


def test_a_library_that_is_none(softhsm: SoftHsm, tmp_path: Path) -> None:
    """What cannot be loaded is named by its path."""
    file = tmp_path / "none.so"
    file.write_bytes(b"no library")
    words, reading = f"{file}.*file too short", using(file, PIN)
    assert refusal(sign, LABELLED, FIRST.public, reading, match=words) == "signer.unreachable"


#: A TLS connection is open while the same thread signs; then nothing has come over it yet.
BESIDE_TLS = """
import ssl, sys
from cardsign.keys.signers import list_public_keys
from cardsign.keys.signers import Access
from tests.keys.states import FIRST

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
