"""The one anchor of an enrolment, from what was handed over or was met at a URL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from cardsign.cli.live import make_asker
from cardsign.cli.options import of_the_user
from cardsign.cli.talk import safe
from cardsign.errors import NoVerdict, UsageFault
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.jose.keyset import KeysetStatement, read_keyset
from cardsign.jose.members import HOLDER
from cardsign.jose.release import ReleaseStatement, read_release
from cardsign.jose.statements import MAX_STATEMENT_BYTES
from cardsign.jose.succession import RootPin, StatementPin
from cardsign.trust.anchors import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor, TofuAnchor
from cardsign.trust.enrolling import newest_keyset, newest_release
from cardsign.trust.establish import establish
from cardsign.trust.known import TransientMemory
from cardsign.trust.origins import Url, parse_url
from cardsign.trust.places import Place
from cardsign.trust.policy import Enrolment, Limits
from cardsign.trust.refresh import refresh

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Statement = TypeVar("_Statement", KeysetStatement, ReleaseStatement)
_FILE = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class Source:
    """The anchor that was asked for, and what it rests on."""

    anchor: Anchor
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    warnings: list[str] = field(default_factory=list)


def anchor_options(command: _Command) -> _Command:
    """What names the anchor: at most one kind of them."""
    for option in (
        click.option(
            "--holder",
            "holders",
            multiple=True,
            metavar="KID=NAME",
            help="Who holds a key of --jwks. May be repeated.",
        ),
        click.option("--tofu", is_flag=True, help="Keep what the first contact gives."),
        click.option(
            "--jwks-url", metavar="URL", help="Believe whatever key set is published there."
        ),
        click.option("--jwks", type=_FILE, metavar="FILE", help="Pin the keys of a JWK Set."),
        click.option(
            "--roots",
            is_flag=True,
            help="Pin the root set of --keyset or URL instead of the statement.",
        ),
        click.option(
            "--release",
            "releases",
            multiple=True,
            type=_FILE,
            metavar="FILE",
            help="A release statement under that keyset. May be repeated.",
        ),
        click.option(
            "--keyset",
            "keysets",
            multiple=True,
            type=_FILE,
            metavar="FILE",
            help="Pin a keyset statement: of several, which must follow one another, the newest.",
        ),
    ):
        command = option(command)
    return command


def named_source(
    met: Url | None,
    *,
    keysets: tuple[Path, ...],
    releases: tuple[Path, ...],
    roots: bool,
    jwks: Path | None,
    jwks_url: str | None,
    tofu: bool,
    holders: tuple[str, ...],
    insecure_loopback_http: bool,
    limits: Limits,
    now: datetime,
) -> Source:
    """The anchor that the command line names; `met` is the URL of a peer to be met, if any.

    Raises:
        UsageFault: ``usage.conflict``, or what a file that was named is refused for.
        NoVerdict: ``trust.no_keys``: there is no keyset statement at the URL.
    """
    skew = timedelta(seconds=limits.skew)
    named = sum(map(bool, (keysets, jwks, jwks_url, tofu)))
    if named > 1 or (named == 0 and met is None):
        expected = "expected exactly one of --keyset, --jwks, --jwks-url and --tofu, or a URL"
        raise UsageFault("usage.conflict", expected)
    if (releases or (roots and named)) and not keysets:
        raise UsageFault(
            "usage.conflict", "--release goes with --keyset, --roots with --keyset or a URL"
        )
    if holders and jwks is None:
        raise UsageFault("usage.conflict", "--holder goes with --jwks")
    if keysets:
        return _by_keyset(keysets, releases, roots, now, skew)
    if jwks is not None:
        return _by_keys(jwks, holders)
    if jwks_url is not None:
        with of_the_user("--jwks-url"):
            parse_url(jwks_url)
        return Source(JwksAnchor(jwks_url))
    if met is not None and not tofu:
        return _by_meeting(met, roots, limits, now, insecure_loopback_http)
    unmet = "whoever answers the first cardsign verify URL is believed from then on"
    return Source(TofuAnchor(), warnings=[unmet])


def _by_keyset(
    keysets: tuple[Path, ...],
    releases: tuple[Path, ...],
    roots: bool,
    now: datetime,
    skew: timedelta,
) -> Source:
    statements = [_read(path, read_keyset) for path in keysets]
    with of_the_user("--keyset "):
        keyset = newest_keyset(statements, now=now, skew=skew)
    read = [_read(path, read_release) for path in releases]
    with of_the_user("--release "):
        release = newest_release(read, keyset, now=now, skew=skew)
    return _pinned(keyset, release, roots, now)


def _by_meeting(
    url: Url, roots: bool, limits: Limits, now: datetime, insecure_loopback_http: bool
) -> Source:
    """What the peer's own origin publishes now; whether it is genuine a person has to say."""
    asker = make_asker(lambda: now, insecure_loopback_http)
    home = str(url.origin)
    brought = refresh(limits, None, None, asker, home=home, now=now)
    stranger = Enrolment("stranger", TofuAnchor(), (Place(url.origin),))
    with TransientMemory().of(stranger) as memo:
        standing = establish(stranger, limits, brought.evidence, memo, now=now)
    if standing.keyset is None:
        why = next((reason.message for reason in (*brought.reasons, *standing.notes)), "")
        raise NoVerdict(
            "trust.no_keys",
            f"{home} publishes no keyset statement that could be pinned" + (why and f": {why}"),
            hint="Enrol it by keys instead: --jwks FILE, --jwks-url URL or --tofu; docs/trust.md "
            "says what that leaves open.",
        )
    source = _pinned(standing.keyset, standing.release, roots, now)
    found = dict.fromkeys((*brought.reasons, *standing.notes))
    source.warnings.extend(
        f"{one.code}: {safe(one.message, limit=300)}"
        for one in found
        if one.code != "trust.tofu_first"  # which is what the user asked for
    )
    return source


def _pinned(
    keyset: KeysetStatement, release: ReleaseStatement | None, roots: bool, now: datetime
) -> Source:
    pin = (
        RootPin.of(keyset.root)
        if roots
        else StatementPin(keyset.epoch, keyset.version, keyset.digest)
    )
    source = Source(KeysetAnchor(pin, keyset.issuer), keyset, release)
    for kind, statement in (("keyset", keyset), ("release", release)):
        if statement is not None and now.timestamp() >= statement.exp:
            source.warnings.append(f"the {kind} statement has expired; ask for a newer one")
    return source


def _by_keys(path: Path, holders: tuple[str, ...]) -> Source:
    with of_the_user(str(path)):
        jwks = JwkSet.from_bytes(read_bytes(path, max_bytes=MAX_JWKS_BYTES))
    if not jwks.keys:
        raise UsageFault("jwks.malformed", "the set holds no key to pin", path=str(path))
    named = {}
    for pair in holders:
        kid, _, holder = pair.rpartition("=")
        if jwks.find(kid) is None or not HOLDER.fullmatch(holder):
            kids = ", ".join(key.kid for key in jwks.keys)
            raise UsageFault(
                "usage.conflict",
                f"--holder {pair!r} is not KID=NAME with a kid of the set and a name of "
                "a-z, 0-9, '.', '_', '@' and '-'",
                hint=f"The kids are {kids}.",
            )
        named[kid] = holder
    skipped = [f"the key {one.kid!r} was left out: {one.message}" for one in jwks.skipped]
    return Source(KeysAnchor(JwkSet.of(jwks.keys), named), warnings=skipped)


def _read(path: Path, read: Callable[[bytes], _Statement]) -> _Statement:
    with of_the_user(str(path)):
        return read(read_bytes(path, max_bytes=MAX_STATEMENT_BYTES))
