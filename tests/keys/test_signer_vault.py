"""The transit engine of an OpenBao server signs, and what can be wrong with it is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cardsign.keys.signers import Access, SignerPolicy
from tests.keys import elsewhere
from tests.keys.elsewhere import Answer, enrol, enrols_and_signs, refusal, sign
from tests.keys.openbao import OpenBao, running
from tests.keys.states import FIRST
from tests.support import each_case

pytestmark = pytest.mark.needs_openbao

KINDS = {"ES256": "ecdsa-p256", "RS256": "rsa-2048"}
ROTATED = "hashivault://transit/rotated?version=1"


def access(openbao: OpenBao, token: str | None = None, **changes: str | None) -> Access:
    """What a user of the server has."""
    secret = (token or openbao.root_token).encode()
    return Access(lambda kind, of: secret, environment=openbao.environment(**changes))


@pytest.fixture(scope="session")  # as the server's: made again, it would have more versions
def rotated(openbao: OpenBao) -> tuple[str, str]:
    """The URIs of both versions of one key."""
    uri = openbao.make("rotated", "ecdsa-p256", versions=2)
    return uri.replace("version=2", "version=1"), uri


@pytest.mark.parametrize("alg", KINDS)
def test_the_server_signs(alg: str, openbao: OpenBao) -> None:
    """The public key is read once; the signatures verify, also over TLS of a private CA."""
    enrols_and_signs(openbao.make(f"signs-{alg.lower()}", KINDS[alg]), alg, access(openbao))


def test_the_variables_of_vault_serve_too(openbao: OpenBao, rotated: tuple[str, str]) -> None:
    """Its names and OpenBao's mean the same."""
    variables = {name.replace("BAO", "VAULT"): text for name, text in openbao.environment().items()}
    enrols_and_signs(rotated[1], "ES256", Access(access(openbao).secrets, environment=variables))


def test_each_version_signs_for_itself(openbao: OpenBao, rotated: tuple[str, str]) -> None:
    """A key that is rotated on the server goes on signing as what was published."""
    old, new = (enrol(uri, access(openbao)) for uri in rotated)
    assert old != new
    for uri, public, other in zip(rotated, (old, new), (new, old), strict=True):
        sign(uri, public, access(openbao))
        assert refusal(sign, uri, other, access(openbao)) == "signer.wrong_key"


def test_a_token_that_may_only_sign(openbao: OpenBao, rotated: tuple[str, str]) -> None:
    """That is all that signing needs; to enrol takes the right to read."""
    token = openbao.limited_token('path "transit/sign/rotated" { capabilities = ["update"] }')
    limited = access(openbao, token)
    sign(rotated[1], enrol(rotated[1], access(openbao)), limited)
    assert refusal(enrol, rotated[1], limited, match="permission denied") == "signer.credentials"


@each_case(__file__, "faults", "place", "changes", "code", "words")
@pytest.mark.usefixtures("rotated")
def test_each_fault_has_its_own_message(
    place: str, changes: Any, code: str, words: str, openbao: OpenBao
) -> None:
    """A stable code, and never the token."""
    uri = f"hashivault://{place}" if place else ROTATED
    unset = {name: value or None for name, value in changes.items()}
    silent = f"^(?!.*{openbao.root_token}).*{words}"
    assert refusal(sign, uri, FIRST.public, access(openbao, **unset), match=silent) == code


@each_case(__file__, "not_enrolled", "place", "kind", "code")
@pytest.mark.usefixtures("rotated")
def test_a_public_half_that_cannot_be_enrolled(
    place: str, kind: str, code: str, openbao: OpenBao
) -> None:
    """The wrong place, or a key that signs no card."""
    if kind:
        openbao.make(place.partition("?")[0], kind)
    assert refusal(enrol, f"hashivault://transit/{place}", access(openbao)) == code


def test_no_tls_only_on_this_machine_and_by_leave(tmp_path: Path) -> None:
    """A development server without TLS is asked if the user allows it."""
    with running(tmp_path, tls=False) as plain:
        uri, shut = plain.make("plain", "ecdsa-p256"), access(plain)
        policy = SignerPolicy(format=1, insecure_loopback_http=True)
        enrols_and_signs(uri, "ES256", Access(shut.secrets, policy, shut.environment))
        assert refusal(enrol, uri, shut, match="without TLS") == "config.not_allowed"


def at_port(port: int) -> Access:
    """The user's leave for a server of ours."""
    environment = {"VAULT_ADDR": f"http://127.0.0.1:{port}"}
    policy = SignerPolicy(format=1, insecure_loopback_http=True)
    return Access(lambda kind, of: b"token", policy, environment)


def test_a_server_that_hangs_is_given_up() -> None:
    """Whether it is asked for its key or for a signature."""
    with elsewhere.silent() as port:
        elsewhere.gives_up(sign, ROTATED, FIRST.public, at_port(port))
        elsewhere.gives_up(enrol, ROTATED, at_port(port))


def test_a_token_does_not_travel_on() -> None:
    """A server that leads elsewhere is not followed."""
    asked = list[str]()

    def answer(method: str, path: str, headers: Mapping[str, str], request: Any) -> Answer:
        asked.append(path)
        return 307, {"Location": "/v1/elsewhere"}, {}

    with elsewhere.serving(answer) as port:
        leave = at_port(port)
        assert refusal(sign, ROTATED, FIRST.public, leave) == "signer.failed"
        assert refusal(enrol, ROTATED, leave) == "signer.failed"
    places = [path.partition("/rotated")[0] for path in asked]
    assert places == ["/v1/transit/sign", "/v1/transit/keys"]
