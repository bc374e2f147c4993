"""Cards, keys and publications that the tests of publishing and serving share."""

from __future__ import annotations

import copy
import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cardsign import sign_card
from cardsign.card.extensions import ExtendedMarker, with_marker
from cardsign.card.values import jcs
from cardsign.jose.jws import Signer
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.publish.generation import Generation, load_current
from cardsign.publish.publication import Documents, publish_generation
from cardsign.statements.release import read_release, sign_release

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)

#: The card of A2A 1.0, and the same agent's for clients of 0.3.
PUBLIC, PUBLIC_0_3 = (
    json.loads(Path(__file__).with_name(f"card-{version}.json").read_bytes())
    for version in ("1.0", "0.3")
)


def with_skill(card: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The same card with one skill more."""
    extended = copy.deepcopy(dict(card))
    extended["skills"].append(
        {"id": name, "name": name, "description": f"Only for {name}.", "tags": ["sea"]}
    )
    return extended


def sign(card: Mapping[str, Any], *signers: PrivateKey) -> bytes:
    """The card's signed bytes."""
    return sign_card(json.dumps(card).encode(), signers)


def extended_card(
    card: Mapping[str, Any], audience: str, exp: datetime = NOW + timedelta(days=30)
) -> dict[str, Any]:
    """The card with one skill more, marked for an audience."""
    marker = ExtendedMarker(audience, seq=1, exp=int(exp.timestamp()))
    return with_marker(with_skill(card, audience), marker)


def publish_cards(
    directory: Path,
    key: PrivateKey,
    card: Mapping[str, Any] = PUBLIC,
    *audiences: str,
    now: datetime = NOW,
    exp: datetime | None = None,
    older: bytes | None = None,
) -> Generation:
    """Sign and publish a card, one extended card for each audience, and one for clients of 0.3.

    By default they last 30 days by the real clock too, which a mounted or started server reads.
    """
    exp = exp or max(now, datetime.now(UTC)) + timedelta(days=30)
    return publish_generation(
        Documents(
            sign(card, key),
            JwkSet.of([key.public]),
            extended={name: sign(extended_card(card, name, exp), key) for name in audiences},
            legacy_card=older,
        ),
        directory,
        now=now,
    )


@contextmanager
def failing_after(calls: int, *names: str) -> Iterator[None]:
    """Let these functions of `os` fail once there were so many calls, as mounted storage may."""
    left = iter(range(calls))

    def failing(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if next(left, None) is None:
                raise OSError(errno.EIO, "Input/output error")
            return real(*arguments, **named)

        return call

    with ExitStack() as patches:
        for name in names:
            patches.enter_context(patch.object(os, name, failing(getattr(os, name))))
        yield


def put_in_place(directory: Path, generation: Generation) -> None:
    """Put another one in the place of what is published, as anyone who can write there may."""
    folder = directory / generation.folder
    for name, data in generation.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    (directory / "current").write_bytes(generation.manifest())


def fast_forward(directory: Path, stolen: Signer) -> int:
    """Publish the last release that can have a number; give the number of the one before."""
    published = load_current(directory)
    newest = read_release(published.release or b"")
    last = {**json.loads(newest.envelope.payload), "seq": 2**53 - 1}
    forged = sign_release(jcs(last), [stolen])
    put_in_place(directory, replace(published, files={**published.files, "release.json": forged}))
    return newest.seq
