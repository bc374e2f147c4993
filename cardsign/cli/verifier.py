"""What a verifier's command works with: policy, lock, statements, and the verifier."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from cardsign.batch import Batch
from cardsign.card.profiles import ProfileName
from cardsign.cli import frame
from cardsign.cli.frame import Answer, safe, say, show
from cardsign.errors import UsageFault, of_the_user
from cardsign.jose.keys import MAX_JWKS_BYTES, JwkSet
from cardsign.statements.keyset import KeysetStatement
from cardsign.trust.policy import (
    POLICY_FILE,
    Accept,
    Anchor,
    Policy,
    Subject,
    TrustedIssuer,
    find_policy,
    load_policy,
)
from cardsign.trust.walk import load_statements
from cardsign.urls import is_url, parse_origin, without_userinfo
from cardsign.verify.report import Report, verdict_lines
from cardsign.verify.verifier import Verifier

if TYPE_CHECKING:  # an HTTP client, which a verdict on a file does not need
    from cardsign.net.discovery import Discovery
    from cardsign.net.endpoints import Credential


accept_option: Final = click.option(
    "--accept",
    type=click.Choice(("full", "sdk")),
    help="full: only signatures over the whole card count. sdk: those of SDKs too, which may leave "
    "parts of it unsigned [default: full, unless the issuer's entry says sdk].",
)
statements_option: Final = click.option(
    "--statements",
    type=frame.PATH,
    multiple=True,
    metavar="FILE|DIR",
    help="Keyset and release statements of the issuer: a file, or a folder and what is below it.",
)


policy_option: Final = click.option(
    "--trust",
    "trust_file",
    type=frame.PATH,
    metavar="FILE",
    help="The policy [default: CARDSIGN_TRUST, then ./trust.toml, then "
    "$XDG_CONFIG_HOME/cardsign/trust.toml].",
)


def subject_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add whose card it must be, and how it is fetched and judged: of a `VerifierOptions`."""
    issuer = click.option(
        "--issuer",
        metavar="NAME",
        help="Whose card it must be, by the policy's own name [default: the issuer that the policy "
        "trusts for the URL].",
    )
    jwks = click.option(
        "--jwks",
        metavar="FILE|URL",
        help="Whose card it must be: the holder of these keys. No policy is read, and revocation "
        "cannot be seen.",
    )
    return issuer(jwks(accept_option(policy_option(frame.network_option(command)))))


def visit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add whom a command visits, and with which credential: a `VerifierOptions`."""
    credential = click.option(
        "--credential",
        metavar="SOURCE",
        help="Where to read the credential: env:NAME or file:/PATH. It is sent only to an "
        "interface of the verified card inside the issuer's origins; with --jwks alone, at the "
        "origin of URL.",
    )
    client_id = click.option(
        "--client-id",
        metavar="ID",
        help="The OAuth client whose secret the credential is. It gets a token at the token URL of "
        "the verified card, which must be inside the issuer's origins too.",
    )
    return subject_options(credential(client_id(command)))


def needed_policy(trust_file: Path | None) -> Policy:
    """Read the policy of a command that is about one."""
    policy = load_policy(trust_file)
    if policy is None:
        where = f"there is no {POLICY_FILE} here, nor in your $XDG_CONFIG_HOME/cardsign"
        hint = "Trust an issuer, which makes one: cardsign trust add URL"
        raise UsageFault("trust.no_anchor", f"no policy: {where}", hint=hint)
    return policy


def extensible_policy(trust_file: Path | None) -> Policy:
    """Read the policy of a command that adds to one; where there is none yet, an empty one."""
    path = find_policy(trust_file)
    if path is None or not os.path.lexists(path):
        return Policy(path=path or Path(POLICY_FILE), is_own=path is not None)
    return needed_policy(trust_file)


def chosen_issuers(policy: Policy, names: Sequence[str]) -> tuple[TrustedIssuer, ...]:
    """Return the issuers that are named, each once; all of them where none is."""
    return tuple(policy.issuer(name) for name in dict.fromkeys(names)) or policy.issuers


def view_lines(view: Mapping[str, Any]) -> Iterator[str]:
    """Yield the members of a JSON object for a person; what is empty is left out."""
    from cardsign.inspect import words  # which no verdict needs

    for name, value in view.items():
        if value:
            yield f"{name:<11} {safe(words(value), limit=400)}"


#: Root keys that were retired since could sign a history of their own from such a pin (threat 2).
OLD_PIN: Final = timedelta(days=365)


def say_if_old(keyset: KeysetStatement | None, now: datetime) -> None:
    """Warn if a pinned keyset, or the newest one that a pin leads to, is more than a year old."""
    if keyset is not None and now.timestamp() - keyset.iat > OLD_PIN.total_seconds():
        say(f"this statement is more than {OLD_PIN.days} days old; ask the issuer for a newer one")


def kind_of(anchor: Anchor) -> str:
    """Return the member of `[issuer.anchor]` that is there."""
    from cardsign.trust.policyfile import anchor_members

    return next(iter(anchor_members(anchor)))


def show_refusal(name: str, report: Report) -> int:
    """Show on stderr why there is no card, and return the exit status."""
    answer = Answer({"input": name, **report.to_json()}, verdict_lines(name, report))
    return show(answer._replace(exit_status=report.exit_status), err=True)


# The verifier that a command line names.


@dataclass(frozen=True, slots=True)
class VerifierOptions:
    """Whom and what the command line names: each field is the option of its name."""

    issuer: str | None = None
    origin: str | None = None
    jwks: str | None = None
    trust_file: Path | None = None
    here: bool = True  # look for a policy in the working directory too
    statements: tuple[Path, ...] = ()
    accept: Accept | None = None
    only: tuple[ProfileName, ...] = ()
    at: datetime | None = None
    insecure: bool = False
    credential: str | None = None
    client_id: str | None = None

    def batch(self, *, by_origin: bool = False, audience: str | None = None) -> Batch:
        """Read what is named."""
        if self.issuer is not None and self.origin is not None:
            both = "--issuer and --origin both name the subject"
            raise UsageFault("usage.conflict", both, hint="Leave one of the two out.")
        if self.origin is not None:
            with of_the_user("--origin"):
                parse_origin(self.origin)
        subject = Subject(issuer=self.issuer, origin=self.origin, audience=audience)
        if self.jwks is not None:
            policy = self._by_keys_alone(self.jwks)
            subject = Subject(issuer=policy.issuers[0].name, audience=audience)
        else:
            policy = load_policy(self.trust_file, here=self.here) or Policy()
            if self.issuer is not None and policy.path is not None:
                policy.issuer(self.issuer)
        if self.accept or self.only:
            issuers = tuple(
                replace(issuer, accept=self.accept or issuer.accept, only=self.only)
                for issuer in policy.issuers
            )
            policy = replace(policy, issuers=issuers)
        # Settings load the HTTP client, which a card in hand does not need.
        net = frame.fetch_settings(self.insecure) if self.insecure else None
        statements = load_statements(self.statements)
        return Batch(Verifier(policy, net=net), subject, by_origin, statements, self.at, self.jwks)

    def _by_keys_alone(self, name: str) -> Policy:
        """Return the policy of ``--jwks`` alone: any holder of these keys is trusted."""
        if self.issuer is not None or self.trust_file is not None or self.statements:
            message = "--jwks pins keys, and goes without --issuer, --trust and --statements"
            command = f"cardsign trust add NAME --origin ORIGIN --jwks {shlex.quote(safe(name))}"
            hint = f"To trust an issuer by these keys: {command}"
            raise UsageFault("usage.conflict", message, hint=hint)
        keys = self._keys(name)
        place = f"at {name}" if is_url(name) else f"in {Path(name).name}"
        return Policy.from_jwks(keys, name=f"the holder of the keys {place}", origin=self.origin)

    def _keys(self, name: str) -> JwkSet:
        """Return the keys that ``--jwks`` names, in a file or at a URL."""
        if not is_url(name):
            return frame.read_jwks(name)
        from cardsign.net.fetch import fetch_document

        settings = replace(frame.fetch_settings(self.insecure), max_bytes=MAX_JWKS_BYTES)
        answer = fetch_document(name, settings)
        with of_the_user(name):
            keys = JwkSet.from_bytes(answer.untrusted_body)
        say(f"trust rests on TLS alone: whoever controls {name} can name any keys")
        return keys

    def visit(self, url: str) -> tuple[Batch, Discovery, Credential | None]:
        """Look up the card at a URL, with what the user has for that peer."""
        if not is_url(url):
            hint = "A URL begins with https://, and comes before any text."
            if os.path.isfile(url):
                hint = f"It is a file. To verify it: cardsign verify {shlex.quote(url)}"
            raise UsageFault("usage.invalid", f"{without_userinfo(url)!r} is not a URL", hint=hint)
        from cardsign.net.endpoints import Credential

        if self.credential is None and self.client_id is not None:
            raise UsageFault("usage.conflict", "--client-id goes with --credential: name both")
        credential = None
        if self.credential is not None:
            credential = Credential(self.credential, client_id=self.client_id or "")
            # What is not there is said before anybody is asked; a pipe can be read only once.
            place = self.credential.partition(":")[2]
            if os.path.isfile(place) or not os.path.exists(place):
                credential.secret()
        batch = self.batch()
        public = batch.verifier.look_up(url, batch.subject, batch.statements, at=batch.at)
        public = replace(public, report=batch.fill_in(public.url, public.report))
        return batch, public, credential


#: Peers that are asked at a time: 200 peers that each take a second are done within ten, and a
#: verifier behind a home router opens no more connections at once than a browser.
CONCURRENCY: Final = 24
