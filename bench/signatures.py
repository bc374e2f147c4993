"""Signing and verifying a card, beside the official SDK and beside doing it by hand.

All verifiers are given the bytes of a card and a key that they trust; all signers the bytes of a
card. What each looks at is not the same: see docs/reports/performance.md. Each has to refuse a
changed card before it is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import rfc8785
from documents import portable_card
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey
from measuring import CARDSIGN, FAST, Broken, Times, Turn, by_encoder, cpu_seconds, in_turns

from cardsign import JwkSet, NotTrusted, Policy, PrivateKey, sign_card
from cardsign.card import Compat
from cardsign.jose import encode
from cardsign.trust import Holder
from cardsign.verify import VerdictCache, reach_verdict, trusted_card

BARE: Final = "the bare primitive"
#: Marks a card that was signed with `--compat none`: as it stands, and in no other reading.
ALONE: Final = ", one signature"
AGAIN: Final = "cardsign, the same bytes again"
NONE: Final = "cardsign, `--compat none`"
BY_HAND: Final = "joserfc and rfc8785, by hand"
SDK: Final = "a2a-sdk"

_HERE: Final = Path(__file__).resolve().parent
_BLOCK: Final = 0.02  # seconds of one turn: far more than a clock's tick, far less than a pause


class Sdk:
    """The a2a-sdk in its own process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, **request: object) -> dict[str, Any]:
        """One request and its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise Broken(f"the a2a-sdk would not do: {request['do']}")
        return dict(json.loads(line))

    def refuses(self, card: bytes, jwk: dict[str, Any]) -> bool:
        """Whether it refuses a card."""
        return bool(self.ask(do="refuses", card=card.decode(), jwk=jwk)["refused"])

    def turn(self, do: str, card: bytes, jwk: dict[str, Any]) -> Turn:
        """As :func:`measuring.cpu_seconds`, over there."""
        request = {"do": do, "card": card.decode(), "jwk": jwk}
        self.ask(**request, times=3)
        times = max(1, round(_BLOCK / self.ask(**request, times=3)["seconds"]))
        return lambda: float(self.ask(**request, times=times)["seconds"])


@contextmanager
def official_sdk() -> Iterator[Sdk | None]:
    """The a2a-sdk if this machine has it: CARDSIGN_JUDGE_PY names an interpreter that does."""
    python = os.environ.get("CARDSIGN_JUDGE_PY")
    if not python:
        yield None
        return
    with subprocess.Popen(
        [python, str(_HERE / "sdk_worker.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Sdk(process)  # leaving closes its stdin, which ends it


@dataclass(frozen=True, slots=True)
class Case:
    """A card and a key."""

    card: bytes
    key: PrivateKey

    def signed(self, compat: Compat = "safe") -> bytes:
        """The card as cardsign signs it."""
        return sign_card(self.card, [self.key], compat=compat)

    def jwk(self, *, private: bool) -> dict[str, Any]:
        """The key, for others."""
        if not private:
            return self.key.public.jwk()
        made = ECKey.import_key(self.key.to_pkcs8_der()).as_dict(private=True)
        return {**made, "kid": self.key.public.kid, "alg": self.key.public.alg}


def verifying(case: Case, sdk: Sdk | None, rounds: int) -> Times:
    """How long it takes from the bytes of a card to a verdict; seconds of CPU."""
    signed, alone, key = case.signed(), case.signed("none"), case.key.public
    policy = Policy.from_jwks(JwkSet.of([key]), name="bench")
    now, seen = datetime.now(UTC), VerdictCache()

    def ours(untrusted_bytes: bytes = signed, cache: VerdictCache | None = None) -> None:
        report = reach_verdict(
            untrusted_bytes,
            expect=Holder(),
            policy=policy,
            now=now,
            cache=cache,
            stop_early=True,
        )
        trusted_card(report)

    public = ECKey.import_key(case.jwk(private=False))
    _refuses(ours, _changed(signed), NotTrusted)
    _refuses(lambda card: verify_by_hand(card, public), _changed(signed), Broken)
    signing_input = b"." + encode(rfc8785.dumps(json.loads(case.card))).encode()
    signature = case.key.sign(signing_input)
    turns = {
        BARE: cpu_seconds(lambda: key.check(signing_input, signature), of_about=_BLOCK),
        **{
            f"{name}{plan}": by_encoder(name, partial(ours, card), of_about=_BLOCK)
            for plan, card in (("", signed), (ALONE, alone))
            for name in (CARDSIGN, FAST)
        },
        AGAIN: cpu_seconds(lambda: ours(cache=seen), of_about=_BLOCK),
        BY_HAND: cpu_seconds(lambda: verify_by_hand(signed, public), of_about=_BLOCK),
    }
    if sdk is not None:
        jwk = case.jwk(private=False)
        if not sdk.refuses(_changed(signed), jwk):
            raise Broken("the a2a-sdk takes a changed card")
        turns[SDK] = sdk.turn("verify", signed, jwk)
        if not sdk.refuses(alone, jwk):  # as it does where its reading is another one
            turns[f"{SDK}{ALONE}"] = sdk.turn("verify", alone, jwk)
    return in_turns(turns, rounds)


def signing(case: Case, sdk: Sdk | None, rounds: int) -> Times:
    """How long it takes from the bytes of a card to those of a signed one; seconds of CPU."""
    private = ECKey.import_key(case.key.to_pkcs8_der())
    kid = case.key.public.kid
    verify_by_hand(sign_by_hand(case.card, private, kid), private)
    signing_input = b"." + encode(rfc8785.dumps(json.loads(case.card))).encode()
    turns = {
        BARE: cpu_seconds(lambda: case.key.sign(signing_input), of_about=_BLOCK),
        CARDSIGN: by_encoder(CARDSIGN, case.signed, of_about=_BLOCK),
        NONE: by_encoder(NONE, lambda: case.signed("none"), of_about=_BLOCK),
        BY_HAND: cpu_seconds(lambda: sign_by_hand(case.card, private, kid), of_about=_BLOCK),
    }
    if sdk is not None:
        turns[SDK] = sdk.turn("sign", case.card, case.jwk(private=True))
    return in_turns(turns, rounds)


def signing_by_rsa(rounds: int) -> Times:
    """The same with RS256, whose primitive takes nearly all of the time; cardsign alone."""
    key, card = PrivateKey.generate("RS256"), portable_card()
    payload = b"." + encode(rfc8785.dumps(json.loads(card))).encode()
    turns = {
        BARE: cpu_seconds(lambda: key.sign(payload), of_about=_BLOCK),
        CARDSIGN: cpu_seconds(lambda: sign_card(card, [key]), of_about=_BLOCK),
        NONE: cpu_seconds(lambda: sign_card(card, [key], compat="none"), of_about=_BLOCK),
    }
    return in_turns(turns, rounds)


def verify_by_hand(untrusted_bytes: bytes, key: ECKey) -> None:
    """What people write in ten lines; it knows one reading of the specification, and no lies."""
    card = json.loads(untrusted_bytes)
    signatures = card.pop("signatures")
    payload = encode(rfc8785.dumps(card))
    for one in signatures:
        try:
            jws.deserialize_compact(f"{one['protected']}.{payload}.{one['signature']}", key)
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


def _changed(signed: bytes) -> bytes:
    changed = signed.replace(b'"version": "2', b'"version": "3', 1)
    if changed == signed:
        raise Broken("the card could not be changed")
    return changed


def _refuses(verify: Callable[[bytes], None], changed: bytes, refusal: type[Exception]) -> None:
    try:
        verify(changed)
    except refusal:
        return
    raise Broken("a verifier takes a changed card")
