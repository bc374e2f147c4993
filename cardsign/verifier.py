"""A verifier: a policy, issuer states and a time, and the verdicts on cards by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from cardsign.card.document import Card
from cardsign.card.interfaces import current_interfaces
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    InputRefused,
    LocalFault,
    UsageFault,
)
from cardsign.files import MAX_INPUT_BYTES
from cardsign.findings import Finding
from cardsign.inputs import read_object
from cardsign.trust.disk import PolicyFile
from cardsign.trust.policy import CardUrl, Issuer, Policy, PublicSubject
from cardsign.trust.state import NO_STATES, IssuerStates
from cardsign.trust.supplied import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import is_url
from cardsign.verify.report import Report
from cardsign.verify.verdict import examine_extended, reach_verdict

if TYPE_CHECKING:  # an HTTP client, which a card in hand does not need
    from cardsign.net.discovery import Discoverer, Discovery

#: Several cards, one exit status: the last of these that any of them has.
_WEIGHT: Final = (EXIT_OK, EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_LOCAL_FAULT)


def heaviest(statuses: Iterable[int]) -> int:
    """The exit status of several cards: 2 beats 1 beats 3 beats 0."""
    return max(statuses, key=_WEIGHT.index, default=EXIT_OK)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One card and what came of it.

    Attributes:
        name: How the caller named the card, or the URL that answered.
        result: The verdict, or the fault of this machine that prevented one.
        untrusted_bytes: The file or answer, if it is the card itself; empty otherwise.
    """

    name: str
    result: Report | LocalFault
    untrusted_bytes: bytes = field(default=b"", repr=False)

    @property
    def verdict(self) -> str:
        """The verdict, or ``fault``."""
        return "fault" if isinstance(self.result, LocalFault) else self.result.verdict

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """Why, the weightiest first; a fault is its own reason."""
        if isinstance(self.result, LocalFault):
            return (self.result.finding,)
        return self.result.reasons

    def to_json(self) -> dict[str, Any]:
        """The object that ``cardsign verify --json`` prints."""
        if isinstance(self.result, LocalFault):
            return {"input": self.name, "error": self.reasons[0].to_json()}
        return {"input": self.name, **self.result.to_json()}


@dataclass(slots=True, eq=False)
class Verifier:
    """Everything on which verdicts rest but the cards.

    Attributes:
        policy: Whom to trust.
        now: The time of a verdict, aware.
        expect: Whose card each should be. None: a URL is judged as a card of the issuer that the
            policy trusts for it, and of a file nothing is trusted unless `by_origin`.
        by_origin: Judge a file as a card of the issuer that the policy trusts for its first
            interface; see :func:`subject_by_origin`.
        states: What is remembered of the issuers.
        supplied: Statements that came along.
        historic: `now` is a time of the caller's choice: nothing is trusted or kept.
        insecure_loopback_http: Ask this machine too, and without TLS.
        file: Where the policy is from, if from a file.
    """

    policy: Policy
    now: Callable[[], datetime]
    expect: PublicSubject | None = None
    by_origin: bool = False
    states: IssuerStates = NO_STATES
    supplied: SuppliedStatements = NO_STATEMENTS
    historic: bool = False
    insecure_loopback_http: bool = False
    file: PolicyFile | None = None
    _discoverer: Discoverer | None = field(default=None, init=False)

    def examine(self, name: str, untrusted_bytes: bytes | None = None) -> Outcome:
        """The verdict on a card in hand, or at a URL.

        Args:
            name: How the verdict calls the card.
            untrusted_bytes: The card as received. None: `name` is a URL or an object of a store,
                and is asked for it.

        Raises:
            LocalFault: Issuer states are lost, corrupt or cannot be written; or the object
                cannot be read.
        """
        if untrusted_bytes is None:
            if is_url(name):
                found = self.look_up(name)
                return Outcome(found.url, found.report, found.untrusted_card)
            untrusted_bytes = read_object(name, max_bytes=MAX_INPUT_BYTES)
        name = "(stdin)" if name == "-" else name
        expect = self.expect
        if expect is None and self.by_origin:
            expect = subject_by_origin(untrusted_bytes, self.policy)
        report = reach_verdict(
            untrusted_bytes,
            expect=expect,
            policy=self.policy,
            now=self.now(),
            supplied=self.supplied,
            states=self.states,
            historic=self.historic,
        )
        return Outcome(name, self._explained(report), untrusted_bytes)

    def look_up(self, url: str, *, fresh: bool = False) -> Discovery:
        """The verdict on the card at a URL, and what was received.

        Raises:
            LocalFault: As :meth:`examine`.
        """
        if self._discoverer is None:
            from cardsign.net.discovery import Discoverer
            from cardsign.net.fetch import FetchSettings
            from cardsign.net.fetcher import DocumentFetcher

            settings = FetchSettings(insecure_loopback_http=self.insecure_loopback_http)
            fetcher = DocumentFetcher(settings, now=self.now)
            self._discoverer = Discoverer(self.policy, self.states, fetcher=fetcher, now=self.now)
        found = self._discoverer.look_up(
            url, expect=self.expect, supplied=self.supplied, historic=self.historic, fresh=fresh
        )
        if not found.untrusted_card:
            return found
        return replace(found, report=self._explained(found.report))

    def examine_beside(
        self,
        public: str,
        untrusted_public: bytes,
        extended: str,
        untrusted_extended: bytes,
        audience: str,
    ) -> Iterator[Outcome]:
        """The verdicts on a public card and on its extended card, which needs it.

        Where there is no public card to look at, the verdict on that is the only one.

        Args:
            public: The name of the public card, or a URL, which is asked.
            untrusted_public: The public card as received; empty for a URL.
            extended: The name of the extended card.
            untrusted_extended: The extended card as received.
            audience: The id of the audience, as the issuer gave it.

        Raises:
            UsageFault: ``usage.conflict``: nothing says whose both cards should be.
            LocalFault: As :meth:`examine`.
        """
        expect, supplied = self.expect, self.supplied
        if is_url(public):
            found = self.look_up(public)
            public, untrusted_public = found.url, found.untrusted_card
            if not untrusted_public:
                yield Outcome(public, found.report)
                return
            expect, supplied = expect or CardUrl(public), supplied.joined(found.supplied)
        if expect is None:
            raise UsageFault(
                "usage.conflict",
                "--extended asks whether two cards are of one subject, and nobody is named",
                hint="Name the subject with --issuer, --origin or --jwks.",
            )
        reports = examine_extended(
            untrusted_public,
            untrusted_extended,
            of=expect,
            audience=audience,
            policy=self.policy,
            now=self.now(),
            supplied=supplied,
            states=self.states,
            historic=self.historic,
        )
        yield Outcome(public, self._explained(reports[0]), untrusted_public)
        yield Outcome(extended, self._explained(reports[1]), untrusted_extended)

    def _explained(self, report: Report) -> Report:
        """Without a policy, say first that this is what is missing."""
        if self.policy.issuers or self.file is not None or report.verdict != "indeterminate":
            return report
        missing = Finding("trust.no_anchor", "there is no policy, so no issuer is trusted")
        others = (one for one in report.reasons if one.code != missing.code)
        return replace(report, reasons=(missing, *others))


def subject_by_origin(untrusted_bytes: bytes, policy: Policy) -> Issuer | None:
    """The trusted issuer whose origin holds the card's first interface, or None.

    The card itself names the interface, so this says only by whose keys to judge it: a verdict
    ``trusted`` means that the card is of that issuer, which the report names. To ask for the card
    of one issuer, name the issuer.
    """
    try:
        first = current_interfaces(Card.from_bytes(untrusted_bytes).document)[:1]
        found = policy.find(CardUrl(str(first[0].url))) if first else None
    except InputRefused:  # no card, or an interface that nobody may call
        return None
    return Issuer(found.name) if found is not None and not found.is_holder else None
