"""``cardsign trust add`` and ``import``: add trusted issuers to the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from cardsign.cli.frame import Command
from cardsign.cli.options import PATH, accept_option, network_option, open_fetcher, policy_option
from cardsign.cli.printer import Answer, safe, say, show, write_line
from cardsign.cli.streams import confirm, done, dry_run_option, is_dry_run
from cardsign.cli.verifier import extensible_policy
from cardsign.cli.views import keyset_lines, kind_of, pin_json, say_if_old
from cardsign.errors import UsageFault, of_the_user
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release
from cardsign.trust.enroll import (
    Proposal,
    add_issuers,
    check_new_name,
    check_told,
    entry_text,
    propose_jwks_url,
    propose_keys,
    propose_keyset,
    propose_published,
    read_agents,
    read_digest,
)
from cardsign.trust.policy import KeysAnchor, Limits, Policy
from cardsign.trust.refresh import Ask
from cardsign.trust.supplied import StatementCache, SuppliedStatements
from cardsign.urls import Url, is_url, parse_place, parse_url

#: Options that are members of a new `[[issuer]]`; those not given keep their defaults.
_MEMBERS: Final = ("origins", "cards", "require", "accept", "freshness")


@click.command(
    cls=Command,
    short_help="Add a trusted issuer by one anchor.",
    example="cardsign trust add partner --origin https://agents.example.com --keyset keyset.json",
)
@click.argument("who", metavar="NAME|URL")
@click.option("--name", metavar="NAME", help="Your name for it [default: the URL's host].")
@click.option(
    "--origin",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="Where its cards and interfaces may be: https://host, or https://host/path/ for "
    "everything below it. May be repeated [default: the URL's origin].",
)
@click.option(
    "--card",
    "cards",
    metavar="URL",
    multiple=True,
    help="A card that `cardsign peers verify` checks. May be repeated [default: the URL, or the "
    "card of each origin].",
)
@click.option(
    "--require",
    metavar="HOLDER",
    multiple=True,
    help="Holders who must all have signed a card. May be repeated.",
)
@accept_option
@click.option(
    "--freshness",
    type=click.Choice(["required", "waived"]),
    help="Whether it must be shown that a card is current [default: required with --keyset; waived "
    "with anchors that cannot show it].",
)
@click.option(
    "--keyset",
    "keysets",
    metavar="FILE",
    multiple=True,
    type=PATH,
    help="Pin this keyset statement. May be repeated; each must follow the one before, and the "
    "newest is pinned.",
)
@click.option(
    "--release",
    "releases",
    metavar="FILE",
    multiple=True,
    type=PATH,
    help="A release statement under that keyset. May be repeated.",
)
@click.option(
    "--roots", is_flag=True, help="Pin the root set of --keyset or URL instead of the statement."
)
@click.option(
    "--jwks",
    metavar="FILE",
    type=PATH,
    help="Pin these keys: a JWK Set, {KID: PEM}, or a public PEM.",
)
@click.option("--jwks-url", metavar="URL", help="Trust any key set that is published there.")
@click.option(
    "--holder",
    "holders",
    metavar="KID=NAME",
    multiple=True,
    help="Who holds a key of --jwks. May be repeated.",
)
@network_option
@click.option(
    "--digest",
    metavar="HEX",
    callback=lambda _context, _option, told: told if told is None else read_digest(told),
    help="The digest of the keyset, or of an earlier one, as the issuer told it. A keyset that "
    "does not follow from it is refused.",
)
@click.option(
    "--yes", is_flag=True, help="Do not ask: accept the keyset or the keys without comparing them."
)
@policy_option
@dry_run_option
def add(who: str, **options: Any) -> None:
    """Add an issuer by one anchor: --keyset, --jwks, --jwks-url, or what URL's origin publishes.

    URL is where an issuer's card is. Without another anchor, the newest keyset statement of its
    origin is fetched and pinned, or the keys of an origin that has none. Ask the issuer for the
    digest over another channel first. With --digest another keyset is refused. Without it you are
    shown what would be pinned, and asked. Where there is no terminal, say --yes.

    If there is no policy yet, one is begun in this folder.
    """
    policy, now = extensible_policy(options["trust_file"]), datetime.now(UTC)
    url, members = _read_members(who, options)
    check_new_name(policy, members["name"])
    _check_new_places(policy, members["origins"])
    proposal = _propose(url, options, _asker(options["insecure"], now), policy.limits, now)
    warnings = [*proposal.warnings]
    if "freshness" not in members and not proposal.shows_freshness:
        members["freshness"] = "waived"
        warnings.append(
            "freshness is waived: revocation and rollback cannot be seen with this anchor"
        )
    add_issuers(
        policy,
        [(members, proposal)],
        compare=partial(_compare, proposal, options["digest"], yes=options["yes"]),
        cache=StatementCache.of_user(),
        dry_run=is_dry_run(),
    )
    _say_all(warnings)
    keyset = proposal.keyset
    say_if_old(keyset, now)
    notes = [f"{done('added', 'add')} {members['name']} to {policy.path}"]
    if keyset is not None and options["yes"] and options["digest"] is None:
        notes.insert(0, "compare the lines above with the issuer over another channel")
    view = {"name": members["name"], "policy": str(policy.path)}
    view |= {"anchor": kind_of(proposal.anchor), "keyset": keyset and pin_json(keyset)}
    show(Answer(view, () if keyset is None else keyset_lines(keyset), notes))


def _read_members(who: str, options: Mapping[str, Any]) -> tuple[Url | None, dict[str, Any]]:
    """The URL, if one is named, and the members of the entry that are named or follow from it."""
    url, name = None, options["name"]
    named = {member: options[member] for member in _MEMBERS if options[member]}
    members = {
        member: [*value] if isinstance(value, tuple) else value for member, value in named.items()
    }
    if is_url(who):
        with of_the_user("URL"):
            url = parse_url(who)
        members["cards"] = list(dict.fromkeys((str(url), *options["cards"])))
        members = {"origins": [str(url.origin)], **members}
    elif name is not None:
        raise UsageFault("usage.conflict", "--name goes with a URL")
    elif "origins" not in members:
        hint = "Add --origin https://HOST, the host where its cards are. Or give its URL in place "
        hint += "of the name."
        if "." in who:
            hint = f"Write it as a URL: cardsign trust add https://{safe(who)}"
        raise UsageFault("usage.conflict", f"{safe(who)!r} is a name, and no origin", hint=hint)
    with of_the_user("--origin"):
        places = [parse_place(text) for text in members["origins"]]
    # Below a path it is unknown where the card is.
    cards = [f"{place}/" for place in places if place.is_whole_origin]
    if "cards" not in members and cards:
        members["cards"] = cards
    return url, {"name": name or (url.origin.host if url else who), **members}


def _check_new_places(policy: Policy, places: Iterable[str]) -> None:
    """Refuse a place that the policy has of another issuer."""
    parsed = {parse_place(text) for text in places}
    for issuer in policy.issuers:
        for place in parsed.intersection(issuer.places or ()):
            raise UsageFault(
                "usage.conflict",
                f"{place} is already trusted as {issuer.name!r}",
                path=str(policy.path),
                hint=f"See it: cardsign trust show {issuer.name}. To add it anew, first: cardsign "
                f"trust remove {issuer.name}. Issuers of one origin are kept apart by paths: "
                f"--origin {place.origin}/agents/NAME/",
            )


def _propose(
    url: Url | None, options: Mapping[str, Any], ask: Ask, limits: Limits, now: datetime
) -> Proposal:
    """The anchor that is named, or what the origin of `url` publishes."""
    _check_named(url, options)
    keysets, jwks, jwks_url = options["keysets"], options["jwks"], options["jwks_url"]
    releases, roots, holders = options["releases"], options["roots"], options["holders"]
    if keysets:
        supplied = SuppliedStatements(
            tuple(_read(path, read_keyset) for path in keysets),
            tuple(_read(path, read_release) for path in releases),
        )
        with of_the_user("--keyset"):
            proposal = propose_keyset(supplied, limits=limits, roots=roots, now=now)
            for doubt in proposal.doubts:  # of files that were chosen none is passed over
                raise StatementRefused(doubt.code, doubt.message)
        return proposal
    if jwks is not None:
        split = (pair.rpartition("=") for pair in holders)
        return propose_keys(_read_keys(jwks), {kid: holder for kid, _, holder in split})
    if jwks_url is not None or url is None:
        with of_the_user("--jwks-url"):
            return propose_jwks_url(jwks_url)
    return propose_published(url.origin, ask, limits=limits, roots=roots, now=now)


def _check_named(url: Url | None, options: Mapping[str, Any]) -> None:
    """Refuse options of which one excludes another, or goes with one that is not there."""
    keysets, jwks, roots = options["keysets"], options["jwks"], options["roots"]
    named = sum(map(bool, (keysets, jwks, options["jwks_url"])))
    why = ""
    if named > 1 or (url is None and not named):
        why = "expected exactly one of --keyset, --jwks and --jwks-url, or a URL"
    elif (options["releases"] or (roots and named)) and not keysets:
        why = "--release goes with --keyset, --roots with --keyset or a URL"
    elif options["holders"] and jwks is None:
        why = "--holder goes with --jwks"
    if why:
        raise UsageFault("usage.conflict", why)


def _asker(insecure: bool, now: datetime) -> Ask:
    fetcher = open_fetcher(insecure, lambda: now)
    return lambda url, max_bytes: fetcher.fetch(url, max_bytes=max_bytes)


def _read(path: Path, read: Callable[[bytes], object]) -> bytes:
    """A statement that `read` accepts."""
    with of_the_user(str(path)):
        data = read_bytes(path, max_bytes=MAX_STATEMENT_BYTES)
        read(data)
        return data


def _read_keys(path: Path) -> JwkSet:
    name = str(path)
    if name.startswith(("https:/", "http:/")):  # a path has lost one slash
        hint = f"Trust what is published there: --jwks-url {safe(name.replace(':/', '://', 1))}"
        raise UsageFault("usage.conflict", "--jwks takes a file, and this is a URL", hint=hint)
    with of_the_user(name):
        return JwkSet.from_bytes(read_bytes(path, max_bytes=MAX_JWKS_BYTES))


def _compare(proposal: Proposal, digest: str | None, *, yes: bool) -> None:
    """Compare the keyset, or keys that were fetched, before anything is written (E14)."""
    keyset = proposal.keyset
    if keyset is None and digest is not None:
        raise UsageFault("usage.conflict", "--digest goes with a keyset statement")
    if digest is not None:
        check_told(proposal, digest)
    elif (keyset or proposal.seen_at) and not yes and not is_dry_run():
        lines, noun, hint = _key_lines(proposal), "thumbprints", ""
        if keyset is not None:
            lines, noun = keyset_lines(keyset), "digest"
            hint = f"If it agrees, type the same command with --digest {keyset.digest}. "
        for line in lines:
            write_line(line, err=True)
        question = f"compare the {noun} above with the issuer over another channel"
        confirm(yes, question, hint=f"{hint}With --yes nothing is compared.")


def _key_lines(proposal: Proposal) -> Iterator[str]:
    """The keys that were found at a URL, for a person to compare."""
    yield f"keys at     {safe(proposal.seen_at, limit=300)}"
    if isinstance(proposal.anchor, KeysAnchor):
        for key in proposal.anchor.keys.keys:
            yield f"key         {key.thumbprint}  {safe(key.kid, limit=64)}"


def _say_all(warnings: Iterable[str]) -> None:
    """Each on a line of its own."""
    for warning in warnings:
        say(safe(warning, limit=400))


@click.command(
    "import",
    cls=Command,
    short_help="Propose issuers from a list of agents.",
    example="cardsign trust import config.toml",
)
@click.argument("listing", metavar="FILE", type=PATH)
@click.option("--yes", is_flag=True, help="Add them without asking.")
@network_option
@dry_run_option
@policy_option
def import_(listing: Path, yes: bool, insecure: bool, trust_file: Path | None) -> None:
    """Propose an issuer for each [[a2a.external_agents]] of FILE, a TOML file.

    Each is asked what it publishes, as `cardsign trust add URL` does, and that is pinned. All are
    added or none. Nothing is added before you agree. Agents whose name is already in the policy
    are left out.
    """
    policy = extensible_policy(trust_file)
    names = {issuer.name for issuer in policy.issuers}
    agents = [issuer for issuer in read_agents(listing) if issuer["name"] not in names]
    now = datetime.now(UTC)
    ask, limits = _asker(insecure, now), policy.limits
    added = []
    for members in agents:
        origin = parse_url(members["cards"][0]).origin
        proposal = propose_published(origin, ask, limits=limits, roots=False, now=now)
        waived = {} if proposal.shows_freshness else {"freshness": "waived"}
        added.append(({**members, **waived}, proposal))
    texts = [entry_text(members, proposal) for members, proposal in added]
    lines = "\n".join(texts).splitlines()
    show(Answer({"policy": str(policy.path), "entries": texts}, lines))
    if not added:
        say(f"{policy.path} has all of these agents")
        return
    if not yes and not is_dry_run():
        _say_all(warning for _, proposal in added for warning in proposal.warnings)
        confirm(yes, f"{len(added)} issuers go into {policy.path}, by what they publish now")
    add_issuers(policy, added, cache=StatementCache.of_user(), dry_run=is_dry_run())
    for entry, _ in added:
        say(f"{done('added', 'add')} {entry['name']} to {policy.path}")
