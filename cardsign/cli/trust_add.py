"""``cardsign trust add``: enrol one issuer by one anchor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from cardsign.card.canonical import DEFAULT_PROFILES
from cardsign.cli.options import json_option, of_the_user
from cardsign.cli.policy import (
    LoadedPolicy,
    directory_memory,
    needed_policy,
    state_option,
    trust_option,
)
from cardsign.cli.talk import print_json, say
from cardsign.cli.trust_showing import keyset_lines, keyset_members, kind_of, say_if_old
from cardsign.errors import UsageFault
from cardsign.files import read_bytes
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.jose.keyset import KeysetStatement, read_keyset
from cardsign.jose.members import HOLDER
from cardsign.jose.release import ReleaseStatement, read_release
from cardsign.jose.statements import MAX_STATEMENT_BYTES
from cardsign.jose.succession import RootPin, StatementPin
from cardsign.trust.anchors import Anchor, JwksAnchor, KeysAnchor, KeysetAnchor, TofuAnchor
from cardsign.trust.enrolling import first_known, newest_keyset, newest_release
from cardsign.trust.lock import ISSUER_NAME, lock_of, raise_floors
from cardsign.trust.origins import parse_url
from cardsign.trust.places import parse_place
from cardsign.trust.policyedit import edit_policy, plus, with_issuer
from cardsign.trust.policyfile import parse_policy

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Statement = TypeVar("_Statement", KeysetStatement, ReleaseStatement)
_FILE = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class _Source:
    """The anchor that was asked for, and what it rests on."""

    anchor: Anchor
    keyset: KeysetStatement | None = None
    release: ReleaseStatement | None = None
    warnings: list[str] = field(default_factory=list)


def _anchor_options(command: _Command) -> _Command:
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
            "--roots", is_flag=True, help="Pin the root set of --keyset instead of the statement."
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


@click.command()
@click.argument("name")
@click.option(
    "--origin",
    "origins",
    multiple=True,
    required=True,
    metavar="ORIGIN",
    help="Where its cards and interfaces may stand: https://host, or https://host/path/ for "
    "what lies below it. May be repeated.",
)
@_anchor_options
@click.option(
    "--require",
    multiple=True,
    metavar="HOLDER",
    help="Holders who must all have signed a card. May be repeated.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Choice(DEFAULT_PROFILES),
    help="The profiles that count, instead of the two full ones. May be repeated.",
)
@click.option(
    "--algorithm",
    "algorithms",
    multiple=True,
    type=click.Choice(tuple(ALGORITHMS)),
    help="The algorithms that count, instead of ES256 and RS256. May be repeated.",
)
@click.option(
    "--freshness",
    type=click.Choice(["required", "waived"]),
    help="Whether a card must be known to be current [default: required with --keyset, and "
    "waived with what cannot show it].",
)
@trust_option
@state_option
@json_option
def add(
    name: str,
    origins: tuple[str, ...],
    trust_file: Path | None,
    state_dir: Path | None,
    as_json: bool,
    require: tuple[str, ...],
    profiles: tuple[str, ...],
    algorithms: tuple[str, ...],
    freshness: str | None,
    **sources: Any,
) -> None:
    """Enrol NAME by one anchor: --keyset, --jwks, --jwks-url or --tofu.

    Policy, lock and memory are written together. With --keyset, compare what is printed with
    the issuer over another channel: nothing else shows that the first statement is genuine.
    """
    loaded = needed_policy(trust_file)
    _check_name(loaded, name)
    for origin in origins:
        with of_the_user("--origin"):
            parse_place(origin)
    skew = timedelta(seconds=loaded.policy.limits.skew)
    source = _source(now=datetime.now(UTC), skew=skew, **sources)
    if freshness is None and not isinstance(source.anchor, KeysetAnchor):
        freshness = "waived"
        source.warnings.append(
            "freshness is waived: revocation and rollback cannot be seen with this anchor"
        )
    given = {
        "name": name,
        "origins": list(origins),
        "profiles": list(profiles),
        "algorithms": list(algorithms),
        "require": list(require),
        "freshness": freshness,
    }
    _enrol(loaded, {member: one for member, one in given.items() if one}, source, state_dir)
    _tell(loaded, name, source, as_json)


def _enrol(
    loaded: LoadedPolicy, members: dict[str, Any], source: _Source, state_dir: Path | None
) -> None:
    """Write memory and lock, and the policy last: without it the others mean nothing."""
    new = parse_policy(
        with_issuer("format = 1\n", members, source.anchor), source="(the new entry)"
    )
    parse_policy(with_issuer(loaded.text, members, source.anchor), source=str(loaded.path))
    (enrolment,) = new.enrolments
    known = first_known(source.anchor, source.keyset, source.release)
    directory_memory(state_dir, loaded.floors).create(enrolment, known)
    raise_floors(lock_of(loaded.path), {enrolment.name: known.as_floor()})
    edit_policy(
        loaded.path,
        lambda text: with_issuer(text, members, source.anchor),
        lambda policy: plus(policy, new),
    )


def _tell(loaded: LoadedPolicy, name: str, source: _Source, as_json: bool) -> None:
    for warning in source.warnings:
        say(warning)
    say_if_old(source.keyset, datetime.now(UTC))
    if as_json:
        keyset = None if source.keyset is None else keyset_members(source.keyset)
        anchor = kind_of(source.anchor)
        print_json({"name": name, "policy": str(loaded.path), "anchor": anchor, "keyset": keyset})
        return
    if source.keyset is not None:
        click.echo("\n".join(keyset_lines(source.keyset)))
        say("compare the lines above with the issuer over another channel")
    say(f"enrolled {name} in {loaded.path}")


def _check_name(loaded: LoadedPolicy, name: str) -> None:
    if not ISSUER_NAME.fullmatch(name):
        raise UsageFault(
            "usage.conflict",
            f"{name!r} is no name for an issuer; expected 1 to 64 of a-z, 0-9, '.', '_' and '-', "
            "a letter or digit first",
        )
    if any(one.name == name for one in loaded.policy.enrolments):
        raise UsageFault(
            "usage.conflict",
            f"{name!r} is enrolled already",
            path=str(loaded.path),
            hint=f"To move its pin: cardsign trust pin {name}. To enrol it by another anchor: "
            f"cardsign trust remove {name} first.",
        )


# ------------------------------------------------------------------ anchors


def _source(
    *,
    keysets: tuple[Path, ...],
    releases: tuple[Path, ...],
    roots: bool,
    jwks: Path | None,
    jwks_url: str | None,
    tofu: bool,
    holders: tuple[str, ...],
    now: datetime,
    skew: timedelta,
) -> _Source:
    if sum(map(bool, (keysets, jwks, jwks_url, tofu))) != 1:
        raise UsageFault(
            "usage.conflict", "expected exactly one of --keyset, --jwks, --jwks-url and --tofu"
        )
    if (releases or roots) and not keysets:
        raise UsageFault("usage.conflict", "--release and --roots go with --keyset")
    if holders and jwks is None:
        raise UsageFault("usage.conflict", "--holder goes with --jwks")
    if keysets:
        return _by_keyset(keysets, releases, roots, now, skew)
    if jwks is not None:
        return _by_keys(jwks, holders)
    if jwks_url is None:
        unmet = (
            "nothing is fetched by this version, so no first contact can be recorded yet; until "
        )
        unmet += "then every verdict is indeterminate"
        return _Source(TofuAnchor(), warnings=[unmet])
    with of_the_user("--jwks-url"):
        parse_url(jwks_url)
    handed = "nothing is fetched by this version: hand over what the URL gives, cardsign verify "
    handed += "CARD --issuer NAME --jwks FILE"
    return _Source(JwksAnchor(jwks_url), warnings=[handed])


def _by_keyset(
    keysets: tuple[Path, ...],
    releases: tuple[Path, ...],
    roots: bool,
    now: datetime,
    skew: timedelta,
) -> _Source:
    statements = [_read(path, read_keyset) for path in keysets]
    with of_the_user("--keyset "):
        keyset = newest_keyset(statements, now=now, skew=skew)
    read = [_read(path, read_release) for path in releases]
    with of_the_user("--release "):
        release = newest_release(read, keyset, now=now, skew=skew)
    pin = (
        RootPin.of(keyset.root)
        if roots
        else StatementPin(keyset.epoch, keyset.version, keyset.digest)
    )
    source = _Source(KeysetAnchor(pin, keyset.issuer), keyset, release)
    for kind, statement in (("keyset", keyset), ("release", release)):
        if statement is not None and now.timestamp() >= statement.exp:
            source.warnings.append(f"the {kind} statement has expired; ask for a newer one")
    return source


def _by_keys(path: Path, holders: tuple[str, ...]) -> _Source:
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
    return _Source(KeysAnchor(JwkSet.of(jwks.keys), named), warnings=skipped)


def _read(path: Path, read: Callable[[bytes], _Statement]) -> _Statement:
    with of_the_user(str(path)):
        return read(read_bytes(path, max_bytes=MAX_STATEMENT_BYTES))
