"""``cardsign sign``, ``resign`` and ``canonicalize``."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import click

from cardsign import errors
from cardsign.batch import read_card
from cardsign.card import profiles
from cardsign.card.document import Card
from cardsign.card.extensions import END_FORMS, MAX_SEQ, ExtendedMarker, check_audience
from cardsign.card.profiles import PROFILES, RUST_ALG, VERIFIERS, ProfileName, left_open
from cardsign.cli import frame, issuer
from cardsign.cli.cards import say_lint
from cardsign.cli.frame import Answer, is_json, members, moment, safe, say, show
from cardsign.cli.issuer import KeystoreOptions, project_config
from cardsign.cli.verifier import VerifierOptions, show_refusal, statements_option, subject_options
from cardsign.config import NO_CONFIG
from cardsign.errors import SignerFault, UsageFault, of_the_user
from cardsign.gateway import resign_card
from cardsign.issuer.cards import expiry, sign_cards, sign_sources
from cardsign.issuer.work import card_signers, named_signers
from cardsign.jose.jws import Signer
from cardsign.jose.keys import JwkSet, PublicKey, read_jwks
from cardsign.keys.history import list_own_kids
from cardsign.keys.imports import MAX_KEY_FILE_BYTES, import_public_key
from cardsign.keys.signers import Access, list_public_keys
from cardsign.sign import COMPAT, SignedCard, SigningOptions, sign_with_notes

_OF_ONE_CARD: Final = "name CARD: options such as --key and -o are about one card"
#: Notes on what compat signatures leave open, and for whom there is none.
_EXPLAINED: Final = frozenset({"sign.compat_lossy", "sign.sdk_refuses"})
_OPEN: Final = 1_000  # characters of a list of places
_KID: Final = 11  # characters of a kid that are shown, the dots included
# Measured with joserfc 1.8.0 and jose 6.2.17: docs/reports/interop.md, "Verifiers that ignore typ".
_IGNORES_TYP: Final = (
    "a verifier that ignores `typ` (plain joserfc or jose) accepts this payload served as the card"
)


def read_marker(
    audience: str | None, seq: int | None, expires: str | None, now: datetime
) -> ExtendedMarker | None:
    """Return what makes the card the extended one of an audience; None where it is none."""
    if audience is None and seq is None and expires is None:
        return None
    if audience is None or seq is None or expires is None:
        message = "--extended, --seq and --expires must be used together"
        raise UsageFault("usage.conflict", message, hint="--seq is the number of the next release.")
    check_audience(audience)
    return ExtendedMarker(audience, seq, expiry(expires, now))


def _read_public(keystore: KeystoreOptions, name: str, access: Access) -> PublicKey:
    """Return the public key of ``--key``; of several the one that ``--kid`` or the signer names."""
    data = frame.read_input(name, max_bytes=MAX_KEY_FILE_BYTES)
    with of_the_user(name):
        keys = JwkSet.from_bytes(data).keys
        kids = [jwk.get("kid", keystore.kid) for _, jwk in read_jwks(data)]
        if keystore.kid and keystore.kid not in kids:  # whoever has these keys would refuse it
            message = f"--public has no key {keystore.kid!r}, as --kid says, but: "
            message += ", ".join(key.kid for key in keys)
            raise UsageFault("usage.conflict", message, path=name)
        if keystore.kid is None and len(keys) > 1:
            # Of another one nothing is signed: each answer is verified.
            shown = list_public_keys(keystore.uris[0], access)[0].thumbprint
            return next((key for key in keys if key.thumbprint == shown), keys[0])
        return import_public_key(data, kid=keystore.kid)


def find_signers(
    keystore: KeystoreOptions, *, now: datetime
) -> tuple[tuple[Signer, ...], frozenset[str]]:
    """Return the keys that sign, and every kid of the key store.

    Those that are named sign, else all of the key store that sign now.
    """
    access, kid, name = keystore.named_access(), keystore.kid, keystore.public
    if not keystore.uris:
        store = keystore.open()
        return card_signers(store, access, now=now), list_own_kids(store)
    public = None if name is None else _read_public(keystore, name, access)
    beside, uris = keystore.open_if_any(), keystore.uris
    try:
        signers = named_signers(uris, access, now=now, store=beside, public=public, kid=kid)
    except SignerFault as fault:
        if name is None or name == frame.STDIO or kid or fault.code != "signer.wrong_key":
            raise
        hint = "Name the right key. Or, if this is it, add its public key: cardsign keys jwks "
        hint += shlex.join(["--key", f"file:{name}", "--key", *uris, "-o", name])
        raise SignerFault(fault.code, fault.message, path=fault.path, hint=hint) from fault
    if len({signer.public for signer in signers}) < len(signers):
        raise UsageFault("usage.conflict", "--key names one key twice", hint="Name it once.")
    return signers, list_own_kids(beside) if beside else frozenset()


@frame.command(
    advanced=(
        *("--force", "--known-keys", "--drop-foreign", "--header", "--public", "--kid"),
        *("--extended", "--seq", "--expires"),
    ),
    example="cardsign sign card.json -o signed.json",
)
@click.argument("card", required=False)
@click.option("-o", "--output", metavar="OUT", default=frame.STDIO, help="'-' for stdout.")
@click.option(
    "--compat",
    type=click.Choice(COMPAT),
    default="safe",
    help="Signatures to add for SDKs, which cardsign does not count. safe: those that cover every "
    "endpoint, security scheme and scope. all: for every SDK.",
)
@click.option("--force", is_flag=True, help="Sign even what is no valid Agent Card, and say why.")
@click.option(
    "--known-keys", metavar="JWKS", help="Keys of other signers, whose bad signatures are dropped."
)
@click.option("--drop-foreign", is_flag=True, help="Drop the signatures of other signers.")
@click.option(
    "--header",
    metavar="NAME=VALUE",
    multiple=True,
    help="Put this into the unsigned `header` of each signature, such as jku=https://HOST/jwks.json.",
)
@click.option(
    "--extended",
    "audience",
    metavar="AUDIENCE",
    help="Mark CARD as extended for this audience, a random id; needs --seq and --expires.",
)
@click.option(
    "--seq", metavar="N", type=click.IntRange(1, MAX_SEQ), help="The release that CARD is for."
)
@click.option("--expires", metavar="DATE", help=f"When CARD ends, within 400 days: {END_FORMS}.")
@issuer.key_option
@issuer.public_option
@issuer.kid_option
@issuer.unlock_options
@frame.dry_run_option
@click.option("--explain", is_flag=True, help="Who accepts each signature and what it leaves open.")
def sign(
    card: str | None, output: str, explain: bool, keystore: KeystoreOptions, **options: Any
) -> int:
    """Sign CARD ('-' for stdin) with every active key of the key store.

    SDKs disagree about which bytes a signature covers, so one signature is made for each payload
    that differs. A card that is already fully signed is written unchanged. Without CARD the cards
    of cardsign.toml are signed, each into its file.
    """
    is_named = keystore.place or keystore.names_keys or issuer.KEYSTORE_VARIABLE in os.environ
    config = NO_CONFIG if card and is_named else project_config()  # read before anything is signed
    secrets = replace(config.lint.settings(), groups=("secrets", "portable.unknown-member"))
    is_usual = not any(value for name, value in options.items() if name != "compat")
    is_usual = is_usual and options["compat"] == "safe" and not keystore.names_keys
    if card is not None:
        signers, signing = _sign_card(card, output, options, keystore)
        signed = [("(stdin)" if card == frame.STDIO else card, signing)]
    elif output != frame.STDIO or not is_usual:
        hint = "For several cards, repeat it for each: cardsign sign CARD --key URI -o FILE"
        raise UsageFault("usage.conflict", _OF_ONE_CARD, hint=hint)
    else:
        signers, signed = _sign_project(keystore)
    for name, signing in signed if not is_json() else ():
        _say_signed(name, signing, signers, explain=explain)
        say_lint(name, signing.document, secrets)
    shown = [_to_json(signing, signers) for _, signing in signed]
    return show(Answer(shown if card is None else shown[0]))


def _say_signed(
    name: str, signing: SignedCard, signers: Sequence[Signer], *, explain: bool
) -> None:
    """Say what was signed, and what a reader of the card should know."""
    say(_summarize(signing, name, signers), asked=explain)
    for line in _explain(signing, signers) if explain else ():
        say(line, asked=True)
    frame.say_notes(note for note in signing.notes if explain or note.code not in _EXPLAINED)


def _sign_project(
    keystore: KeystoreOptions,
) -> tuple[Sequence[Signer], list[tuple[str, SignedCard]]]:
    """Sign the cards of cardsign.toml, each into its file; say which agent is switched off."""
    config = project_config()
    issuer.check_cards(config)
    work = keystore.work(config)
    signers = card_signers(work.store, work.access, now=work.now)
    signed = []
    for part in work.by_agent():
        try:
            cards = sign_sources(part, signers) if work.is_dry_run else sign_cards(part)
        except errors.BuildRefused as refusal:
            if refusal.code != "build.switched_off":
                raise
            say(f"not signed: {refusal.message}; to withdraw its card: cardsign publish")
            continue
        signed += [(os.path.relpath(card.source), signing) for card, signing in cards]
    return signers, signed


def _sign_card(
    card: str, output: str, options: Mapping[str, Any], keystore: KeystoreOptions
) -> tuple[Sequence[Signer], SignedCard]:
    """Sign one card and write it."""
    frame.check_output(output)
    now = moment()
    header = frame.read_pairs("--header", "NAME=VALUE", options["header"])
    marker = read_marker(options["audience"], options["seq"], options["expires"], now)
    document = frame.read_input(card)
    signers, own_kids = find_signers(keystore, now=now)
    known_keys = options["known_keys"] and frame.read_jwks(options["known_keys"])
    how = frame.take(SigningOptions, {**options, "header": header, "known_keys": known_keys})
    file = "CARD" if card == frame.STDIO else card
    how = replace(how, own_kids=own_kids, extended=marker, file=file)
    with errors.naming(file):
        signing = sign_with_notes(document, signers, how)
    frame.write_output(output, signing.document)
    return signers, signing


def _to_json(signing: SignedCard, signers: Sequence[Signer]) -> dict[str, Any]:
    shown = "profile compat verifiers leaves_open leaves_open_count"
    return {
        "changed": signing.changed,
        "payloads": [members(payload, shown) for payload in signing.payloads],
        "kids": [signer.public.kid for signer in signers],
        "sha256": hashlib.sha256(signing.document).hexdigest(),
        "notes": [note.to_json() for note in signing.notes],
    }


def _summarize(signing: SignedCard, name: str, signers: Sequence[Signer]) -> str:
    """Say in one line what was signed, by which keys, and who accepts it in each way of theirs."""
    public = (signer.public for signer in signers)
    keys = " and ".join(f"{safe(key.kid, limit=_KID)} ({key.alg})" for key in public)
    if not signing.changed:
        return f"{safe(name)} is fully signed by {keys} already, and stays as it was"
    accepting = [reader for payload in signing.payloads for reader in payload.verifiers]
    refusing = {_product(sdk.name) for sdk in VERIFIERS if sdk.name not in accepting}
    products = (*(["cardsign"] if signing.is_trusted else []), *map(_product, accepting))
    accepted = [name for name in dict.fromkeys(products) if name not in (*refusing, "RFC")]
    return f"signed {safe(name)} with {keys}; accepted by {', '.join(accepted) or 'nobody'}"


def _product(verifier: str) -> str:
    """Return what a verifier is called without its versions and ways to use it."""
    return re.split(r" [0-9]|,", verifier)[0]


def _explain(signing: SignedCard, signers: Sequence[Signer]) -> Iterator[str]:
    """Yield who verifies each payload, and what the payload leaves open."""
    for payload in signing.payloads:
        ours = () if payload.compat or not signing.is_trusted else ("cardsign",)
        readers = "; ".join((*ours, *payload.verifiers)) or "no SDK that is known"
        yield f"  {payload.profile}: {readers}"
        lost = safe(", ".join(payload.leaves_open), limit=_OPEN)
        yield f"    leaves open: {lost}" if lost else "    covers the whole card"
        if payload.compat:
            yield "    " + _IGNORES_TYP
    if signing.payloads and all(signer.public.alg != RUST_ALG for signer in signers):
        yield f"  a2a-protocol-types (Rust) verifies {RUST_ALG} alone, so it accepts none of these"


@frame.command(
    example="cardsign resign https://agent.example --url https://gw.example/a -o copy.json"
)
@click.argument("card", metavar="URL|FILE")
@click.option(
    "--url",
    metavar="NEW",
    required=True,
    help="The gateway's endpoint. {path} stands for the path of each endpoint of the card.",
)
@frame.output_option()
@issuer.key_option
@subject_options
@statements_option
@issuer.unlock_options
def resign(card: str, url: str, output: str, keystore: KeystoreOptions, **options: Any) -> int:
    """Verify a card, point it at your gateway, and sign the copy with your keys.

    The copy names the issuer and the payload that it came from. It carries none of the
    issuer's signatures. It is made anew each time; if the card is not trusted, OUT is not changed.
    A FILE needs --issuer or --jwks.

    Exit status: 0 signed, 1 not trusted, 2 a fault of this machine, 3 no verdict.
    """
    named = frame.take(VerifierOptions, options)
    now = moment()
    name, report = named.batch().examine(card, read_card(card))
    if report.verdict != "trusted":
        return show_refusal(name, report)
    signers, own_kids = find_signers(keystore, now=now)
    signing = SigningOptions(own_kids=own_kids, file=output)
    signed = resign_card(report, signers, url=url, now=now, options=signing)
    frame.write_output(output, signed.document)
    where = "" if output == frame.STDIO else f" as {safe(output)}"
    view = {"input": name, "output": output, **_to_json(signed, signers)}
    show(Answer(view, notes=[f"signed the copy of {safe(name)}{where}"]))
    if not is_json():
        frame.say_notes(signed.notes)
    return errors.EXIT_OK


@frame.command(example="cardsign canonicalize card.json --profile served-as-is | sha256sum")
@click.argument("card")
@click.option(
    "--profile", type=click.Choice(tuple(PROFILES)), required=True, help="The rule of the payload."
)
def canonicalize(card: str, profile: ProfileName) -> int:
    """Print exactly the bytes that a signature on CARD ('-' for stdin) covers under a profile."""
    payload = profiles.canonicalize(Card.from_bytes(frame.read_input(card)).document, profile)
    if not is_json():
        frame.write_output(frame.STDIO, payload.data, is_exact=True)
        return errors.EXIT_OK
    uncovered = left_open(payload)
    view = {
        "profile": profile,
        "sha256": payload.sha256,
        "payload": payload.data.decode(),
        "uncovered": list(uncovered.pointers),
        "uncovered_count": uncovered.count,
    }
    return show(Answer(view))
