"""``cardsign trust add``: enrol one issuer by one anchor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cardsign.cli.arguments import json_option, option_group
from cardsign.cli.commands import command
from cardsign.cli.dry_run import dry_run_option, is_dry_run
from cardsign.cli.inquiry import is_url, loopback_option, make_asker
from cardsign.cli.policy import LoadedPolicy, TrustOptions, accept_option, edit_options
from cardsign.cli.talk import ask_first, print_json, safe, say
from cardsign.cli.views import keyset_lines, kind_of, pin_json, say_if_old
from cardsign.errors import Unavailable, UsageFault, of_the_user
from cardsign.files import read_bytes, write_atomic
from cardsign.jose.algorithms import ALGORITHMS
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.statements.envelope import MAX_STATEMENT_BYTES
from cardsign.statements.keyset import KeysetStatement, read_keyset
from cardsign.statements.members import HOLDER
from cardsign.statements.release import ReleaseStatement, read_release
from cardsign.statements.succession import RootPin
from cardsign.trust.enroll import newest_keyset, newest_release
from cardsign.trust.lock import ISSUER_NAME, lock_of, raise_floors
from cardsign.trust.policy import (
    Accept,
    Anchor,
    Enrolment,
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Limits,
    TofuAnchor,
)
from cardsign.trust.policyedit import edit_policy, plus, with_issuer
from cardsign.trust.policyfile import check_jwks_url, parse_policy
from cardsign.trust.refresh import refresh_issuer
from cardsign.trust.resolve import resolve_issuer
from cardsign.trust.state import DirectoryStates, IssuerState
from cardsign.urls import Place, Url, parse_place, parse_url

# The one anchor of an enrolment, from what was handed over or was met at a URL.


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
        Unavailable: ``trust.no_keys``: there is no keyset statement at the URL.
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
            check_jwks_url(jwks_url)
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
    brought = refresh_issuer(limits, None, None, asker.ask, home=home, now=now)
    stranger = Enrolment("stranger", TofuAnchor(), (Place(url.origin),))
    state = IssuerState.begin(stranger)
    trust = resolve_issuer(stranger, limits, brought.evidence, state, now=now)
    if trust.keyset is None:
        why = next((reason.message for reason in (*brought.reasons, *trust.notes)), "")
        raise Unavailable(
            "trust.no_keys",
            f"{home} publishes no keyset statement that could be pinned" + (why and f": {why}"),
            hint="Enrol it by keys instead: --jwks FILE, --jwks-url URL or --tofu; "
            "docs/concepts/trust.md says what that leaves open.",
        )
    source = _pinned(trust.keyset, trust.release, roots, now)
    found = dict.fromkeys((*brought.reasons, *trust.notes))
    source.warnings.extend(
        f"{one.code}: {safe(one.message, limit=300)}"
        for one in found
        if one.code != "trust.tofu_first"  # which is what the user asked for
    )
    return source


def _pinned(
    keyset: KeysetStatement, release: ReleaseStatement | None, roots: bool, now: datetime
) -> Source:
    pin = RootPin.of(keyset.root) if roots else keyset.id
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


@dataclass(frozen=True, slots=True)
class EntryOptions:
    """What a new entry of the policy says besides its name, origins, cards and anchor.

    Attributes:
        peer: ``--peer``.
        enforce: ``--enforce``.
        networks: ``--network``.
        proxy: ``--proxy``.
        require: ``--require``.
        accept: ``--accept``.
        algorithms: ``--algorithm``.
        freshness: ``--freshness``.
    """

    peer: str | None
    enforce: str | None
    networks: tuple[str, ...]
    proxy: str | None
    require: tuple[str, ...]
    accept: Accept | None
    algorithms: tuple[str, ...]
    freshness: str | None

    def members(self) -> dict[str, Any]:
        """The members that are named; the others keep their defaults."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        named = {name: list(one) if isinstance(one, tuple) else one for name, one in given.items()}
        return {name: one for name, one in named.items() if one}


_ENTRY: Final = option_group(
    EntryOptions,
    "entry",
    click.option(
        "--peer",
        type=click.Choice(["required", "optional"]),
        help="Whether `cardsign peers verify` fails where a card is not trusted "
        "[default: required].",
    ),
    click.option(
        "--enforce",
        type=click.Choice(["strict", "warn"]),
        help="warn: programs that ask for it may use its unverified cards for a while [default: "
        "strict]. With --trust.",
    ),
    click.option(
        "--network",
        "networks",
        multiple=True,
        metavar="CIDR",
        help="A private network in which it may be reached, such as 10.0.0.0/8. May be repeated. "
        "With --trust.",
    ),
    click.option(
        "--proxy",
        metavar="URL",
        help="The proxy through which it is reached, http://host:port. With --trust.",
    ),
    click.option(
        "--require",
        multiple=True,
        metavar="HOLDER",
        help="Holders who must all have signed a card. May be repeated.",
    ),
    accept_option,
    click.option(
        "--algorithm",
        "algorithms",
        multiple=True,
        type=click.Choice(tuple(ALGORITHMS)),
        help="The algorithms that count, instead of ES256 and RS256. May be repeated.",
    ),
    click.option(
        "--freshness",
        type=click.Choice(["required", "waived"]),
        help="Whether a card must be known to be current [default: required with --keyset, and "
        "waived with what cannot show it].",
    ),
)


@command(
    short_help="Enrol a peer by one anchor.",
    example="cardsign trust add partner --origin https://agents.example.com --keyset keyset.json",
)
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
@anchor_options
@_ENTRY
@click.option(
    "--digest",
    metavar="HEX",
    help="The digest of the keyset statement, as the issuer told it; anything else is refused.",
)
@click.option("--yes", is_flag=True, help="Enrol what URL publishes without comparing its digest.")
@loopback_option
@edit_options
@dry_run_option
@json_option
def add(
    who: str,
    name: str | None,
    origins: tuple[str, ...],
    trust: TrustOptions,
    as_json: bool,
    cards: tuple[str, ...],
    entry: EntryOptions,
    digest: str | None,
    yes: bool,
    **sources: Any,
) -> None:
    """Enrol a peer by one anchor: --keyset, --jwks, --jwks-url, --tofu, or what URL publishes.

    URL is where a peer answers; without another anchor the newest keyset statement of its
    origin is fetched and pinned. Nothing but a comparison over another channel shows that a first
    statement is genuine. So its digest must be given (--digest), or it is shown and asked about;
    without a terminal it is refused, unless you say --yes. Only then are policy, lock and state
    written; where there is no policy yet, one is begun in this folder.
    """
    loaded = trust.extensible()
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
    said = entry.members()
    if "freshness" not in said and not isinstance(source.anchor, KeysetAnchor):
        said["freshness"] = "waived"
        source.warnings.append(
            "freshness is waived: revocation and rollback cannot be seen with this anchor"
        )
    members = {"name": name, "origins": list(origins), **said}
    if cards:
        members["cards"] = list(dict.fromkeys(cards))
    must_ask = met is not None and not yes
    _enrol(loaded, members, source, trust.stored, partial(_compare, source, digest, must_ask))
    _tell(loaded, name, source, as_json, digest is not None)


def _compare(source: Source, digest: str | None, was_met: bool) -> None:
    """Compare the keyset statement before anything is written (E14).

    Args:
        source: What would be enrolled.
        digest: What the issuer said, if the user knows.
        was_met: It was fetched, and the user has not said ``--yes``.

    Raises:
        UsageFault: ``trust.digest_differs``; ``usage.conflict``: there is nothing to compare;
            ``usage.unanswered``.
    """
    if digest is not None:
        if source.keyset is None:
            raise UsageFault("usage.conflict", "--digest goes with a keyset statement")
        if digest.strip().lower() != source.keyset.digest:
            raise UsageFault(
                "trust.digest_differs",
                f"the statement has the digest {source.keyset.digest}, not {safe(digest)}",
                hint="Do not enrol it. Ask the issuer over another channel which digest is right.",
            )
    elif was_met and source.keyset is not None:
        say("\n".join(keyset_lines(source.keyset)))
        ask_first("compare the digest above with the issuer over another channel")


def _enrol(
    loaded: LoadedPolicy,
    members: dict[str, Any],
    source: Source,
    states: DirectoryStates,
    compare: Callable[[], None],
) -> None:
    """Compare, write state and lock, and the policy last: without it the others mean nothing."""
    new = parse_policy(
        with_issuer("format = 1\n", members, source.anchor), source="(the new entry)"
    )
    parse_policy(
        with_issuer(loaded.text, members, source.anchor),
        source=str(loaded.path),
        is_own=not loaded.was_found_here,
    )
    compare()
    if is_dry_run():
        return
    (issuer,) = new.known_as(loaded.identity).enrolments
    state = IssuerState.begin(issuer, source.keyset, source.release)
    before = states.find(issuer.policy, issuer.name)
    states.begin(issuer, state)
    if before is not None:
        source.warnings.append(_said_of(before, issuer))
    raise_floors(lock_of(loaded.path), {issuer.name: state.as_floor()})
    if not loaded.path.exists():
        write_atomic(loaded.path, loaded.text.encode())
    edit_policy(
        loaded.path,
        lambda text: with_issuer(text, members, source.anchor),
        lambda policy: plus(policy, new),
    )


def _said_of(before: IssuerState, issuer: Enrolment) -> str:
    """What goes on to hold of an issuer who is remembered from before."""
    said = f"{issuer.name} is remembered from before, and what is remembered goes on to hold"
    if isinstance(issuer.anchor, TofuAnchor):
        met = before.first_contact
        said += ": the first contact "
        if met is not None:
            said += f"was made with {met}"
        else:
            said += "was made with bare keys" if before.jwks is not None else "is still to be made"
    return f"{said}; to begin anew: cardsign trust known forget {issuer.name}"


def _tell(loaded: LoadedPolicy, name: str, source: Source, as_json: bool, compared: bool) -> None:
    for warning in source.warnings:
        say(warning)
    say_if_old(source.keyset, datetime.now(UTC))
    if as_json:
        keyset = None if source.keyset is None else pin_json(source.keyset)
        anchor = kind_of(source.anchor)
        print_json({"name": name, "policy": str(loaded.path), "anchor": anchor, "keyset": keyset})
        return
    if source.keyset is not None:
        click.echo("\n".join(keyset_lines(source.keyset)))
        if not compared:
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
