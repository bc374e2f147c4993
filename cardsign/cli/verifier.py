"""The options of commands that verify cards, and the verifier that they make."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cardsign.batch import Verifier
from cardsign.card.canonical import ProfileName
from cardsign.cli.arguments import option, option_group
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
    CardRefused,
    UsageFault,
    of_the_user,
)
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.records import dataclass
from cardsign.trust.policy import (
    ACCEPTED,
    Accept,
    AtOrigin,
    Holder,
    Issuer,
    JwksAnchor,
    Policy,
    PublicSubject,
    TrustedIssuer,
)
from cardsign.trust.statements import SuppliedStatements
from cardsign.urls import is_url, parse_origin, parse_url, without_userinfo

if TYPE_CHECKING:  # an HTTP client, which a verdict on a file does not need
    from cardsign.net.credentials import CredentialStore
    from cardsign.net.discovery import Discovery
    from cardsign.net.fetcher import DocumentFetcher

#: ``--insecure-loopback-http``: ask this machine, and without TLS.
loopback_option: Final = option(
    "--insecure-loopback-http",
    "Allow URLs of this machine, also over plain HTTP; for trying things out.",
)


def make_fetcher(now: Callable[[], datetime], insecure_loopback_http: bool) -> DocumentFetcher:
    """Asks peers for documents, and keeps them as long as this command runs."""
    from cardsign.net.fetch import FetchSettings
    from cardsign.net.fetcher import DocumentFetcher

    settings = FetchSettings(insecure_loopback_http=insecure_loopback_http)
    return DocumentFetcher(settings, now=now)


@dataclass(frozen=True, slots=True)
class VerifierOptions:
    """Whom and what the command line names: each field is the option of its name."""

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

    def verifier(self) -> Verifier:
        """Read what is named."""
        if self.issuer is not None and self.origin is not None:
            both = "--issuer and --origin both name the subject"
            raise UsageFault("usage.conflict", both, hint="Leave one of the two out.")
        subject: PublicSubject | None = None if self.issuer is None else Issuer(self.issuer)
        if self.origin is not None:
            with of_the_user("--origin"):
                parse_origin(self.origin)
            subject = AtOrigin(self.origin)
        made = Verifier(
            Policy(),
            lambda: self.at or datetime.now(UTC),
            subject,
            historic=self.at is not None,
            insecure_loopback_http=self.insecure_loopback_http,
        )
        if self.jwks is not None and self.issuer is None and self.trust.trust_file is None:
            return self._by_keys_alone(made, self.jwks)
        keys = None if self.jwks is None else self._keys(self.jwks)
        made.file = self.trust.load()
        if made.file is not None and self.issuer is not None:
            made.file.issuer(self.issuer)
        made.states = self.trust.states(made.file)
        made.supplied = supplied_statements(self.statements)
        policy = made.file.policy if made.file is not None else Policy()
        # Whose card it may be. A URL or the card itself may name any issuer of the policy.
        meant = policy.issuers if subject is None else _found(policy, subject)
        if keys is not None and meant:
            made.supplied = _with_keys(meant, keys, made.supplied)
        if self.accept or self.profiles:
            narrowed = {id(one): self._narrowed(one) for one in meant}
            issuers = tuple(narrowed.get(id(one), one) for one in policy.issuers)
            policy = replace(policy, issuers=issuers)
        made.policy = policy
        return made

    def _by_keys_alone(self, made: Verifier, name: str) -> Verifier:
        """``--jwks`` without a policy: any holder of these keys is trusted."""
        if self.trust.state_dir or self.statements:
            unread = "--statements" if self.statements else "--state"
            raise UsageFault(
                "usage.conflict",
                f"--jwks alone pins keys, with which nothing is remembered and {unread} not read",
                hint="Name the policy's entry with --issuer, or leave one of the two out.",
            )
        keys = self._keys(name)
        place = f"at {name}" if is_url(name) else f"in {Path(name).name}"
        whose = f"the holder of the keys {place}"
        if self.origin is not None:
            whose += f", at {self.origin}"
        accept = self.accept or "full"
        only = _only(self.profiles, accept, "full signatures count by default")
        made.policy = Policy.from_jwks(
            keys, name=whose, origin=self.origin, accept=accept, only=only
        )
        made.expect = Holder()
        return made

    def _keys(self, name: str) -> bytes:
        """The JWK Set that ``--jwks`` names, a file or a URL."""
        if is_url(name):
            from cardsign.net.fetch import FetchSettings, fetch_document

            loopback = self.insecure_loopback_http
            settings = FetchSettings(max_bytes=MAX_JWKS_BYTES, insecure_loopback_http=loopback)
            keys = fetch_document(name, settings).untrusted_body
        else:
            keys = read_bytes(Path(name), max_bytes=MAX_JWKS_BYTES)
        with of_the_user(name):
            JwkSet.from_bytes(keys)
        return keys

    def _narrowed(self, issuer: TrustedIssuer) -> TrustedIssuer:
        accept = self.accept or issuer.accept
        only = _only(self.profiles, accept, f"the policy says so of {issuer.name!r}")
        return replace(issuer, accept=accept, only=only)

    def visit(self, url: str) -> tuple[Verifier, Discovery, CredentialStore]:
        """Look up the card at a URL, with what the user has for that peer."""
        if not is_url(url):
            shown = without_userinfo(url)
            raise UsageFault("usage.invalid", f"{shown!r} is no URL", hint="Give https://HOST/.")
        verifier = self.verifier()
        credentials = _credential_store(self.credential, url)
        public = verifier.look_up(url)
        keep_lock(verifier)
        return verifier, public, credentials


def _found(policy: Policy, subject: PublicSubject) -> tuple[TrustedIssuer, ...]:
    try:
        found = policy.find(subject)
    except CardRefused:  # a URL that nobody may ask is nobody's
        found = None
    return () if found is None else (found,)


def _with_keys(
    meant: Sequence[TrustedIssuer], untrusted_jwks: bytes, supplied: SuppliedStatements
) -> SuppliedStatements:
    """The keys of ``--jwks`` as what the URL of the one anchor that they are for answers."""
    if len(meant) > 1:
        raise UsageFault(
            "usage.conflict",
            "--jwks with a policy is for one issuer, and none is named",
            hint="Name it with --issuer or --origin.",
        )
    anchor = meant[0].anchor
    if not isinstance(anchor, JwksAnchor):
        raise UsageFault(
            "usage.conflict",
            f"--jwks: {meant[0].name!r} has another anchor than `jwks`, and an anchor names one "
            "source",
            hint="Leave --jwks out; or leave the policy out, and judge the holder of these keys.",
        )
    return replace(supplied, untrusted_jwks=untrusted_jwks, jwks_url=anchor.url, jwks_once=True)


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


def keep_lock(verifier: Verifier) -> None:
    """Raise the policy's lock, if one was read and the verdict is about now."""
    if verifier.file is not None and not verifier.historic:
        raise_lock(verifier.file, verifier.states)


def unnamed_policy(verifier: Verifier) -> str:
    """What the first line of a verdict says of a policy that nobody named."""
    return verifier.file.unnamed if verifier.file is not None else ""


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


#: Whom a command visits, and with which credential it comes, as `named`.
visit_options: Final = option_group(
    VerifierOptions,
    "named",
    option(
        "--issuer NAME",
        "Whose card it must be, by the policy's own name [default: the issuer that the policy "
        "trusts for the URL].",
    ),
    option(
        "--jwks FILE|URL",
        "Whose card it must be: the holder of these keys. No policy is read, and revocation "
        "cannot be seen.",
    ),
    accept_option,
    trust_options,
    loopback_option,
    option(
        "--credential SOURCE",
        "Where to read the credential: env:NAME, file:/PATH or exec:/PATH?arg=A. It is sent only "
        "to the origin of URL [default: as your own credentials.toml says].",
    ),
)
