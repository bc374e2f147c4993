"""What a verifier's command works with: policy, issuer states, statements, and the verifier."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cardsign.card.canonical import ProfileName
from cardsign.cli.options import NetworkOptions, take
from cardsign.cli.printer import counted, say
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    LocalFault,
    UsageFault,
    of_the_user,
)
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.trust.disk import (
    PolicyFile,
    find_policy,
    lock_of,
    user_folder,
)
from cardsign.trust.policy import (
    ACCEPTED,
    POLICY_FILE,
    Accept,
    AtOrigin,
    Holder,
    Issuer,
    JwksAnchor,
    Policy,
    PublicSubject,
    TrustedIssuer,
)
from cardsign.trust.state import NO_STATES, DirectoryStates, IssuerStates
from cardsign.trust.supplied import SuppliedStatements, read_statements
from cardsign.urls import is_url, parse_origin, without_userinfo
from cardsign.verifier import Verifier

if TYPE_CHECKING:  # an HTTP client, which a verdict on a file does not need
    from cardsign.net.credentials import Credential
    from cardsign.net.discovery import Discovery


@dataclass(frozen=True, slots=True)
class TrustOptions:
    """Which policy and which issuer states a command is about.

    Attributes:
        here: Look for a policy in the working directory too.
    """

    trust_file: Path | None = None
    state_dir: Path | None = None
    no_state: bool = False
    here: bool = True

    def find(self) -> Path | None:
        """Where the policy is; see :func:`cardsign.trust.disk.find_policy`."""
        return find_policy(self.trust_file, here=self.here)

    def load(self) -> PolicyFile | None:
        """Read the policy; None where none is named and none is found."""
        return PolicyFile.find(self.trust_file, here=self.here, allowed=_allowed_folders)

    def needed(self) -> PolicyFile:
        """Read the policy of a command that is about one."""
        loaded = self.load()
        if loaded is None:
            raise UsageFault(
                "trust.no_anchor",
                f"no policy: there is no {POLICY_FILE} here, nor in {user_folder('CONFIG')}",
                hint="Make one: cardsign trust init, then cardsign trust add NAME "
                "--origin ORIGIN --keyset FILE.",
            )
        return loaded

    def extensible(self) -> PolicyFile:
        """Read the policy of a command that adds to one; where there is none yet, an empty one."""
        return self.load() or PolicyFile.begun(Path(POLICY_FILE))

    @property
    def stored(self) -> DirectoryStates:
        """The issuer states on this machine's disk."""
        return DirectoryStates(self.state_dir or user_folder("STATE"))

    def states(self, loaded: PolicyFile | None) -> IssuerStates:
        """The issuer states that a verdict under this policy rests on."""
        if self.no_state and self.state_dir is not None:
            raise UsageFault("usage.conflict", "--state and --no-state contradict one another")
        return NO_STATES if loaded is None or self.no_state else self.stored


def supplied_statements(paths: Iterable[Path]) -> SuppliedStatements:
    """What ``--statements`` name; of a folder it is said how much is no statement."""
    return read_statements(paths, say)


def raise_lock(file: PolicyFile, states: IssuerStates) -> None:
    """Raise the lock of a policy, and say so.

    A lock that cannot be written takes no verdict away, nor does the state of an issuer that
    was not asked about.
    """
    try:
        raised = file.raise_lock(states)
    except LocalFault as fault:
        say(f"{lock_of(file.path)} was not brought up to date: {fault}")
        return
    for name in raised:
        say(f"{lock_of(file.path)} holds a newer keyset statement of {name}; commit it")


def _allowed_folders() -> tuple[Path, ...]:
    from cardsign.keys.signers.access import user_policy  # the key store: for links alone

    return tuple(user_policy(os.environ).folders)


# The verifier that a command line names.


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
    network: NetworkOptions = field(default_factory=NetworkOptions)
    credential: str | None = None
    client_id: str | None = None

    @classmethod
    def take(cls, options: dict[str, Any]) -> VerifierOptions:
        """Return them, and take them out of the options of a command."""
        trust, network = take(TrustOptions, options), take(NetworkOptions, options)
        return replace(take(cls, options), trust=trust, network=network)

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
            insecure_loopback_http=self.network.insecure_loopback_http,
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
        issuer = None if subject is None else policy.find(subject)
        meant = [one for one in policy.issuers if subject is None or one is issuer]
        if keys is not None and meant:
            made.supplied = _with_keys(meant, keys, made.supplied)
        if self.accept or self.profiles:
            issuers = list(policy.issuers)
            for one in meant:
                accept = self.accept or one.accept
                only = _only(self.profiles, accept, f"the policy says so of {one.name!r}")
                issuers[issuers.index(one)] = replace(one, accept=accept, only=only)
            policy = replace(policy, issuers=tuple(issuers))
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
        if is_url(name):
            say(f"trust rests on TLS alone: whoever controls {name} can name any keys")
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
            from cardsign.net.fetch import fetch_document

            settings = replace(self.network.settings(), max_bytes=MAX_JWKS_BYTES)
            keys = fetch_document(name, settings).untrusted_body
        else:
            keys = read_bytes(Path(name), max_bytes=MAX_JWKS_BYTES)
        with of_the_user(name):
            JwkSet.from_bytes(keys)
        return keys

    def visit(self, url: str) -> tuple[Verifier, Discovery, Credential | None]:
        """Look up the card at a URL, with what the user has for that peer."""
        if not is_url(url):
            shown = without_userinfo(url)
            raise UsageFault("usage.invalid", f"{shown!r} is no URL", hint=f"Write https://{shown}")
        from cardsign.net.credentials import Credential

        _refuse_credentials_file()
        if self.credential is None and self.client_id is not None:
            what = "--client-id says whose secret --credential is: name both"
            raise UsageFault("usage.conflict", what)
        credential = None
        if self.credential is not None:
            credential = Credential.parse(
                self.credential, environment=os.environ, client_id=self.client_id or ""
            )
        verifier = self.verifier()
        public = verifier.look_up(url)
        keep_lock(verifier)
        return verifier, public, credential


def _refuse_credentials_file() -> None:
    """Refuse a file of credentials from before the first release, which would do nothing."""
    try:
        file = user_folder("CONFIG") / "credentials.toml"
    except UsageFault:  # no home folder
        return
    if file.exists():
        hint = "Give --credential env:NAME or file:PATH, and remove the file."
        raise UsageFault("usage.conflict", "it is no longer read", path=str(file), hint=hint)


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


def keep_lock(verifier: Verifier) -> None:
    """Raise the policy's lock, if one was read and the verdict is about now."""
    if verifier.file is not None and not verifier.historic:
        raise_lock(verifier.file, verifier.states)


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
