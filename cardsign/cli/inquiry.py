"""What the options of ``cardsign verify`` ask of every card alike, and the asking itself.

A key set named by ``--jwks`` is one of two things. Alone it is the whole policy: its holder is
the subject, no policy file is looked for and nothing is remembered. With ``--issuer`` or
``--trust`` it is what the URL of a ``jwks`` anchor answers, handed over in a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cardsign.card.canonical import FULL_PROFILES
from cardsign.cli.evidence import read_evidence
from cardsign.cli.live import make_asker
from cardsign.cli.options import of_the_user
from cardsign.cli.policy import LoadedPolicy, load_policy, memory_of
from cardsign.errors import CardRefused, InputRefused, UsageFault
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.reasons import Reason
from cardsign.trust.anchors import JwksAnchor
from cardsign.trust.evidence import NO_EVIDENCE, Evidence
from cardsign.trust.known import NO_MEMORY, Memory
from cardsign.trust.origins import parse_origin
from cardsign.trust.policy import Enrolment, Policy
from cardsign.trust.subject import AtOrigin, CardUrl, Holder, Issuer, PublicSubject
from cardsign.verdict import Answers, Report
from cardsign.verify import Circumstances, examine_card, examine_extended
from cardsign.verify.signature import reason_of

if TYPE_CHECKING:  # an HTTP client, which a verdict on a file does not need
    from cardsign.net.discovery import Discoverer
    from cardsign.net.meeting import Meeting


@dataclass(frozen=True, slots=True)
class Named:
    """Whom and what the command line names.

    Attributes:
        issuer: ``--issuer``.
        origin: ``--origin``.
        jwks: ``--jwks``.
        trust: ``--trust``.
        state: ``--state``.
        no_state: ``--no-state``.
        statements: ``--statements``.
        profiles: ``--profile``.
        at: ``--at``, in UTC; None for now.
    """

    issuer: str | None
    origin: str | None
    jwks: str | None
    trust: Path | None
    state: Path | None
    no_state: bool
    statements: tuple[Path, ...]
    profiles: tuple[str, ...]
    at: datetime | None

    @property
    def pins_keys(self) -> bool:
        """Whether ``--jwks`` is the whole policy."""
        return self.jwks is not None and self.issuer is None and self.trust is None

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
        if self.pins_keys and (self.state or self.statements):
            unread = "--statements" if self.statements else "--state"
            raise UsageFault(
                "usage.conflict",
                f"--jwks alone pins keys, with which nothing is remembered and {unread} not read",
                hint="Name the policy's entry with --issuer, or leave one of the two out.",
            )


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Everything on which verdicts rest but the cards.

    Attributes:
        named: What the command line names.
        policy: Of the policy file or of ``--jwks``; empty where there is neither.
        memory: What is remembered of issuers.
        evidence: What ``--statements`` name.
        untrusted_jwks: What ``--jwks`` names, where an anchor is to read it.
        loaded: The policy file, if that is where the policy is from.
    """

    named: Named
    policy: Policy
    memory: Memory
    evidence: Evidence
    untrusted_jwks: bytes | None
    loaded: LoadedPolicy | None
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
            keys = read_bytes(Path(named.jwks), max_bytes=MAX_JWKS_BYTES)
            with of_the_user(named.jwks):
                jwks = JwkSet.from_bytes(keys)
            if named.pins_keys:
                return cls(named, _pinning(jwks, named), NO_MEMORY, NO_EVIDENCE, None, None)
        loaded = load_policy(named.trust)
        if loaded is not None and named.issuer is not None:
            loaded.enrolment(named.issuer)
        return cls(
            named,
            loaded.policy if loaded else Policy(),
            memory_of(loaded, named.state, named.no_state),
            read_evidence(named.statements),
            keys,
            loaded,
        )

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
        self, untrusted_bytes: bytes, subject: PublicSubject | None, bundled: Evidence
    ) -> Report:
        """The verdict on one card.

        Raises:
            LocalFault: The memory, or an option that the policy does not go with.
        """
        policy, circumstances = self._for(subject, bundled)
        report = examine_card(
            untrusted_bytes, expect=subject, policy=policy, now=self.now(), **circumstances
        )
        return self._explained(report)

    def meet(self, url: str, insecure_loopback_http: bool, *, fresh: bool = False) -> Meeting:
        """The verdict on a live peer's card, and what was received.

        Raises:
            LocalFault: As :meth:`examine`.
        """
        from cardsign.net.discovery import Discoverer
        from cardsign.net.meeting import canonical

        policy, circumstances = self._for(self.subject(canonical(url)), NO_EVIDENCE)
        discoverer = self._discoverers.get(policy.digest)
        if discoverer is None:
            asker = make_asker(self.now, insecure_loopback_http)
            discoverer = Discoverer(policy, self.memory, asker=asker, now=self.now)
            self._discoverers[policy.digest] = discoverer
        met = discoverer.meet(
            url,
            expect=self.subject(None),
            evidence=circumstances["evidence"],
            historic=circumstances["historic"],
            fresh=fresh,
        )
        return replace(met, report=self._explained(met.report)) if met.untrusted_card else met

    def examine_beside(
        self,
        untrusted_public: bytes,
        untrusted_extended: bytes,
        subject: PublicSubject,
        audience: str,
        bundled: Evidence,
    ) -> tuple[Report, Report]:
        """The verdicts on a public card and the extended one beside it.

        Raises:
            LocalFault: As :meth:`examine`.
        """
        policy, circumstances = self._for(subject, bundled)
        public, extended = examine_extended(
            untrusted_public,
            untrusted_extended,
            of=subject,
            audience=audience,
            policy=policy,
            now=self.now(),
            **circumstances,
        )
        return self._explained(public), self._explained(extended)

    def without_card(
        self, refusal: InputRefused, name: str, subject: PublicSubject | None
    ) -> Report:
        """The verdict where there is no card to look at, for its bundle cannot be opened."""
        enrolment = self._enrolment(subject)
        return Report(
            "invalid",
            enrolment.name if enrolment else self.named.issuer or self.named.origin or name,
            Answers(integrity="no"),
            (reason_of(refusal),),
            issuer=enrolment.name if enrolment and not enrolment.is_holder else None,
            historic=self.named.at is not None,
            checked_at=self.now(),
        )

    def _enrolment(self, subject: PublicSubject | None) -> Enrolment | None:
        try:
            return self.policy.find(subject)
        except CardRefused:  # a URL that nobody may ask is nobody's
            return None

    def _for(
        self, subject: PublicSubject | None, bundled: Evidence
    ) -> tuple[Policy, Circumstances]:
        """The policy as narrowed, and what the verdict rests on besides."""
        enrolment = self._enrolment(subject)
        evidence = self.evidence.beside(bundled)
        policy = self.policy
        if enrolment is not None and not enrolment.is_holder:
            if self.untrusted_jwks is not None:
                evidence = _answered(enrolment, self.untrusted_jwks, evidence)
            if self.named.profiles:
                policy = _narrowed(policy, enrolment, self.named.profiles)
        return policy, Circumstances(
            evidence=evidence, memory=self.memory, historic=self.named.at is not None
        )

    def _explained(self, report: Report) -> Report:
        """Without a policy, say first that this is what is missing."""
        if self.loaded or self.named.pins_keys or report.verdict != "indeterminate":
            return report
        missing = Reason.of("trust.no_anchor", "there is no policy that says whose keys to accept")
        others = (one for one in report.reasons if one.code != missing.code)
        return replace(report, reasons=(missing, *others))


def _pinning(jwks: JwkSet, named: Named) -> Policy:
    holder = f"the holder of the keys in {Path(named.jwks or '').name}"
    name = holder if named.origin is None else f"{holder}, at {named.origin}"
    return Policy.holder_of_keys(
        jwks, name=name, origin=named.origin, profiles=named.profiles or FULL_PROFILES
    )


def _answered(enrolment: Enrolment, untrusted_jwks: bytes, evidence: Evidence) -> Evidence:
    if not isinstance(enrolment.anchor, JwksAnchor):
        raise UsageFault(
            "usage.conflict",
            f"--jwks: {enrolment.name!r} has another anchor than `jwks`, and an anchor names one "
            "source",
            hint="Leave --jwks out; or leave the policy out, and judge the holder of these keys.",
        )
    url = enrolment.anchor.url
    return replace(evidence, untrusted_jwks=untrusted_jwks, jwks_url=url)


def _narrowed(policy: Policy, enrolment: Enrolment, profiles: tuple[str, ...]) -> Policy:
    """The policy with fewer profiles for one issuer; the command line never widens it."""
    wider = [profile for profile in profiles if profile not in enrolment.profiles]
    if wider:
        raise UsageFault(
            "usage.conflict",
            f"--profile {wider[0]}: the policy accepts {', '.join(enrolment.profiles)} of "
            f"{enrolment.name!r}, and can only be narrowed here",
            hint="Name it in the issuer's `profiles` if you accept what it leaves open.",
        )
    narrower = replace(enrolment, profiles=profiles)
    return replace(
        policy,
        enrolments=tuple(narrower if one is enrolment else one for one in policy.enrolments),
    )
