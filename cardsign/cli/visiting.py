"""What commands share that meet one peer and then ask him for something."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cardsign.cli.inquiry import Inquiry, Named
from cardsign.cli.live import is_url, loopback_option
from cardsign.cli.options import of_the_user
from cardsign.cli.policy import raise_lock, trust_options
from cardsign.errors import UsageFault
from cardsign.keys.signers.userfile import user_file
from cardsign.trust.origins import parse_url
from cardsign.trust.subject import CardUrl, PublicSubject

if TYPE_CHECKING:  # an HTTP client, which no other command needs
    from cardsign.net.fetch import Wire
    from cardsign.net.meeting import Meeting
    from cardsign.net.wallet import Wallet

_Command = TypeVar("_Command", bound=Callable[..., Any])


def visit_options(command: _Command) -> _Command:
    """Whom a command is about, and with which credential it comes."""
    for option in reversed(
        (
            click.option(
                "--issuer",
                metavar="NAME",
                help="Whose card it must be, by the policy's own name [default: whoever the "
                "policy enrols for the URL].",
            ),
            click.option(
                "--jwks",
                metavar="FILE",
                help="Whose card it must be: the holder of these keys. No policy is read, and "
                "revocation is not seen.",
            ),
            trust_options,
            click.option(
                "--credential",
                metavar="SOURCE",
                help="Where the credential is had from, env:NAME or exec:/absolute/path?arg=A; it "
                "goes to the origin of URL alone [default: as credentials.toml in your own "
                "configuration says].",
            ),
            loopback_option,
        )
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Visit:
    """A peer who was met, and what the user brought along.

    Attributes:
        inquiry: On what verdicts rest.
        public: What came of meeting him.
        wire: How he is reached.
        wallet: The user's credentials.
        again: Meets him once more, past every cache on the way.
    """

    inquiry: Inquiry
    public: Meeting
    wire: Wire
    wallet: Wallet
    again: Callable[[], Meeting]

    @classmethod
    def to(
        cls,
        url: str,
        *,
        issuer: str | None,
        jwks: str | None,
        trust_file: Path | None,
        state_dir: Path | None,
        no_state: bool,
        credential: str | None,
        insecure_loopback_http: bool,
    ) -> Visit:
        """Meet the peer at a URL.

        Raises:
            LocalFault: The command line contradicts itself; a file cannot be had or understood.
        """
        if not is_url(url):
            raise UsageFault("usage.invalid", f"{url!r} is no URL", hint="Give https://HOST/.")
        from cardsign.net.fetch import FetchPolicy, Wire

        inquiry = Inquiry.prepare(
            Named(issuer, None, jwks, trust_file, state_dir, no_state, (), (), None)
        )
        wallet = _wallet(credential, url)
        public = inquiry.meet(url, insecure_loopback_http)
        if inquiry.loaded is not None:
            raise_lock(inquiry.loaded, inquiry.memory)
        wire = Wire(FetchPolicy(insecure_loopback_http=insecure_loopback_http))
        again = partial(inquiry.meet, url, insecure_loopback_http, fresh=True)
        return cls(inquiry, public, wire, wallet, again)

    @property
    def subject(self) -> PublicSubject:
        """Whose card the public one is."""
        return self.inquiry.subject(self.public.url) or CardUrl(self.public.url)

    @property
    def owner(self) -> str:
        """The policy's name of whom the public card is."""
        found = self.inquiry.policy.find(self.subject)
        return found.name if found is not None else ""


def _wallet(credential: str | None, url: str) -> Wallet:
    """The credential of the command line, for the URL's origin; else the user's own file."""
    from cardsign.net.credentials import FILE_NAME, Credential, CredentialSource, read_credentials
    from cardsign.net.wallet import Wallet

    if credential is not None:
        source = CredentialSource.parse(credential)
        with of_the_user("URL"):
            return Wallet((Credential(None, parse_url(url).origin, source),), os.environ)
    path = user_file(os.environ, FILE_NAME)
    return Wallet(read_credentials(path) if path is not None else (), os.environ)
