"""``cardsign trust add`` and ``import``: add trusted issuers to the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from cardsign.cli.dry_run import confirm, done, dry_run_option, is_dry_run
from cardsign.cli.frame import Command
from cardsign.cli.options import (
    PATH,
    NetworkOptions,
    accept_option,
    network_option,
    policy_option,
    take,
)
from cardsign.cli.printer import Answer, safe, say, show, write_line
from cardsign.cli.verifier import TrustOptions
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
from cardsign.trust.policy import Accept, KeysAnchor, Limits, Policy
from cardsign.trust.refresh import Ask
from cardsign.trust.supplied import StatementCache, SuppliedStatements
from cardsign.urls import Url, is_url, parse_place, parse_url

_ONE_ANCHOR: Final = "expected exactly one of --keyset, --jwks and --jwks-url, or a URL"


@dataclass(frozen=True, slots=True)
class AnchorOptions:
    """What names the anchor: at most one kind of them."""

    keysets: tuple[Path, ...]
    releases: tuple[Path, ...]
    roots: bool
    jwks: Path | None
    jwks_url: str | None
    holders: tuple[str, ...]
    network: NetworkOptions = field(default_factory=NetworkOptions)

    @property
    def named(self) -> int:
        """How many anchors are named."""
        return sum(map(bool, (self.keysets, self.jwks, self.jwks_url)))

    def check(self, url: Url | None) -> None:
        """Refuse what contradicts itself."""
        if self.named > 1 or (url is None and not self.named):
            raise UsageFault("usage.conflict", _ONE_ANCHOR)
        if (self.releases or (self.roots and self.named)) and not self.keysets:
            raise UsageFault(
                "usage.conflict", "--release goes with --keyset, --roots with --keyset or a URL"
            )
        if self.holders and self.jwks is None:
            raise UsageFault("usage.conflict", "--holder goes with --jwks")

    def propose(self, url: Url | None, limits: Limits, now: datetime) -> Proposal:
        """The anchor that is named, or what the origin of `url` publishes."""
        self.check(url)
        if self.keysets:
            return self._propose_statements(limits, now)
        if self.jwks is not None:
            keys = _read_keys(self.jwks)
            split = (pair.rpartition("=") for pair in self.holders)
            return propose_keys(keys, {kid: holder for kid, _, holder in split})
        if self.jwks_url is not None or url is None:
            with of_the_user("--jwks-url"):
                return propose_jwks_url(self.jwks_url or "")
        ask = _asker(self.network, now)
        return propose_published(url.origin, ask, limits=limits, roots=self.roots, now=now)

    def _propose_statements(self, limits: Limits, now: datetime) -> Proposal:
        """What the files of --keyset and --release come to; one that does not fit is refused."""
        keysets = tuple(_read(path, read_keyset) for path in self.keysets)
        releases = tuple(_read(path, read_release) for path in self.releases)
        supplied = SuppliedStatements(keysets, releases)
        with of_the_user("--keyset"):
            proposal = propose_keyset(supplied, limits=limits, roots=self.roots, now=now)
            for doubt in proposal.doubts:
                raise StatementRefused(doubt.code, doubt.message)
        return proposal


def _asker(network: NetworkOptions, now: datetime) -> Ask:
    fetcher = network.fetcher(lambda: now)
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


@dataclass(frozen=True, slots=True)
class EntryOptions:
    """What a new entry of the policy says in addition to its name and anchor."""

    origins: tuple[str, ...]
    cards: tuple[str, ...]
    require: tuple[str, ...]
    accept: Accept | None
    freshness: str | None

    def members(self) -> dict[str, Any]:
        """The members that are named; the others keep their defaults."""
        members = {member.name: getattr(self, member.name) for member in fields(self)}
        named = {
            name: list(member) if isinstance(member, tuple) else member
            for name, member in members.items()
        }
        return {name: member for name, member in named.items() if member}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the user knows of the keyset, and whether to ask."""

    digest: str | None
    yes: bool

    def compare(self, proposal: Proposal) -> None:
        """Compare the keyset, or keys that were fetched, before anything is written (E14)."""
        if proposal.keyset is None:
            if self.digest is not None:
                raise UsageFault("usage.conflict", "--digest goes with a keyset statement")
            if proposal.seen_at and not self.yes and not is_dry_run():
                for line in _key_lines(proposal):
                    write_line(line, err=True)
                confirm(
                    self.yes,
                    "compare the thumbprints above with the issuer over another channel",
                    hint="With --yes nothing is compared.",
                )
        elif self.digest is not None:
            check_told(proposal, self.digest)
        elif not self.yes and not is_dry_run():
            for line in keyset_lines(proposal.keyset):
                write_line(line, err=True)
            confirm(
                self.yes,
                "compare the digest above with the issuer over another channel",
                hint="If it agrees, type the same command with --digest "
                f"{proposal.keyset.digest}. With --yes nothing is compared.",
            )


def _key_lines(proposal: Proposal) -> Iterator[str]:
    """The keys that were found at a URL, for a person to compare."""
    yield f"keys at     {safe(proposal.seen_at, limit=300)}"
    if isinstance(proposal.anchor, KeysAnchor):
        for key in proposal.anchor.keys.keys:
            yield f"key         {key.thumbprint}  {safe(key.kid, limit=64)}"


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
@click.option("--jwks", metavar="FILE", type=PATH, help="Pin the keys of a JWK Set.")
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
def add(
    who: str,
    name: str | None,
    **options: Any,
) -> None:
    """Add an issuer by one anchor: --keyset, --jwks, --jwks-url, or what URL's origin publishes.

    URL is where an issuer's card is. Without another anchor, the newest keyset statement of its
    origin is fetched and pinned, or the keys of an origin that has none. Ask the issuer for the
    digest over another channel first. With --digest another keyset is refused. Without it you are
    shown what would be pinned, and asked. Where there is no terminal, say --yes.

    If there is no policy yet, one is begun in this folder.
    """
    entry = take(EntryOptions, options)
    network = take(NetworkOptions, options)
    source = replace(take(AnchorOptions, options), network=network)
    comparison = take(Comparison, options)
    trust = take(TrustOptions, options)
    policy = trust.extensible()
    url, members = _members(who, name, entry)
    if "origins" not in members:
        raise _no_origin(who)
    check_new_name(policy, members["name"])
    _check_new_places(policy, members["origins"])
    if cards := members.get("cards") or _cards_at(members["origins"]):
        members["cards"] = cards
    proposal = source.propose(url, policy.limits, datetime.now(UTC))
    warnings = [*proposal.warnings]
    if "freshness" not in members and not proposal.shows_freshness:
        members = _with_freshness(members, proposal)
        warnings.append(
            "freshness is waived: revocation and rollback cannot be seen with this anchor"
        )
    add_issuers(
        policy,
        [(members, proposal)],
        compare=lambda: comparison.compare(proposal),
        cache=StatementCache.of_user(),
        dry_run=is_dry_run(),
    )
    _say_all(warnings)
    _tell(policy, members, proposal, comparison)


def _check_new_places(policy: Policy, places: Iterable[str]) -> None:
    """Refuse a place that the policy has of another issuer."""
    with of_the_user("--origin"):
        parsed = [parse_place(text) for text in places]
    for issuer in policy.issuers:
        for place in set(parsed).intersection(issuer.places or ()):
            raise UsageFault(
                "usage.conflict",
                f"{place} is already trusted as {issuer.name!r}",
                path=str(policy.path),
                hint=f"See it: cardsign trust show {issuer.name}. To add it anew, first: cardsign "
                f"trust remove {issuer.name}. Issuers of one origin are kept apart by paths: "
                f"--origin {place.origin}/agents/NAME/",
            )


def _no_origin(who: str) -> UsageFault:
    hint = "Add --origin https://HOST, the host where its cards are. Or give its URL in place of "
    hint += "the name."
    if "." in who:
        hint = f"Write it as a URL: cardsign trust add https://{safe(who)}"
    return UsageFault("usage.conflict", f"{safe(who)!r} is a name, and no origin", hint=hint)


def _members(who: str, name: str | None, entry: EntryOptions) -> tuple[Url | None, dict[str, Any]]:
    """The URL, if one is named, and the members of the entry that are named or follow from it."""
    if not is_url(who):
        if name is not None:
            raise UsageFault("usage.conflict", "--name goes with a URL")
        return None, {"name": who, **entry.members()}
    with of_the_user("URL"):
        url = parse_url(who)
    cards = list(dict.fromkeys((str(url), *entry.cards)))
    at_url = {"name": name or url.origin.host, "origins": [str(url.origin)]}
    return url, {**at_url, **entry.members(), "cards": cards}


def _with_freshness(members: dict[str, Any], proposal: Proposal) -> dict[str, Any]:
    """The members, with freshness waived where the anchor cannot show it."""
    return members if proposal.shows_freshness else {**members, "freshness": "waived"}


def _say_all(warnings: Iterable[str]) -> None:
    """Each on a line of its own."""
    for warning in warnings:
        say(safe(warning, limit=400))


def _cards_at(places: list[str]) -> list[str]:
    """The cards of whole origins; below a path it is unknown where the card is."""
    parsed = []
    for text in places:
        with of_the_user("--origin"):
            parsed.append(parse_place(text))
    return [f"{place}/" for place in parsed if place.is_whole_origin]


def _tell(policy: Policy, members: dict[str, Any], proposal: Proposal, known: Comparison) -> None:
    say_if_old(proposal.keyset, datetime.now(UTC))
    added = {
        "name": members["name"],
        "policy": str(policy.path),
        "anchor": kind_of(proposal.anchor),
    }
    text: Iterable[str] = ()
    notes = [f"{done('added', 'add')} {members['name']} to {policy.path}"]
    if proposal.keyset is not None:
        text = keyset_lines(proposal.keyset)
        if known.yes and known.digest is None:
            notes.insert(0, "compare the lines above with the issuer over another channel")
    show(Answer({**added, "keyset": proposal.keyset and pin_json(proposal.keyset)}, text, notes))


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
def import_(listing: Path, yes: bool, **options: Any) -> None:
    """Propose an issuer for each [[a2a.external_agents]] of FILE, a TOML file.

    Each is asked what it publishes, as `cardsign trust add URL` does, and that is pinned. All are
    added or none. Nothing is added before you agree. Agents whose name is already in the policy
    are left out.
    """
    network = take(NetworkOptions, options)
    trust = take(TrustOptions, options)
    policy = trust.extensible()
    names = {issuer.name for issuer in policy.issuers}
    agents = [issuer for issuer in read_agents(listing) if issuer["name"] not in names]
    now = datetime.now(UTC)
    ask, limits = _asker(network, now), policy.limits
    added = []
    for members in agents:
        origin = parse_url(members["cards"][0]).origin
        proposal = propose_published(origin, ask, limits=limits, roots=False, now=now)
        added.append((_with_freshness(members, proposal), proposal))
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
    verb = "would add" if is_dry_run() else "added"
    for entry, _ in added:
        say(f"{verb} {entry['name']} to {policy.path}")
