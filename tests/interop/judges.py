"""Talks to the judges: one process each, JSON Lines both ways, a time limit on every answer.

README.md beside this file holds the protocol, `roster.py` which judges there are.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from joserfc.jwk import ECKey, RSAKey

from cardsign.jose.keys import JwkSet, PrivateKey

Outcome = Literal["accepted", "refused", "cannot-parse"]
Path_ = Literal["plain", "resolver", "unconverted"]

#: Seconds. The first answer waits for the SDK to be imported, which takes some two of them.
ANSWER_SECONDS: Final = 60.0
ALGORITHMS: Final = ("ES256", "RS256")

_JOSE_KEYS: Final[dict[str, type[ECKey | RSAKey]]] = {"ES256": ECKey, "RS256": RSAKey}


class JudgeFailed(Exception):
    """A judge did not answer in time, ended, or did not understand the request."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What an SDK made of one card.

    Attributes:
        outcome: Whether a signature was accepted; ``cannot-parse`` comes before any.
        why: For people; empty where it was accepted.
        callable: The card as the SDK holds it names an endpoint.
    """

    outcome: Outcome
    why: str
    callable: bool


class Judge:
    """One judge's process. Close it, or use it in a ``with`` statement."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            bufsize=0,
        )
        self._pending = b""

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the judge, as its input ends."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(ANSWER_SECONDS)
        finally:
            self._process.kill()

    def ask(self, do: str, **members: Any) -> dict[str, Any]:
        """Send one request and wait for its answer.

        Raises:
            JudgeFailed: There is none, or it is an error.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **members}).encode() + b"\n")
        except BrokenPipeError as exc:
            raise JudgeFailed(f"the judge has ended with {self._process.poll()}") from exc
        answer: dict[str, Any] = json.loads(self._line())
        if "error" in answer:
            raise JudgeFailed(answer["error"])
        return answer

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + ANSWER_SECONDS
        while b"\n" not in self._pending:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left)[0]:
                raise JudgeFailed(f"no answer within {ANSWER_SECONDS:.0f} s")
            received = os.read(self._process.stdout.fileno(), 1 << 16)
            if not received:
                raise JudgeFailed(f"the judge has ended with {self._process.wait()}")
            self._pending += received
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    # -------------------------------------------------------------- the requests, typed

    def version(self) -> dict[str, Any]:
        """Its SDK: `name` and `version`, and those that run `beside` it."""
        return self.ask("version")

    def verify(self, card: bytes, keys: JwkSet, *, path: Path_ = "plain") -> Finding:
        """Have the SDK verify a card with these keys, as it does on `path`."""
        jwks = json.loads(keys.to_bytes())
        answer = self.ask("verify", card=card.decode(), jwks=jwks, path=path, algorithms=ALGORITHMS)
        assert answer["outcome"] in get_args(Outcome)
        return Finding(**answer)

    def sign(
        self,
        card: bytes,
        jwk: Mapping[str, Any],
        *,
        typ: str | None = "JOSE",
        path: Path_ = "plain",
    ) -> bytes | None:
        """The card with the SDK's signature alone; None where it cannot sign it.

        Args:
            card: Its signatures are replaced.
            jwk: From :func:`private_jwk`; its kid and alg go into the header.
            typ: For the header; None leaves it to the SDK.
            path: How a2a-js comes to hold the card; a2a-sdk has one way only.
        """
        members = {"jwk": jwk, "kid": jwk["kid"], "alg": jwk["alg"], "typ": typ, "path": path}
        try:
            signature = self.ask("sign", card=card.decode(), **members)["signature"]
        except JudgeFailed:
            self.version()  # fails as well where the judge is gone
            return None
        return json.dumps({**json.loads(card), "signatures": [signature]}).encode()

    def payload(self, card: bytes, *, path: Path_ = "plain") -> str | None:
        """The text that the SDK would sign, or None where it has none."""
        payload: str | None = self.ask("canonicalize", card=card.decode(), path=path)["payload"]
        return payload


def private_jwk(key: PrivateKey) -> dict[str, Any]:
    """The key as a private JWK, for a judge to sign with; slow for RSA, so make it once."""
    made = _JOSE_KEYS[key.public.alg].import_key(key.to_pkcs8_der())
    return {**made.as_dict(private=True), "kid": key.public.kid, "alg": key.public.alg}
