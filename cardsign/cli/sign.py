"""``cardsign sign`` and ``cardsign canonicalize``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from cardsign.card.canonical import PROFILES, RUST_ALG, Compat, ProfileName
from cardsign.card.canonical import canonicalize as make_payload
from cardsign.card.coverage import left_open
from cardsign.card.document import Card
from cardsign.card.extensions import MAX_SEQ, ExtendedMarker, check_audience
from cardsign.cli.frame import Command
from cardsign.cli.keystore import UnlockOptions, check_cards, project_config, read_jwks
from cardsign.cli.options import kid_option, public_option, take, unlock_options
from cardsign.cli.printer import Answer, is_json, safe, say, say_notes, show
from cardsign.cli.streams import (
    STDIO,
    dry_run_option,
    is_dry_run,
    read_input,
    refuse_two_documents,
    write_output,
)
from cardsign.cli.views import members
from cardsign.errors import EXIT_OK, SigningRefused, UsageFault, of_the_user
from cardsign.issuer.cards import expiry, sign_cards, sign_sources
from cardsign.issuer.signers import CardSigners, card_signers, named_signers
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PublicKey
from cardsign.keys.imports import MAX_KEY_FILE_BYTES, import_public_key
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.registry import list_public_keys
from cardsign.sign.notes import SignedPayload
from cardsign.sign.plan import COMPAT
from cardsign.sign.signing import SignedCard, SigningOptions, sign_with_notes

_OPEN: Final = 1_000  # characters of a list of places
_KID: Final = 11  # characters of a kid that are shown, the dots included
# Measured with joserfc 1.8.0 and jose 6.2.17: docs/reports/interop.md, "Verifiers that ignore typ".
_IGNORES_TYP: Final = (
    "a verifier that ignores `typ` (plain joserfc or jose) accepts this payload served as the card"
)


@dataclass(frozen=True, slots=True)
class CardOptions:
    """How one card is signed, and by which keys: each field is the option of its name."""

    compat: Compat = "safe"
    force: bool = False
    known_keys: str | None = None
    drop_foreign: bool = False
    headers: tuple[str, ...] = ()
    audience: str | None = None
    seq: int | None = None
    expires: str | None = None
    uris: tuple[str, ...] = ()
    public: str | None = None
    kid: str | None = None

    def signing(self, card: str, *, now: datetime) -> SigningOptions:
        """The same for the library; the keys are still to be named."""
        return SigningOptions(
            compat=self.compat,
            force=self.force,
            known_keys=None if self.known_keys is None else read_jwks(self.known_keys),
            drop_foreign=self.drop_foreign,
            header=self.header(),
            extended=self.marker(now=now),
            file="CARD" if card == STDIO else card,
        )

    def header(self) -> dict[str, str]:
        """The unprotected header of each signature, as ``--header`` says it."""
        header: dict[str, str] = {}
        for option in self.headers:
            name, equals, value = option.partition("=")
            if not equals or name in header:
                expected = "a name twice" if name in header else repr(option)
                message = f"--header takes NAME=VALUE, not {expected}"
                raise UsageFault("usage.conflict", message)
            header[name] = value
        return header

    def marker(self, *, now: datetime) -> ExtendedMarker | None:
        """What makes the card the extended one of an audience; None where it is none."""
        if self.audience is None and self.seq is None and self.expires is None:
            return None
        if self.audience is None or self.seq is None or self.expires is None:
            raise UsageFault(
                "usage.conflict",
                "--extended, --seq and --expires need one another",
                hint="Give all three. N of --seq is the number of the release that you sign next, "
                "one above that of the newest",
            )
        check_audience(self.audience)
        return ExtendedMarker(self.audience, self.seq, expiry(self.expires, now))

    def read_public(self, name: str, access: Access) -> PublicKey:
        """The public key of ``--key``; of several the one that ``--kid`` or the signer names."""
        data = read_input(name, max_bytes=MAX_KEY_FILE_BYTES)
        with of_the_user(name):
            keys = JwkSet.from_bytes(data).keys
            if self.kid is None and len(keys) > 1:
                # Of another one nothing is signed: each answer is verified.
                shown = list_public_keys(self.uris[0], access)[0].thumbprint
                return next((key for key in keys if key.thumbprint == shown), keys[0])
            return import_public_key(data, kid=self.kid)

    def signers(self, keystore: UnlockOptions, *, now: datetime) -> CardSigners:
        """The keys that sign: those that are named, else all of the key store that sign now."""
        for named, value in (("--public", self.public), ("--kid", self.kid)):
            if value is not None and len(self.uris) != 1:
                raise UsageFault("usage.conflict", f"{named} goes with one --key")
        access = keystore.access(*self.uris).for_roles(("card",))
        if not self.uris:
            return card_signers(keystore.open(), access, now=now)
        public = None if self.public is None else self.read_public(self.public, access)
        store = keystore.open_if_any()
        return named_signers(self.uris, access, now=now, store=store, public=public, kid=self.kid)


@click.command(
    cls=Command,
    advanced=(
        *("--force", "--known-keys", "--drop-foreign", "--header", "--public", "--kid"),
        *("--extended", "--seq", "--expires"),
    ),
    example="cardsign sign card.json -o signed.json",
)
@click.argument("card", required=False)
@click.option("-o", "--output", metavar="OUT", default=STDIO, help="'-' for stdout, the default.")
@click.option(
    "--compat",
    type=click.Choice(COMPAT),
    default="safe",
    show_default=True,
    help="Which compat signatures to add: other SDKs accept them, and cardsign does not count "
    "them. safe: those that cover every endpoint, security scheme and scope. all: for every "
    "SDK. none: for cardsign and strict verifiers only.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Sign it even if it is not a proper Agent Card, and say what is wrong.",
)
@click.option(
    "--known-keys",
    metavar="JWKS",
    help="Keys of other signers, to check their signatures. Bad signatures are dropped.",
)
@click.option("--drop-foreign", is_flag=True, help="Drop the signatures of other signers.")
@click.option(
    "--header",
    "headers",
    metavar="NAME=VALUE",
    multiple=True,
    help="Put this into the `header` of each signature, such as jku=https://HOST/jwks.json. It is "
    "not signed: anybody can change it. Never alg, kid, typ, crit or b64. May be repeated.",
)
@click.option(
    "--extended",
    "audience",
    metavar="AUDIENCE",
    help="Mark the card as the extended card for this audience. Use a random id, as `openssl "
    "rand -hex 16` prints. Needs --seq and --expires.",
)
@click.option(
    "--seq",
    metavar="N",
    type=click.IntRange(1, MAX_SEQ),
    help="The number of the release that the extended card is made for.",
)
@click.option(
    "--expires",
    metavar="DATE",
    help="When the extended card ends, at most 400 days ahead: YYYY-MM-DD (the end of that day) or "
    "YYYY-MM-DDThh:mm:ss. Without an offset it is UTC.",
)
@click.option(
    "--key",
    "uris",
    metavar="URI",
    multiple=True,
    help="Sign only with this key: env:NAME (a PEM or JWK in a variable), file:PATH, or the URI of "
    "a signer, such as awskms:///ID. A URI that you type may run the program or load the "
    "library that it names. May be repeated.",
)
@public_option
@kid_option
@unlock_options
@dry_run_option
@click.option("--explain", is_flag=True, help="Say what each signature covers and leaves open.")
def sign(card: str | None, output: str, explain: bool, **options: Any) -> int:
    """Sign CARD ('-' for stdin) with every active key of the key store.

    SDKs disagree about which bytes a signature covers. So one signature is made for each payload
    that differs, and each SDK finds one that it accepts. A card that is already fully signed is
    written unchanged. Without CARD the cards of cardsign.toml are signed, each into its file.
    """
    chosen = take(CardOptions, options)
    keystore = take(UnlockOptions, options)
    if card is not None:
        signers, signing = _sign_card(card, output, chosen, keystore)
        signed = [(card, signing)]
    elif output != STDIO or chosen != CardOptions():
        raise UsageFault("usage.conflict", "name CARD: these options are about one card")
    else:
        config = project_config()
        check_cards(config)
        work = keystore.work(config)
        signers = card_signers(work.store, work.access, now=work.now)
        cards = sign_sources(work, signers) if work.is_dry_run else sign_cards(work)
        signed = [(str(project_card.source), signing) for project_card, signing in cards]
    for name, signing in signed if not is_json() else ():
        for line in _lines(signing, name, signers.signers, explain=explain):
            say(line, asked=explain)
        say_notes(signing.notes)
    shown = [_to_json(signing, signers.kids) for _, signing in signed]
    return show(Answer(shown if card is None else shown[0]))


def _sign_card(
    card: str, output: str, chosen: CardOptions, keystore: UnlockOptions
) -> tuple[CardSigners, SignedCard]:
    """Sign one card and write it."""
    refuse_two_documents(output)
    now = datetime.now(UTC)
    options = chosen.signing(card, now=now)
    document = read_input(card)
    signers = chosen.signers(keystore, now=now)
    options = replace(options, own_kids=signers.own_kids)
    signing = sign_with_notes(document, signers.signers, options)
    write_output(output, signing.document)
    # A device, such as /dev/null, cannot be read again.
    is_file = output != STDIO and not is_dry_run() and Path(output).is_file()
    if is_file and read_input(output) != signing.document:
        raise SigningRefused("sign.self_check", f"{output} does not hold what was signed")
    return signers, signing


def _to_json(signing: SignedCard, kids: list[str]) -> dict[str, Any]:
    payloads = [
        {
            **members(payload, "profile compat verifiers"),
            "leaves_open": list(payload.leaves_open.pointers),
            "leaves_open_count": payload.leaves_open.count,
        }
        for payload in signing.payloads
    ]
    return {
        "changed": signing.changed,
        "payloads": payloads,
        "kids": kids,
        "sha256": hashlib.sha256(signing.document).hexdigest(),
        "notes": [note.to_json() for note in signing.notes],
    }


def _lines(
    signing: SignedCard, name: str, signers: Sequence[Signer], *, explain: bool
) -> Iterator[str]:
    """What was made and for whom, for a person."""
    keys = " and ".join(
        f"{safe(signer.public.kid, limit=_KID)} ({signer.public.alg})" for signer in signers
    )
    if signing.changed:
        plural = "" if len(signing.payloads) == 1 else "s"
        apiece = " each" if len(signers) > 1 else ""
        count = f"{len(signing.payloads)} signature{plural}{apiece}"
        yield f"signed {safe(name)} with {keys}: {count}"
    else:
        yield f"{safe(name)} is fully signed by {keys} already; nothing changed"
    for payload in signing.payloads:
        ours = () if payload.compat else ("cardsign",)
        readers = "; ".join((*ours, *payload.verifiers)) or "no SDK that is known"
        yield f"  {payload.profile}: {readers}"
        if explain:
            yield from _explain(payload)
    if signing.payloads and all(signer.public.alg != RUST_ALG for signer in signers):
        yield f"  a2a-protocol-types (Rust) verifies {RUST_ALG} alone, so it accepts none of these"


def _explain(payload: SignedPayload) -> Iterator[str]:
    """What one payload leaves open."""
    lost = safe(", ".join(payload.leaves_open.pointers), limit=_OPEN)
    yield f"    leaves open: {lost}" if lost else "    covers the whole card"
    if payload.compat:
        yield "    " + _IGNORES_TYP


@click.command(
    cls=Command, example="cardsign canonicalize card.json --profile served-as-is | sha256sum"
)
@click.argument("card")
@click.option(
    "--profile",
    type=click.Choice(tuple(PROFILES)),
    required=True,
    help="The rule that makes the payload.",
)
def canonicalize(card: str, profile: ProfileName) -> int:
    """Print exactly the bytes that a signature on CARD ('-' for stdin) covers under a profile."""
    document = Card.from_bytes(read_input(card)).document
    payload = make_payload(document, profile)
    if not is_json():
        write_output(STDIO, payload.data, is_exact=True)
        return EXIT_OK
    uncovered = left_open(payload).listed
    view = {
        "profile": profile,
        "sha256": payload.sha256,
        "payload": payload.data.decode(),
        "uncovered": list(uncovered.pointers),
        "uncovered_count": uncovered.count,
    }
    return show(Answer(view))
