"""``cardsign trust``: which issuers to trust. Edits `trust.toml` and its lock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from cardsign import errors
from cardsign.cli import frame, verifier
from cardsign.cli.frame import Answer, Group, members, moment, safe, say, show
from cardsign.errors import CardRefused, UsageFault, of_the_user
from cardsign.findings import Finding, counted
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetStatement
from cardsign.times import minute
from cardsign.trust import enrolment, policyfile
from cardsign.trust.lock import read_lock
from cardsign.trust.policy import (
    ISSUER_NAME,
    Anchor,
    KeysAnchor,
    KeysetAnchor,
    Policy,
    TrustedIssuer,
    load_policy,
    parse_peer_url,
)
from cardsign.trust.session import user_cache
from cardsign.trust.walk import Ask, SuppliedStatements, load_statements
from cardsign.urls import Url, is_url, parse_place, parse_url
from cardsign.verify.verifier import Verifier


@click.group("trust", cls=Group)
def trust_commands() -> None:
    """Say which issuers to trust, by which keys, and what to require of their cards.

    The policy is trust.toml. Beside it trust.lock holds the oldest statements that are still
    accepted of each issuer. Commit both.
    """


@trust_commands.command(
    example="cardsign trust add partner --origin https://agents.example.com --keyset keyset.json"
)
@click.argument("who", metavar="NAME|URL")
@click.option("--name", metavar="NAME", help="Your name for it [default: the URL's host].")
@click.option(
    "--origin",
    metavar="ORIGIN",
    multiple=True,
    help="Where its cards and interfaces may be: https://host, or https://host/path/ for "
    "everything below it [default: the URL's origin].",
)
@verifier.accept_option
@click.option(
    "--keyset",
    multiple=True,
    type=frame.FILE,
    help="Pin this keyset statement; each must follow the one before, and the newest is pinned. A "
    "release statement under it may be named as well.",
)
@click.option("--roots", is_flag=True, help="Pin the root set instead of the statement.")
@click.option("--jwks", metavar="FILE", help="Pin these keys: a JWK Set, {KID: PEM} or a PEM.")
@click.option("--jwks-url", metavar="URL", help="Trust any key set that is published there.")
@frame.network_option
@click.option(
    "--digest",
    metavar="HEX",
    type=enrolment.read_digest,
    help="The digest of the keyset, or of an earlier one, as the issuer told it. A keyset that "
    "does not follow from it is refused.",
)
@click.option(
    "--yes", is_flag=True, help="Do not ask: accept the keyset or the keys without comparing them."
)
@verifier.policy_option
@frame.dry_run_option
def add(who: str, **options: Any) -> None:
    """Add a trusted issuer by one anchor.

    The anchor is --keyset, --jwks, --jwks-url, or what URL's origin publishes. URL is where an
    issuer's card is. Without another anchor, the newest keyset statement of its origin is fetched
    and pinned, or the keys of an origin that has none. Ask the issuer for the digest over another
    channel first. With --digest another keyset is refused. Without it you are shown what would be
    pinned, and asked. Where there is no terminal, say --yes.

    If there is no policy yet, one is started in this folder. The URL, or the card of each origin,
    is what `cardsign peers verify` checks; edit trust.toml for other cards, or to demand more.
    """
    policy, now = verifier.extensible_policy(options["trust_file"]), moment()
    url, members = _read_members(who, options)
    _check_new(members, policy)
    proposal = _propose(url, options, _asker(options["insecure"], now), policy, now)
    enrolment.add_issuers(
        policy,
        [(members, proposal)],
        compare=partial(_compare, proposal, options["digest"], yes=options["yes"]),
        cache=user_cache(),
        dry_run=frame.is_dry_run(),
    )
    for warning in proposal.warnings:
        say(safe(warning, limit=400))
    if not isinstance(proposal.anchor, KeysetAnchor):
        say("freshness is waived: revocation and rollback are not checked")
    keyset = proposal.keyset
    verifier.say_if_old(keyset, now)
    origins = {str(parse_place(text).origin) for text in members["origins"]}
    if keyset is not None and origins.isdisjoint(keyset.origins):
        say(f"note: the keyset of {safe(keyset.issuer)} is for {', '.join(keyset.origins)} alone")
    view = {"name": members["name"], "policy": str(policy.path)}
    view |= {"anchor": verifier.kind_of(proposal.anchor), "keyset": keyset and keyset.id.to_json()}
    note = f"{frame.done('added', 'add')} {members['name']} to {policy.path}"
    show(Answer(view, () if keyset is None else keyset_lines(keyset), [note]))


def _read_members(who: str, options: Mapping[str, Any]) -> tuple[Url | None, dict[str, Any]]:
    """Return the URL, if there is one, and the members that are named or follow from it."""
    url, origins = None, [*options["origin"]]
    if is_url(who):
        with of_the_user("URL"):
            url = parse_url(who)
        origins = origins or [str(url.origin)]
    elif not origins or options["name"]:
        hint = "Write the issuer as a URL, https://HOST. Or name the origin: --origin https://HOST"
        message = f"{safe(who)!r} is not a URL: a name needs --origin, and no --name"
        raise UsageFault("usage.conflict", message, hint=hint)
    with of_the_user("--origin"):
        places = [parse_place(text) for text in origins]
    cards = [str(url)] if url else []
    for place in places:
        try:
            home = str(parse_peer_url(f"{place.origin}/"))
        except CardRefused:  # by http:// only this machine is asked
            say(f"{place} is plain http: whoever is on the way can read and change what is sent")
            continue
        if not url and place.prefix == "/":  # below a path it is unknown where the card is
            cards.append(home)
    name = options["name"] or (url.origin.host if url else who)
    members = {"name": name, "origins": origins, "cards": cards, "accept": options["accept"]}
    return url, {member: value for member, value in members.items() if value}


def _check_new(members: Mapping[str, Any], policy: Policy) -> None:
    """Refuse a name that no policy takes, and a name or place that this one has."""
    name, places = members["name"], {*map(parse_place, members["origins"])}
    if not ISSUER_NAME.fullmatch(name):
        message = "an issuer's name takes up to 64 of a-z, 0-9, '.', '_' and '-', such as acme-corp"
        raise UsageFault("usage.invalid", f"{message}; you gave {safe(name)!r}")
    for issuer in policy.issuers:
        shared = ", ".join(sorted(map(str, places.intersection(issuer.places or ()))))
        if issuer.name == name or shared:
            message = f"{issuer.name} is already in {policy.path}{shared and f', with {shared}'}"
            hint = "Edit its entry, or give the other a name and places of its own."
            raise UsageFault("usage.conflict", message, hint=hint)


def _propose(
    url: Url | None, options: Mapping[str, Any], ask: Ask, policy: Policy, now: datetime
) -> enrolment.Proposal:
    """Return the anchor that is named, or what the origin of `url` publishes."""
    keysets, jwks, jwks_url = options["keyset"], options["jwks"], options["jwks_url"]
    roots = options["roots"]
    count = sum(map(bool, (keysets, jwks, jwks_url)))
    if count > 1 or (url is None and not count) or (roots and (jwks or jwks_url)):
        why = "expected exactly one of --keyset (with or without --roots), --jwks and --jwks-url, "
        raise UsageFault("usage.conflict", f"{why}or a URL")
    if keysets:
        supplied = load_statements(keysets)
        with of_the_user("--keyset"):
            proposal = enrolment.propose_keyset(supplied, policy=policy, roots=roots, now=now)
            for doubt in proposal.doubts:  # of files that were chosen none is passed over
                raise StatementRefused(doubt.code, doubt.message)
        return proposal
    if jwks is not None:
        return enrolment.propose_keys(frame.read_jwks(jwks))
    if jwks_url is not None or url is None:
        with of_the_user("--jwks-url"):
            return enrolment.Proposal(parse_peer_url(jwks_url))
    return enrolment.propose_published(url.origin, ask, policy=policy, roots=roots, now=now)


def _asker(insecure: bool, now: datetime) -> Ask:
    from cardsign.net.fetch import DocumentFetcher

    fetcher = DocumentFetcher(frame.fetch_settings(insecure), now=lambda: now)
    return lambda url, max_bytes: fetcher.fetch(url, max_bytes=max_bytes)


def _compare(proposal: enrolment.Proposal, digest: str | None, *, yes: bool) -> None:
    """Compare the keyset, or keys that were fetched, before anything is written (E14)."""
    keyset = proposal.keyset
    if digest is not None:
        enrolment.check_told(proposal, digest)
    elif (keyset or proposal.seen_at) and not yes and not frame.is_dry_run():
        lines, hint = [f"keys at     {safe(proposal.seen_at, limit=300)}"], ""
        if keyset is not None:
            lines = [*keyset_lines(keyset)]
            hint = f"If they agree, type the same command with --digest {keyset.digest}. "
        lines += _key_lines(proposal.anchor)
        for line in lines:
            frame.write_line(line, err=True)
        question = "compare the lines above with the issuer over another channel"
        frame.confirm(yes, question, hint=f"{hint}With --yes nothing is compared.")


@trust_commands.command("import", example="cardsign trust import config.toml")
@click.argument("listing", metavar="FILE", type=frame.PATH)
@click.option("--yes", is_flag=True, help="Add them without asking.")
@frame.network_option
@frame.dry_run_option
@verifier.policy_option
def import_(listing: Path, yes: bool, insecure: bool, trust_file: Path | None) -> None:
    """Propose an issuer for each agent of a list.

    FILE is TOML with [[a2a.external_agents]]. Each is asked what it publishes, as `cardsign trust
    add URL` does, and that is pinned. Nothing is added before you agree. All are added or none: if
    an agent cannot be, take it out of FILE. Those whose name is in the policy are left out.
    """
    policy = verifier.extensible_policy(trust_file)
    names = {issuer.name for issuer in policy.issuers}
    agents = [issuer for issuer in enrolment.read_agents(listing) if issuer["name"] not in names]
    now = moment()
    propose = partial(enrolment.propose_published, policy=policy, roots=False, now=now)
    ask = _asker(insecure, now)
    for agent in agents:
        _check_new(agent, policy)
    added = [(agent, propose(parse_url(agent["cards"][0]).origin, ask)) for agent in agents]
    texts = [
        policyfile.with_issuer("", agent, proposal.anchor).lstrip() for agent, proposal in added
    ]
    show(Answer({"policy": str(policy.path), "entries": texts}, "\n".join(texts).splitlines()))
    if not added:
        say(f"{policy.path} has all of these agents")
        return
    for warning in (warning for _, proposal in added for warning in proposal.warnings):
        say(safe(warning, limit=400))
    count = counted(len(added), "issuer")
    frame.confirm(yes, f"{count} will be added to {policy.path}, by what is published now")
    enrolment.add_issuers(policy, added, cache=user_cache(), dry_run=frame.is_dry_run())
    say(f"{frame.done('added', 'add')} {count} to {policy.path}")


@trust_commands.command("list", example="cardsign trust list")
@verifier.policy_option
def list_(trust_file: Path | None) -> None:
    """List the issuers: name, anchor, freshness and origins."""
    policy = load_policy(trust_file)
    if policy is None:
        show(Answer([], notes=["no policy, so no issuer is trusted"]))
        return
    say(f"the policy is {policy.path}")
    views = [issuer_json(issuer) for issuer in policy.issuers]
    rows = [
        (view["name"], *view["anchor"], view["freshness"], ", ".join(view["origins"]))
        for view in views
    ]
    columns = {"issuer": 16, "anchor": 6, "freshness": 8, "origins": 0}
    show(Answer(views, frame.table_lines(columns, rows)))
    for name in sorted(set(read_lock(policy.lock)) - {view["name"] for view in views}):
        say(f"{policy.lock} has an unused entry; to remove it: cardsign trust forget {name}")


@trust_commands.command("show", example="cardsign trust show partner")
@click.argument("name")
@verifier.policy_option
def show_issuer(name: str, trust_file: Path | None) -> None:
    """Show the policy of NAME, and its entry in trust.lock."""
    policy = verifier.needed_policy(trust_file)
    issuer, floor = policy.issuer(name), read_lock(policy.lock).get(name)
    view = {**issuer_json(issuer), "lock": floor and floor.to_json()}
    keys = _key_lines(issuer.anchor)
    lines = verifier.view_lines({**view, "anchor": "keys"} if keys else view)
    show(Answer(view, [*lines, *keys]))


@trust_commands.command(example="cardsign trust update --trust trust.toml")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@verifier.statements_option
@frame.network_option
@verifier.policy_option
@frame.dry_run_option
def update(
    names: tuple[str, ...], statements: tuple[Path, ...], insecure: bool, trust_file: Path | None
) -> int:
    """Record the issuers' newest statements in trust.lock.

    They are fetched and verified. From then on older cards and statements are refused on every
    machine that has this lock. Commit it. With --statements nothing is fetched. Only issuers with a
    keyset or a root set as their anchor have an entry.

    Exit status: 0 the lock is up to date; 2 a fault of this machine, or a lock that contradicts
    the statements; 3 an issuer could not be asked, or its statements were not accepted.
    """
    policy = verifier.needed_policy(trust_file)
    chosen = verifier.chosen_issuers(policy, names)
    issuers = [issuer for issuer in chosen if isinstance(issuer.anchor, KeysetAnchor)]
    by_policy = Verifier(policy, net=frame.fetch_settings(insecure))
    supplied = load_statements(statements) if statements else None

    with ThreadPoolExecutor(verifier.CONCURRENCY) as pool:
        results = [*pool.map(partial(_find_problems, by_policy, supplied), issuers)]
    raised = by_policy.raise_lock(dry_run=frame.is_dry_run())
    recorded = frame.done("recorded newer statements", "record newer statements")
    notes = [f"{recorded} of {name} in {policy.lock}; commit it" for name in raised]
    shown: dict[str, list[Any]] = {}
    for issuer, problems in zip(issuers, results, strict=True):
        for finding in problems:
            frame.say_finding(finding, head=f"{issuer.name}: ", with_hint=True)
            shown.setdefault(issuer.name, []).append(finding.to_json())
    if not raised and not shown:
        notes = [f"{policy.lock} is up to date"]
    view = {"lock": str(policy.lock), "raised": list(raised), "problems": shown}
    status = errors.EXIT_NO_VERDICT if shown else errors.EXIT_OK
    return show(Answer(view, notes=notes, exit_status=status))


def _find_problems(
    by_policy: Verifier, supplied: SuppliedStatements | None, issuer: TrustedIssuer
) -> tuple[Finding, ...]:
    """Verify the newest statements of an issuer, and return what is wrong with them."""
    session, now = by_policy.session(issuer), by_policy.clock()
    statements, reasons = supplied, tuple[Finding, ...]()
    if statements is None:
        from cardsign.net.discovery import refresh

        statements, reasons = refresh(by_policy, issuer, "")
    missing = (reason for reason in reasons if reason.severity != "note")
    return tuple(dict.fromkeys((*session.resolve(statements, now).blocks, *missing)))


@trust_commands.command(example="cardsign trust remove partner")
@click.argument("name")
@verifier.policy_option
@frame.dry_run_option
def remove(name: str, trust_file: Path | None) -> None:
    """Remove NAME from the policy. Its cards are no longer trusted.

    Its entry in trust.lock stays. If you add the issuer again, older statements of it are still
    refused. `cardsign trust forget NAME` removes the entry too.
    """
    policy = verifier.needed_policy(trust_file)
    enrolment.remove_issuer(policy, name, dry_run=frame.is_dry_run())
    note = f"{frame.done('removed', 'remove')} {name} from {policy.path}"
    show(Answer({"removed": name}, notes=[note]))


@trust_commands.command(example="cardsign trust forget partner --yes")
@click.argument("name")
@verifier.policy_option
@frame.dry_run_option
@frame.yes_option
def forget(name: str, yes: bool, trust_file: Path | None) -> None:
    """Remove the entry of NAME from trust.lock. Older statements of it may then be accepted again.

    An issuer whose anchor is a keyset needs its entry: remove the issuer first.
    """
    policy = verifier.needed_policy(trust_file)
    enrolment.forget_issuer(policy, name, dry_run=True)
    frame.confirm(yes, f"older cards and statements of {name} may then be accepted again")
    enrolment.forget_issuer(policy, name, dry_run=frame.is_dry_run())
    note = f"{frame.done('removed', 'remove')} the entry of {name} from {policy.lock}"
    show(Answer({"forgotten": name}, notes=[note]))


@trust_commands.command(example="cardsign trust pin partner")
@click.argument("name")
@verifier.policy_option
@frame.dry_run_option
def pin(name: str, trust_file: Path | None) -> None:
    """Move the pin of NAME forward to the keyset of trust.lock.

    Roots retired before that keyset can then no longer start another history. `cardsign trust
    update` brings the lock up to date.
    """
    policy = verifier.needed_policy(trust_file)
    cache, is_dry_run = user_cache(), frame.is_dry_run()
    keyset, changed = enrolment.move_pin(policy, name, moment(), cache, dry_run=is_dry_run)
    note = f"the pin of {name} is the newest keyset, {keyset.label}"
    if changed:
        note = f"{frame.done('moved', 'move')} the pin of {name} to keyset {keyset.label}"
    show(Answer({"name": name, "changed": changed, "keyset": keyset.to_json()}, notes=[note]))


# How trusted issuers are shown.


def issuer_json(issuer: TrustedIssuer) -> dict[str, Any]:
    """Return what the policy says of an issuer, defaults included."""
    return {
        "name": issuer.name,
        "origins": [str(place) for place in issuer.places or ()],
        "anchor": dict(policyfile.anchor_members(issuer.anchor)),
        **members(issuer, "accept algorithms require freshness cards peer"),
        "networks": [str(network) for network in issuer.networks],
        "proxy": None if issuer.proxy is None else str(issuer.proxy),
    }


def _key_lines(anchor: Anchor) -> list[str]:
    """Return what people compare of pinned keys; nothing of another anchor."""
    keys = anchor.keys.keys if isinstance(anchor, KeysAnchor) else ()
    return [f"key         {key.thumbprint}  {safe(key.kid, limit=64)}" for key in keys]


def keyset_lines(keyset: KeysetStatement) -> Iterator[str]:
    """Yield what two people compare, for a person."""
    yield f"issuer      {safe(keyset.issuer)}"
    yield f"keyset      {keyset.label}, until {minute(keyset.exp)}"
    yield f"digest      {keyset.digest}"
    for key in keyset.root.keys:
        yield f"root key    {key.public.thumbprint}  {key.holder}"
    yield f"threshold   {keyset.root.threshold} of {len({key.holder for key in keyset.root.keys})}"
