"""Verifying, signing and canonicalizing a card, beside the official SDK and doing it by hand.

All verifiers are given the bytes of a card and a key that they trust; all signers the bytes of a
card. Each has to refuse a changed card before it is measured.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from documents import CARDS
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from measuring import JUDGE, Broken, Times, Turn, cpu_seconds, in_turns, ratio, table

from cardsign import JwkSet, NotTrusted, Policy, PrivateKey, canonicalize, sign_card
from cardsign.card.profiles import ProfileName
from cardsign.jose.jwk import encode_base64url
from cardsign.trust.policy import Subject
from cardsign.verify.report import trusted_card
from cardsign.verify.verifier import Verifier

BARE: Final = "the bare primitive"
OURS: Final = "cardsign"
ALONE: Final = "cardsign, one signature"
BY_HAND: Final = "joserfc and rfc8785, by hand"
SDK: Final = "a2a-sdk"
SDK_ALONE: Final = "a2a-sdk, one signature"
_BLOCK: Final = 0.02  # seconds of one turn of the a2a-sdk
_WORKER: Final = Path(__file__).resolve().parent / "sdk_worker.py"


class Sdk:
    """The a2a-sdk in its own process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **request: object) -> Any:
        """Return the answer to one request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise Broken(f"the a2a-sdk would not do: {request['do']}")
        return json.loads(line)

    def refuses(self, card: bytes, jwk: dict[str, Any]) -> bool:
        """Whether it refuses a card."""
        return bool(self.ask(do="refuses", card=card.decode(), jwk=jwk))

    def turn(self, do: str, card: bytes, jwk: dict[str, Any]) -> Turn:
        """Return a turn like that of :func:`measuring.cpu_seconds`, over there."""
        request = {"do": do, "card": card.decode(), "jwk": jwk}
        self.ask(**request, times=3)
        times = max(1, round(_BLOCK / self.ask(**request, times=3)))
        return lambda: float(self.ask(**request, times=times))


@contextmanager
def official_sdk() -> Iterator[Sdk | None]:
    """The a2a-sdk if this machine has it: `make tools` installs it."""
    if not JUDGE:
        yield None
        return
    command = [JUDGE, str(_WORKER)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        yield Sdk(process)  # leaving closes its stdin, which ends it


def measure_cards(sdk: Sdk | None, rounds: int) -> dict[str, str]:
    """Return the tables `verify`, `sign` and `canonicalize`; columns are sizes of cards."""
    key = PrivateKey.generate("ES256")
    verified = {size: _verify(card, key, sdk, rounds) for size, card in CARDS.items()}
    signed = {size: _sign(card, key, sdk, rounds) for size, card in CARDS.items()}
    canonical = {size: _canonicalize(card, rounds) for size, card in CARDS.items()}
    whom = "times the bare primitive"
    verify = [*_rows(verified, BARE, whom, BARE, BY_HAND, ALONE, OURS, SDK_ALONE, SDK)]
    for what, name, to in (
        ("*a2a-sdk, in cardsign's*", SDK, OURS),
        ("*a2a-sdk, one signature, in cardsign's*", SDK_ALONE, ALONE),
        ("*cardsign, one signature, in those by hand*", ALONE, BY_HAND),
    ):
        verify.append([what, *(ratio(times, name, to) for times in verified.values())])
    sign = _rows(signed, BARE, whom, BARE, BY_HAND, ALONE, OURS, SDK)
    rows = _rows(canonical, BY_HAND, "times rfc8785 and json", BY_HAND, *_PROFILES)
    return {"verify": table(*verify), "sign": table(*sign), "canonicalize": table(*rows)}


def _rows(sizes: dict[str, Times], to: str, head: str, *names: str) -> Iterator[list[str]]:
    yield [head, *sizes]
    for name in names:
        yield [name, *(ratio(times, name, to) for times in sizes.values())]


def _verify(card: bytes, key: PrivateKey, sdk: Sdk | None, rounds: int) -> Times:
    """Seconds of CPU from the bytes of a card to a verdict.

    A verifier is made once, as that of the a2a-sdk is. So that none remembers a verdict, each card
    ends with other white space than the one before.
    """
    signed, alone = sign_card(card, [key]), sign_card(card, [key], compat="none")
    policy, now = Policy.from_jwks(JwkSet.of([key.public])), datetime.now(UTC)

    verifier = Verifier(policy, clock=lambda: now)
    subject, endings = Subject(issuer=policy.issuers[0].name), cycle((b"", b"\n"))

    def verify(untrusted_bytes: bytes) -> None:
        report = verifier.judge(untrusted_bytes + next(endings), subject, stop_early=True)
        trusted_card(report)

    jwk = key.public.jwk()
    public = ECKey.import_key(jwk)
    changed = alone.replace(b'"version": "2', b'"version": "3', 1)
    _check_refusal(verify, changed, NotTrusted)
    _check_refusal(lambda data: verify_by_hand(data, public), changed, Broken)
    payload = canonicalize(card, "served-as-is").data
    protected = json.loads(alone)["signatures"][0]["protected"]
    signing_input = f"{protected}.{encode_base64url(payload)}".encode()
    signature = key.sign(signing_input)
    turns = {
        BARE: cpu_seconds(lambda: _verify_bare(key, signing_input, signature)),
        OURS: cpu_seconds(lambda: verify(signed)),
        ALONE: cpu_seconds(lambda: verify(alone)),
        BY_HAND: cpu_seconds(lambda: verify_by_hand(alone, public)),
    }
    if sdk is not None:
        if not sdk.refuses(signed.replace(b'"version": "2', b'"version": "3', 1), jwk):
            raise Broken("the a2a-sdk takes a changed card")
        turns[SDK] = sdk.turn("verify", signed, jwk)
        if not sdk.refuses(alone, jwk):  # as it does where its reading is another one
            turns[SDK_ALONE] = sdk.turn("verify", alone, jwk)
    return in_turns(turns, rounds)


def _sign(card: bytes, key: PrivateKey, sdk: Sdk | None, rounds: int) -> Times:
    """Seconds of CPU from the bytes of a card to those of a signed one."""
    private = ECKey.import_key(key.to_pkcs8_der())
    kid = key.public.kid
    verify_by_hand(sign_by_hand(card, private, kid), private)
    signing_input = b"." + encode_base64url(canonicalize(card, "served-as-is").data).encode()
    turns = {
        BARE: cpu_seconds(lambda: key.sign(signing_input)),
        OURS: cpu_seconds(lambda: sign_card(card, [key])),
        ALONE: cpu_seconds(lambda: sign_card(card, [key], compat="none")),
        BY_HAND: cpu_seconds(lambda: sign_by_hand(card, private, kid)),
    }
    if sdk is not None:
        jwk = {**private.as_dict(private=True), "kid": kid, "alg": "ES256"}
        turns[SDK] = sdk.turn("sign", card, jwk)
    return in_turns(turns, rounds)


_PROFILES: Final[tuple[ProfileName, ...]] = ("served-as-is", "rule-1-as-written", "prune-empty")


def _canonicalize(card: bytes, rounds: int) -> Times:
    """Seconds of CPU from the bytes of a card to those of a payload."""
    turns = {BY_HAND: cpu_seconds(lambda: rfc8785.dumps(json.loads(card)))}
    for name in _PROFILES:
        turns[name] = cpu_seconds(partial(canonicalize, card, name))
    return in_turns(turns, rounds)


def _verify_bare(key: PrivateKey, signing_input: bytes, signature: bytes) -> None:
    native = key.public.native
    assert isinstance(native, EllipticCurvePublicKey)
    numbers = (int.from_bytes(signature[:32]), int.from_bytes(signature[32:]))
    native.verify(encode_dss_signature(*numbers), signing_input, ECDSA(SHA256()))


def verify_by_hand(untrusted_bytes: bytes, key: ECKey) -> None:
    """What people write in ten lines; it knows one reading of the specification, and no lies."""
    card = json.loads(untrusted_bytes)
    signatures = card.pop("signatures")
    payload = rfc8785.dumps(card)
    for entry in signatures:
        token = f"{entry['protected']}..{entry['signature']}"
        try:
            jws.deserialize_compact(token, key, payload=payload, algorithms=["ES256"])
        except JoseError:
            continue
        return
    raise Broken("no signature is good")


def sign_by_hand(document: bytes, key: ECKey, kid: str) -> bytes:
    """The other half."""
    card = json.loads(document)
    header = {"alg": "ES256", "kid": kid, "typ": "JOSE"}
    compact = jws.serialize_compact(header, rfc8785.dumps(card), key)
    protected, _, signature = compact.split(".")
    card["signatures"] = [{"protected": protected, "signature": signature}]
    return json.dumps(card, ensure_ascii=False).encode()


def _check_refusal(
    verify: Callable[[bytes], None], changed: bytes, refusal: type[Exception]
) -> None:
    try:
        verify(changed)
    except refusal:
        return
    raise Broken("a verifier takes a changed card")
