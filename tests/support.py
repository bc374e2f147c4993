"""Cards, signatures and verdicts in few words, for the tests of signing and verifying."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from cardsign.card.profiles import FULL_PROFILES, canonicalize
from cardsign.card.values import append, split
from cardsign.jose.jwk import encode_base64url
from cardsign.jose.jws import Signer, sign_payload
from cardsign.jose.keys import JwkSet, PrivateKey, PublicKey
from cardsign.sign import SignedCard, SigningOptions, sign_document
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.lock import Floor, Memory
from cardsign.trust.policy import Accept, Policy, Subject, TrustedIssuer
from cardsign.trust.session import Session
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


def rsa_key(kid: str | None = None) -> PrivateKey:
    """An RSA key of the least size that is accepted: whoever reads it tests its primes anew."""
    native = rsa.generate_private_key(65537, 2048)
    data = native.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return PrivateKey.from_pkcs8_der(data, kid=kid)


def cheap_envelopes(patch: pytest.MonkeyPatch) -> None:
    """Let envelopes cost nothing to seal and to open: what they withstand is tested elsewhere."""
    patch.setattr("cardsign.keys.passphrases.SCRYPT_N", 2)


def read_statements_once(patch: pytest.MonkeyPatch) -> None:
    """Let the same statements be read and checked once, for an issuer who asks again and again.

    What is refused is read each time.
    """
    patch.setattr(PublicKey, "check", functools.cache(PublicKey.check))
    for read in (read_keyset, read_release):
        once = functools.lru_cache(maxsize=1024)(read)
        for room in ("keys.history", "publish.publication", "trust.session"):
            patch.setattr(f"cardsign.{room}.{read.__name__}", once)


def stop_clock(patch: pytest.MonkeyPatch, now: datetime) -> None:
    """Stop the clock of every command, where the command line and its verifier read it."""
    stopped = SimpleNamespace(now=lambda zone: now.astimezone(zone))
    patch.setattr("cardsign.cli.frame.datetime", stopped)
    patch.setitem(Verifier.__init__.__kwdefaults__, "clock", lambda: now)


#: The five cards of which most tests of cards are made. The default profiles agree on the bytes
#: of the first; the second holds defaults besides, which rule 1 drops and which leave nothing open;
#: the third is as most real cards are: empties, a vendor's member, a requirement without scopes.
#: That of 0.3 has a requirement that a2a-sdk's rewriting keeps. The last is for both versions, as
#: a2a-sdk's server publishes it: the 0.3 members say what the 1.0 ones say, and only those are in
#: its payload.
CARDS: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("cards.json").read_text())
PORTABLE, WITH_DEFAULTS, LAX, OLD, DUAL = CARDS.values()
each_card = pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)


def dump(card: Mapping[str, Any]) -> bytes:
    """The card as bytes."""
    return json.dumps(card).encode()


def signed(card: Mapping[str, Any], *signers: Signer, **options: Any) -> dict[str, Any]:
    """The card with our signatures, as :class:`SigningOptions` says."""
    document = sign_document(dump(card), signers, SigningOptions(**options))
    parsed: dict[str, Any] = json.loads(document)
    return parsed


def profiles_of(signing: SignedCard) -> tuple[str, ...]:
    """The profiles that have a signature, in the order of the signatures."""
    return tuple(payload.profile for payload in signing.payloads)


def one_signature(
    card: Mapping[str, Any], signer: Signer, profile: str, *, typ: str = "JOSE"
) -> dict[str, str]:
    """A signature over one profile's payload under any typ, as other implementations make them."""
    return sign_payload(canonicalize(card, profile).data, signer, typ=typ)


def by_another_sdk(
    card: Mapping[str, Any], signer: Signer, *profiles: str, typ: str = "JOSE"
) -> dict[str, Any]:
    """The card with one unmarked signature for each profile."""
    entries = [one_signature(card, signer, profile, typ=typ) for profile in profiles]
    return {**card, "signatures": entries}


def under_header(
    card: Mapping[str, Any], key: PrivateKey, header: Mapping[str, Any], *, profile: str
) -> dict[str, Any]:
    """The card with one signature under any protected header at all."""
    protected = encode_base64url(dump(header))
    payload = encode_base64url(canonicalize(card, profile).data)
    signature = encode_base64url(key.sign(f"{protected}.{payload}".encode("ascii")))
    return {**card, "signatures": [{"protected": protected, "signature": signature}]}


def trusting(*keys: PrivateKey, profiles: tuple[str, ...] = FULL_PROFILES) -> Policy:
    """The policy that pins these keys and waives freshness."""
    jwks = JwkSet.of(key.public for key in keys)
    accept: Accept = "full" if set(profiles) <= set(FULL_PROFILES) else "sdk"
    return Policy.from_jwks(jwks, name="the harbour", accept=accept, only=profiles)


def examine(
    card: Mapping[str, Any] | bytes, *keys: PrivateKey, profiles: tuple[str, ...] = FULL_PROFILES
) -> Report:
    """The verdict of somebody who pins these keys."""
    document = card if isinstance(card, bytes) else dump(card)
    policy = trusting(*keys, profiles=profiles)
    return reach_verdict(document, expect=holder_of(policy), policy=policy, now=NOW)


class Remembering:
    """What one verifier of one policy knows from verdict to verdict.

    Args:
        floors: What the lock says, by issuer.
        cache: Statements of before.
    """

    def __init__(
        self, floors: Mapping[str, Floor] | None = None, cache: Path | None = None
    ) -> None:
        self.floors, self.cache = floors, cache
        self.now = NOW
        self._verifier: Verifier | None = None

    def verifier(self, policy: Policy) -> Verifier:
        """The verifier, which is made at the first question."""
        if self._verifier is None:
            self._verifier = Verifier(
                policy, lock=Memory(self.floors), cache=self.cache, clock=lambda: self.now
            )
        assert self._verifier.policy is policy or self._verifier.policy == policy
        return self._verifier

    def session(self, issuer: TrustedIssuer) -> Session:
        """What is known of an issuer."""
        verifier = self._verifier or self.verifier(Policy((issuer,)))
        return verifier.session(verifier.policy.issuer(issuer.name))


def holder_of(policy: Policy) -> Subject:
    """The only issuer of a policy."""
    return Subject(issuer=policy.issuers[0].name)


def reach_verdict(
    card: bytes,
    *,
    expect: Subject | None,
    policy: Policy,
    now: datetime,
    supplied: SuppliedStatements = NO_STATEMENTS,
    memory: Remembering | None = None,
    **how: Any,
) -> Report:
    """The verdict of somebody who has this policy, and knows nothing else unless he remembers."""
    memory = memory or Remembering()
    memory.now = now
    at = now if how.pop("historic", False) else None
    return memory.verifier(policy).judge(card, expect or Subject(), supplied, at=at, **how)


def codes(report: Report) -> list[str]:
    """The codes of a verdict's reasons, weightiest first."""
    return [reason.code for reason in report.reasons]


def fail_with(number: int) -> Callable[..., None]:
    """A system call that always fails."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def count_calls(work: Callable[[], object]) -> int:
    """How many functions a piece of work calls the second time, those of the interpreter too."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    work()  # what is filled once is no part of it
    gc.disable()  # hypothesis is called at each collection
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


# ------------------------------------------------------------------ editing


def pointers(value: Any, base: str = "") -> Iterator[str]:
    """Every pointer into a JSON value but the root's."""
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for token, child in children:
        where = append(base, token)
        yield where
        yield from pointers(child, where)


def at(value: Any, pointer: str) -> Any:
    """The value at a pointer."""
    for token in split(pointer):
        value = value[int(token)] if isinstance(value, list) else value[token]
    return value


def _owner(card: Any, pointer: str) -> tuple[Any, Any]:
    """The object or list in which a place stands, and its name or number there."""
    *above, last = split(pointer)
    for token in above:
        card = card[int(token)] if isinstance(card, list) else card[token]
    return card, int(last) if isinstance(card, list) else last


def put(card: Mapping[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    """A copy of the card with a member set, or a list's element replaced or added at the end."""
    changed = copy.deepcopy(dict(card))
    owner, name = _owner(changed, pointer)
    if isinstance(owner, list) and name == len(owner):
        owner.append(None)
    owner[name] = value
    return changed


def without(card: Mapping[str, Any], pointer: str) -> dict[str, Any]:
    """A copy of the card without a member or element."""
    changed = copy.deepcopy(dict(card))
    owner, name = _owner(changed, pointer)
    del owner[name]
    return changed


def edited(card: Mapping[str, Any], edits: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """A copy of the card with values at these places; a place without a value is taken out."""
    for pointer, *values in edits:
        card = put(card, pointer, *values) if values else without(card, pointer)
    return dict(card)


def read_cases(test: str) -> dict[str, Any]:
    """The tables of cases that lie beside a test module, by name; a case is a line."""
    path = Path(test)
    data = path.with_name(path.stem.removeprefix("test_"))
    tables: dict[str, Any]
    if (text := data.with_suffix(".toml")).exists():
        tables = tomllib.loads(text.read_text("utf-8"))
    else:
        tables = json.loads(data.with_suffix(".json").read_text("utf-8"))
    return tables


def each_case(test: str, table: str, *arguments: str) -> pytest.MarkDecorator:
    """The mark that runs a test with every case of a table beside its module."""
    cases = read_cases(test)[table]
    return pytest.mark.parametrize(",".join(arguments), [*cases.values()], ids=[*cases])


def der_from_raw(raw: bytes) -> bytes:
    """Return as DER what holds r and s, half of the bytes each."""
    half = len(raw) // 2
    return encode_dss_signature(int.from_bytes(raw[:half]), int.from_bytes(raw[half:]))


def native(private: PrivateKey) -> Any:
    """A private key as `cryptography` holds it."""
    return load_der_private_key(private.to_pkcs8_der(), None)


def private_jwk(private: PrivateKey, **members: Any) -> bytes:
    """A private JWK, with more members."""
    numbers = native(private).private_numbers()
    d = numbers.private_value if private.public.alg == "ES256" else numbers.d
    size = 32 if private.public.alg == "ES256" else (d.bit_length() + 7) // 8
    jwk = {**private.public.jwk(), "d": encode_base64url(d.to_bytes(size)), **members}
    return json.dumps(jwk).encode()


def private_pem(private: PrivateKey) -> bytes:
    """A private key as PKCS #8 PEM, not encrypted."""
    return bytes(native(private).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def encrypted_pem(private: PrivateKey, passphrase: str) -> bytes:
    """A private key as encrypted PKCS #8 PEM."""
    sealing = BestAvailableEncryption(passphrase.encode())
    return bytes(native(private).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealing))


def workers_of(pid: int) -> set[int]:
    """The processes that a server has started, but for the tracker that multiprocessing may add."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    started = set[int]()
    for child in children:
        # One that has died since has no folder, or none that can be read.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if b"resource_tracker" not in Path(f"/proc/{child}/cmdline").read_bytes():
                started.add(int(child))
    return started
