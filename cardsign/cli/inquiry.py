"""What commands share that look up a peer's card and then ask the peer for something."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cardsign.batch import subject_by_origin
from cardsign.card.canonical import ProfileName
from cardsign.card.document import Card
from cardsign.cli.arguments import STDIO, option_group, read_input
from cardsign.cli.policy import (
    TrustOptions,
    accept_option,
    raise_lock,
    supplied_statements,
    trust_options,
)
from cardsign.cli.talk import counted
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    BundleRefused,
    CardRefused,
    FileMissing,
    InputRefused,
    LocalFault,
    UsageFault,
    of_the_user,
)
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.reasons import Reason
from cardsign.records import dataclass
from cardsign.trust.bundle import MAX_BUNDLE_BYTES, is_bundle, read_bundle
from cardsign.trust.disk import PolicyFile
from cardsign.trust.policy import (
    ACCEPTED,
    Accept,
    AtOrigin,
    CardUrl,
    Holder,
    Issuer,
    JwksAnchor,
    Policy,
    PublicSubject,
    TrustedIssuer,
)
from cardsign.trust.state import NO_STATES, IssuerStates
from cardsign.trust.statements import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import parse_origin, parse_url, without_userinfo
from cardsign.verify.extended import examine_extended
from cardsign.verify.report import Report
from cardsign.verify.verdict import examine_card

if TYPE_CHECKING:  # an HTTP client, which a verdict on a file does not need
    from cardsign.net.credentials import CredentialStore
    from cardsign.net.discovery import Discoverer, Discovery
    from cardsign.net.fetch import FetchSettings
    from cardsign.net.fetcher import DocumentFetcher


# How commands ask live peers: one option, one way.


#: ``--insecure-loopback-http``: ask this machine, and without TLS.
loopback_option: Final = click.option(
    "--insecure-loopback-http",
    is_flag=True,
    help="Allow URLs of this machine, also over plain HTTP; for trying things out.",
)


def make_fetcher(now: Callable[[], datetime], insecure_loopback_http: bool) -> DocumentFetcher:
    """Asks peers for documents, and keeps them as long as this command runs."""
    from cardsign.net.fetch import FetchSettings
    from cardsign.net.fetcher import DocumentFetcher

    settings = FetchSettings(insecure_loopback_http=insecure_loopback_http)
    return DocumentFetcher(settings, now=now)


def is_url(name: str) -> bool:
    """Whether a word of the command line is a URL rather than a file."""
    return name.startswith(("https://", "http://"))


# What the options of ``cardsign verify`` ask of every card alike, and the asking itself.


@dataclass(frozen=True, slots=True)
class Named:
    """Whom and what the command line names.

    Attributes:
        issuer: ``--issuer``.
        origin: ``--origin``.
        jwks: ``--jwks``.
        trust: Which policy and memory.
        statements: ``--statements``.
        accept: ``--accept``; None for what the policy says.
        profiles: ``--profile``.
        at: ``--at``, in UTC; None for now.
        insecure_loopback_http: Ask this machine, and without TLS.
        credential: ``--credential``; of commands that visit a peer.
    """

    issuer: str | None = None
    origin: str | None = None
    jwks: str | None = None
    trust: TrustOptions = field(default_factory=TrustOptions)
    statements: tuple[Path, ...] = ()
    accept: Accept | None = None
    profiles: tuple[ProfileName, ...] = ()
    at: datetime | None = None
    insecure_loopback_http: bool = False
    credential: str | None = None

    @property
    def pins_keys(self) -> bool:
        """Whether ``--jwks`` is the whole policy."""
        return self.jwks is not None and self.issuer is None and self.trust.trust_file is None

    def check(self) -> None:
        """Refuse what contradicts itself, or would promise what is not looked at.

        Raises:
            UsageFault: ``usage.conflict``, or for an origin that is none.
        """
        if self.issuer is not None and self.origin is not None:
            raise UsageFault("usage.conflict", "--issuer and --origin both name the subject")
        if self.origin is not None:
            with of_the_user("--origin"):
                parse_origin(self.origin)
        if self.pins_keys and (self.trust.state_dir or self.statements):
            unread = "--statements" if self.statements else "--state"
            raise UsageFault(
                "usage.conflict",
                f"--jwks alone pins keys, with which nothing is remembered and {unread} not read",
                hint="Name the policy's entry with --issuer, or leave one of the two out.",
            )


# What came of one card; all output formats are made of this alone, so that they cannot disagree.

# Several cards, one exit status: the weightiest of theirs.
_WEIGHT: Final = (EXIT_OK, EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_LOCAL_FAULT)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One card and what came of it.

    Attributes:
        name: How the user called the card, or the URL that answered.
        result: The verdict, or why the card could not be read here.
        untrusted_bytes: The file or answer, if it is the card itself; empty otherwise.
    """

    name: str
    result: Report | LocalFault
    untrusted_bytes: bytes = b""

    @property
    def exit_status(self) -> int:
        """That of the verdict, or 2."""
        return self.result.exit_status

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why, the weightiest first; a fault is its own reason."""
        if isinstance(self.result, LocalFault):
            return (Reason.from_error(self.result),)
        return self.result.reasons

    @property
    def position(self) -> tuple[int, int] | None:
        """Line and column at which the card could not be read, each from 1."""
        if not self.untrusted_bytes:
            return None
        try:
            Card.from_bytes(self.untrusted_bytes)
        except InputRefused as refusal:
            first = self.reasons[0].code if self.reasons else ""
            if refusal.code == first and refusal.line is not None and refusal.column is not None:
                return refusal.line, refusal.column
        return None

    def to_json(self) -> dict[str, Any]:
        """The object that ``cardsign verify --json`` prints."""
        if isinstance(self.result, LocalFault):
            return {"input": self.name, "error": self.reasons[0].to_json()}
        return {"input": self.name, **self.result.to_json()}


def weightiest(outcomes: Iterable[Outcome]) -> int:
    """The exit status of all of them: 2 beats 1 beats 3 beats 0."""
    return heaviest(one.exit_status for one in outcomes)


def heaviest(statuses: Iterable[int]) -> int:
    """The exit status of several: 2 beats 1 beats 3 beats 0."""
    return max(statuses, key=_WEIGHT.index, default=EXIT_OK)


_OUTCOMES: Final = {
    EXIT_OK: "trusted",
    EXIT_NOT_TRUSTED: "not trusted",
    EXIT_NO_VERDICT: "without a verdict",
    EXIT_LOCAL_FAULT: "not verified because of a fault here",
}


def summary(statuses: Sequence[int], of: str = "") -> str:
    """How many cards came to what, in one line."""
    counts = ((statuses.count(status), words) for status, words in _OUTCOMES.items())
    said = ", ".join(f"{count:,} {words}" for count, words in counts if count)
    return f"{counted(len(statuses), 'card')}{of}: {said}"


@dataclass(frozen=True, slots=True)
class Received:
    """A card, and what came with it.

    Attributes:
        name: What verdicts call it.
        untrusted_card: The card.
        supplied: The statements in its bundle.
        untrusted_file: What was read, if that is the card itself; empty for a bundle.
    """

    name: str
    untrusted_card: bytes
    supplied: SuppliedStatements = NO_STATEMENTS
    untrusted_file: bytes = b""

    @classmethod
    def of_file(cls, name: str) -> Received:
        """Read a file, which may be a bundle; ``-`` is standard input.

        Raises:
            BundleRefused: It says that it is a bundle, and is not a sound one.
            LocalFault: It cannot be read.
        """
        untrusted_bytes = read_input(name, max_bytes=MAX_BUNDLE_BYTES)
        shown = name if name != STDIO else "(stdin)"
        if not is_bundle(untrusted_bytes):
            return cls(shown, untrusted_bytes, untrusted_file=untrusted_bytes)
        return cls(shown, *read_bundle(untrusted_bytes))


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Everything on which verdicts rest but the cards.

    Attributes:
        named: What the command line names.
        policy: Of the policy file or of ``--jwks``; empty where there is neither.
        states: What is remembered of issuers.
        supplied: What ``--statements`` name.
        untrusted_jwks: What ``--jwks`` names, where an anchor is to read it.
        loaded: The policy file, if that is where the policy is from.
    """

    named: Named
    policy: Policy
    states: IssuerStates
    supplied: SuppliedStatements
    untrusted_jwks: bytes | None
    loaded: PolicyFile | None
    _discoverers: dict[str, Discoverer] = field(default_factory=dict, compare=False)

    @classmethod
    def prepare(cls, named: Named) -> Inquiry:
        """Read what the command line names.

        Raises:
            LocalFault: It contradicts itself, or a file cannot be had or understood.
        """
        named.check()
        keys = None
        if named.jwks is not None:
            keys = _keys_at(named.jwks, named.insecure_loopback_http)
            with of_the_user(named.jwks):
                jwks = JwkSet.from_bytes(keys)
            if named.pins_keys:
                return cls(named, _pinning(jwks, named), NO_STATES, NO_STATEMENTS, None, None)
        loaded = named.trust.load()
        if loaded is not None and named.issuer is not None:
            loaded.issuer(named.issuer)
        return cls(
            named,
            loaded.policy if loaded else Policy(),
            named.trust.states(loaded),
            supplied_statements(named.statements),
            keys,
            loaded,
        )

    @property
    def unnamed_policy(self) -> str:
        """What the first line of a verdict says of a policy that nobody named."""
        return self.loaded.unnamed if self.loaded else ""

    def now(self) -> datetime:
        """The time that verdicts are about."""
        return self.named.at or datetime.now(UTC)

    def subject(self, url: str | None) -> PublicSubject | None:
        """Whose card it should be; `url` is the one that it was asked from."""
        if self.named.pins_keys:
            return Holder()
        if self.named.issuer is not None:
            return Issuer(self.named.issuer)
        if self.named.origin is not None:
            return AtOrigin(self.named.origin)
        return None if url is None else CardUrl(url)

    def examine(
        self, untrusted_bytes: bytes, subject: PublicSubject | None, bundled: SuppliedStatements
    ) -> Report:
        """The verdict on one card.

        Raises:
            LocalFault: The memory, or an option that the policy does not go with.
        """
        policy, supplied = self._for(subject, bundled)
        report = examine_card(
            untrusted_bytes,
            expect=subject,
            policy=policy,
            now=self.now(),
            supplied=supplied,
            states=self.states,
            historic=self.named.at is not None,
        )
        return self._explained(report)

    def examine_file(self, name: str, *, by_origin: bool = False) -> Outcome:
        """What came of one file, which may be a bundle; ``-`` is standard input.

        Args:
            name: The file.
            by_origin: Where no subject is named, it is the issuer that the policy trusts for the
                origin of the card's first interface.

        Raises:
            LocalFault: As :meth:`examine`; a file that cannot be read is part of the outcome.
        """
        subject = self.subject(None)
        try:
            received = Received.of_file(name)
        except BundleRefused as refusal:
            return Outcome(name, self.without_card(refusal, name, subject))
        except LocalFault as fault:
            return Outcome(name, _or_a_host(fault, name))
        if by_origin and subject is None:
            subject = subject_by_origin(received.untrusted_card, self.policy)
        report = self.examine(received.untrusted_card, subject, received.supplied)
        return Outcome(received.name, report, received.untrusted_file)

    def look_up(self, url: str, *, fresh: bool = False) -> Discovery:
        """The verdict on a live peer's card, and what was received.

        Raises:
            LocalFault: As :meth:`examine`.
        """
        from cardsign.net.discovery import Discoverer
        from cardsign.net.fetcher import card_url

        policy, supplied = self._for(self.subject(card_url(url)), NO_STATEMENTS)
        discoverer = self._discoverers.get(policy.digest)
        if discoverer is None:
            fetcher = make_fetcher(self.now, self.named.insecure_loopback_http)
            discoverer = Discoverer(policy, self.states, fetcher=fetcher, now=self.now)
            self._discoverers[policy.digest] = discoverer
        found = discoverer.look_up(
            url,
            expect=self.subject(None),
            supplied=supplied,
            historic=self.named.at is not None,
            fresh=fresh,
        )
        return (
            replace(found, report=self._explained(found.report)) if found.untrusted_card else found
        )

    def examine_beside(
        self,
        received: Received,
        untrusted_extended: bytes,
        subject: PublicSubject,
        audience: str,
    ) -> tuple[Report, Report]:
        """The verdicts on a public card and the extended one beside it.

        Raises:
            LocalFault: As :meth:`examine`.
        """
        policy, supplied = self._for(subject, received.supplied)
        public, extended = examine_extended(
            received.untrusted_card,
            untrusted_extended,
            of=subject,
            audience=audience,
            policy=policy,
            now=self.now(),
            supplied=supplied,
            states=self.states,
            historic=self.named.at is not None,
        )
        return self._explained(public), self._explained(extended)

    def without_card(
        self, refusal: InputRefused, name: str, subject: PublicSubject | None
    ) -> Report:
        """The verdict where there is no card to look at, for its bundle cannot be opened."""
        entry = self._issuer(subject)
        report = Report.unread(
            refusal,
            entry.name if entry else self.named.issuer or self.named.origin or name,
            self.now(),
        )
        issuer = entry.name if entry and not entry.is_holder else None
        return replace(report, issuer=issuer, historic=self.named.at is not None)

    def _issuer(self, subject: PublicSubject | None) -> TrustedIssuer | None:
        try:
            return self.policy.find(subject)
        except CardRefused:  # a URL that nobody may ask is nobody's
            return None

    def _for(
        self, subject: PublicSubject | None, bundled: SuppliedStatements
    ) -> tuple[Policy, SuppliedStatements]:
        """The policy as narrowed, and what came along."""
        issuer = self._issuer(subject)
        supplied = self.supplied.beside(bundled)
        policy = self.policy
        if issuer is not None and not issuer.is_holder:
            if self.untrusted_jwks is not None:
                supplied = _answered(issuer, self.untrusted_jwks, supplied)
            if self.named.accept or self.named.profiles:
                policy = _accepting(policy, issuer, self.named)
        return policy, supplied

    def _explained(self, report: Report) -> Report:
        """Without a policy, say first that this is what is missing."""
        if self.loaded or self.named.pins_keys or report.verdict != "indeterminate":
            return report
        missing = Reason.of("trust.no_anchor", "there is no policy, so no issuer is trusted")
        others = (one for one in report.reasons if one.code != missing.code)
        return replace(report, reasons=(missing, *others))


def _keys_at(name: str, insecure_loopback_http: bool) -> bytes:
    """The JWK Set that ``--jwks`` names, a file or a URL.

    Raises:
        LocalFault: The file cannot be read.
        FetchFailed: The URL gives nothing.
    """
    if not is_url(name):
        return read_bytes(Path(name), max_bytes=MAX_JWKS_BYTES)
    from cardsign.net.fetch import FetchSettings, fetch_document

    settings = FetchSettings(
        max_bytes=MAX_JWKS_BYTES, insecure_loopback_http=insecure_loopback_http
    )
    return fetch_document(name, settings).untrusted_body


_HOST: Final = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,63}(?::[0-9]{1,5})?(?:/.*)?|localhost:[0-9].*")


def _or_a_host(fault: LocalFault, name: str) -> LocalFault:
    """The same fault; where the missing file looks like a host, with the URL to give instead."""
    is_file_name = name.endswith(".json") and "/" not in name
    if not isinstance(fault, FileMissing) or not _HOST.fullmatch(name) or is_file_name:
        return fault
    hint = f"For a card on the web give its URL: cardsign verify https://{name}"
    return FileMissing(fault.code, fault.message, path=fault.path, hint=hint)


def _pinning(jwks: JwkSet, named: Named) -> Policy:
    keys = named.jwks or ""
    holder = f"the holder of the keys {f'at {keys}' if is_url(keys) else f'in {Path(keys).name}'}"
    name = holder if named.origin is None else f"{holder}, at {named.origin}"
    accept = named.accept or "full"
    only = _only(named.profiles, accept, "full signatures count by default")
    return Policy.from_jwks(jwks, name=name, origin=named.origin, accept=accept, only=only)


def _answered(
    issuer: TrustedIssuer, untrusted_jwks: bytes, supplied: SuppliedStatements
) -> SuppliedStatements:
    if not isinstance(issuer.anchor, JwksAnchor):
        raise UsageFault(
            "usage.conflict",
            f"--jwks: {issuer.name!r} has another anchor than `jwks`, and an anchor names one "
            "source",
            hint="Leave --jwks out; or leave the policy out, and judge the holder of these keys.",
        )
    url = issuer.anchor.url
    return replace(supplied, untrusted_jwks=untrusted_jwks, jwks_url=url)


def _accepting(policy: Policy, issuer: TrustedIssuer, named: Named) -> Policy:
    """The policy with what the command line accepts of one issuer."""
    accept = named.accept or issuer.accept
    only = _only(named.profiles, accept, f"the policy says so of {issuer.name!r}")
    changed = replace(issuer, accept=accept, only=only)
    return replace(
        policy,
        issuers=tuple(changed if one is issuer else one for one in policy.issuers),
    )


def _only(profiles: tuple[ProfileName, ...], accept: Accept, why: str) -> tuple[ProfileName, ...]:
    """The profiles of ``--profile``, which narrows what is accepted and never widens it."""
    wider = [profile for profile in profiles if profile not in ACCEPTED[accept]]
    if wider:
        raise UsageFault(
            "usage.conflict",
            f"--profile {wider[0]} is not accepted: {why}",
            hint="Add --accept sdk if you accept what that profile leaves unsigned.",
        )
    return profiles


#: Whom a command visits, and with which credential it comes, as `named`.
visit_options: Final = option_group(
    Named,
    "named",
    click.option(
        "--issuer",
        metavar="NAME",
        help="Whose card it must be, by the policy's own name [default: the issuer that "
        "the policy trusts for the URL].",
    ),
    click.option(
        "--jwks",
        metavar="FILE|URL",
        help="Whose card it must be: the holder of these keys. No policy is read, and "
        "revocation cannot be seen.",
    ),
    accept_option,
    trust_options,
    loopback_option,
    click.option(
        "--credential",
        metavar="SOURCE",
        help="Where to read the credential: env:NAME or exec:/absolute/path?arg=A. It is sent only "
        "to the origin of URL [default: as your own credentials.toml says].",
    ),
)


@dataclass(frozen=True, slots=True)
class Visit:
    """A peer whose card was looked up, and what the user has for it.

    Attributes:
        inquiry: On what verdicts rest.
        public: The public card and the verdict on it.
        settings: How hosts are reached.
        credentials: The user's credentials.
        again: Looks up the card once more, past every cache on the way.
    """

    inquiry: Inquiry
    public: Discovery
    settings: FetchSettings
    credentials: CredentialStore
    again: Callable[[], Discovery]

    @classmethod
    def to(cls, url: str, named: Named) -> Visit:
        """Look up the card at a URL.

        Raises:
            LocalFault: The command line contradicts itself; a file cannot be had or understood.
        """
        if not is_url(url):
            shown = without_userinfo(url)
            raise UsageFault("usage.invalid", f"{shown!r} is no URL", hint="Give https://HOST/.")
        from cardsign.net.fetch import FetchSettings

        inquiry = Inquiry.prepare(named)
        credentials = _credential_store(named.credential, url)
        public = inquiry.look_up(url)
        if inquiry.loaded is not None:
            raise_lock(inquiry.loaded, inquiry.states)
        settings = FetchSettings(insecure_loopback_http=named.insecure_loopback_http)
        again = partial(inquiry.look_up, url, fresh=True)
        return cls(inquiry, public, settings, credentials, again)

    @property
    def subject(self) -> PublicSubject:
        """Whose card the public one is."""
        return self.inquiry.subject(self.public.url) or CardUrl(self.public.url)

    @property
    def owner(self) -> str:
        """The policy's name of whom the public card is."""
        found = self.inquiry.policy.find(self.subject)
        return found.name if found is not None else ""


def _credential_store(credential: str | None, url: str) -> CredentialStore:
    """The credential of the command line, for the URL's origin; else the user's own file."""
    from cardsign.net.credentials import (
        FILE_NAME,
        Credential,
        CredentialSource,
        CredentialStore,
        read_credentials,
    )

    if credential is not None:
        source = CredentialSource.parse(credential)
        with of_the_user("URL"):
            return CredentialStore((Credential(None, parse_url(url).origin, source),), os.environ)
    from cardsign.keys.signers.access import user_file

    path = user_file(os.environ, FILE_NAME)
    return CredentialStore(read_credentials(path) if path is not None else (), os.environ)
