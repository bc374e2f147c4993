"""``cardsign trust add``: enrol one issuer by one anchor."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cardsign.card.canonical import DEFAULT_PROFILES
from cardsign.cli.live import is_url, loopback_option
from cardsign.cli.options import json_option, of_the_user
from cardsign.cli.policy import (
    LoadedPolicy,
    directory_memory,
    extensible_policy,
    state_option,
    trust_option,
)
from cardsign.cli.talk import print_json, say
from cardsign.cli.trust_showing import keyset_lines, keyset_members, kind_of, say_if_old
from cardsign.cli.trust_sources import Source, anchor_options, named_source
from cardsign.errors import UsageFault
from cardsign.files import write_atomic
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.trust.anchors import KeysetAnchor
from cardsign.trust.enrolling import first_known
from cardsign.trust.lock import ISSUER_NAME, lock_of, raise_floors
from cardsign.trust.origins import Url, parse_url
from cardsign.trust.places import parse_place
from cardsign.trust.policyedit import edit_policy, plus, with_issuer
from cardsign.trust.policyfile import parse_policy


@click.command(short_help="Enrol a peer by one anchor.")
@click.argument("who", metavar="NAME|URL")
@click.option("--name", metavar="NAME", help="Your name for it [default: the URL's host].")
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Where its cards and interfaces may stand: https://host, or https://host/path/ for "
    "what lies below it. May be repeated [default: the URL's origin].",
)
@click.option(
    "--card",
    "cards",
    multiple=True,
    metavar="URL",
    help="A card that `cardsign peers verify` looks at [default: the URL]. May be repeated.",
)
@click.option(
    "--peer",
    type=click.Choice(["required", "optional"]),
    help="Whether `cardsign peers verify` fails where a card is not trusted [default: required].",
)
@anchor_options
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
@loopback_option
@trust_option
@state_option
@json_option
def add(
    who: str,
    name: str | None,
    origins: tuple[str, ...],
    trust_file: Path | None,
    state_dir: Path | None,
    as_json: bool,
    cards: tuple[str, ...],
    peer: str | None,
    require: tuple[str, ...],
    profiles: tuple[str, ...],
    algorithms: tuple[str, ...],
    freshness: str | None,
    **sources: Any,
) -> None:
    """Enrol a peer by one anchor: --keyset, --jwks, --jwks-url, --tofu, or what URL publishes.

    URL is where a peer answers; without another anchor the newest keyset statement of its
    origin is fetched and pinned. Policy, lock and memory are written together; where there is no
    policy yet, one is begun in this folder. Compare what is printed with the issuer over another
    channel: nothing else shows that a first statement is genuine.
    """
    loaded = extensible_policy(trust_file)
    met = _url(who) if is_url(who) else None
    if met is not None:
        name = name or met.origin.host
        origins, cards = origins or (str(met.origin),), (str(met), *cards)
    elif name is not None or not origins:
        wrong = "--name goes with a URL" if name is not None else "expected --origin, or a URL"
        raise UsageFault("usage.conflict", wrong)
    name = name or who
    _check_name(loaded, name)
    for origin in origins:
        with of_the_user("--origin"):
            parse_place(origin)
    source = named_source(met, limits=loaded.policy.limits, now=datetime.now(UTC), **sources)
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
        "cards": list(dict.fromkeys(cards)),
        "peer": peer,
    }
    _enrol(loaded, {member: one for member, one in given.items() if one}, source, state_dir)
    _tell(loaded, name, source, as_json)


def _enrol(
    loaded: LoadedPolicy, members: dict[str, Any], source: Source, state_dir: Path | None
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
    if not loaded.path.exists():
        write_atomic(loaded.path, loaded.text.encode())
    edit_policy(
        loaded.path,
        lambda text: with_issuer(text, members, source.anchor),
        lambda policy: plus(policy, new),
    )


def _tell(loaded: LoadedPolicy, name: str, source: Source, as_json: bool) -> None:
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


def _url(text: str) -> Url:
    with of_the_user("URL"):
        return parse_url(text)
