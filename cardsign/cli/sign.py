"""``cardsign sign`` and ``cardsign canonicalize``."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from cardsign.card.canonical import DEFAULT_PROFILES, PROFILES
from cardsign.card.canonical import canonicalize as make_payload
from cardsign.card.coverage import uncovered_parts
from cardsign.card.document import Card
from cardsign.cli.options import (
    STDIO,
    active_signers,
    json_option,
    keystore_option,
    of_the_user,
    open_keystore,
    passphrase_options,
    passphrase_source,
    read_input,
    write_output,
)
from cardsign.cli.talk import print_json, say, say_notes
from cardsign.errors import UsageFault
from cardsign.jose.jwks import JwkSet
from cardsign.sign import (
    COMPAT_PROFILES,
    SigningOptions,
    check_as_an_outsider,
    sign_with_notes,
)


@click.command()
@click.argument("card")
@click.option("-o", "--output", default=STDIO, metavar="OUT", help="'-' for stdout, the default.")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Choice(DEFAULT_PROFILES),
    help="Serve only these profiles; served-as-is is always among them. May be repeated.",
)
@click.option(
    "--compat",
    multiple=True,
    type=click.Choice(COMPAT_PROFILES),
    help="Serve an older or stranger reading as well, or a lossy one although its payload has "
    "lost every endpoint; what it leaves open is said. May be repeated.",
)
@click.option("--strict", is_flag=True, help="Refuse a card that lacks REQUIRED members.")
@click.option("--force", is_flag=True, help="Sign what is no proper Agent Card, and say why not.")
@click.option(
    "--known-keys",
    metavar="JWKS",
    help="Keys of other signers; their signatures that no longer fit are dropped.",
)
@click.option("--drop-foreign", is_flag=True, help="Drop the signatures of other signers.")
@keystore_option
@passphrase_options
@json_option
def sign(
    card: str,
    output: str,
    profiles: tuple[str, ...],
    compat: tuple[str, ...],
    strict: bool,
    force: bool,
    known_keys: str | None,
    drop_foreign: bool,
    keystore: Path | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Sign CARD ('-' for stdin) with every active key of the key store.

    One signature is made for each distinct payload, so that verifiers of every reading of the
    specification accept the card. A card that is fully signed already is written unchanged.
    """
    if as_json and output == STDIO:
        raise UsageFault("usage.conflict", "--json and the card both want stdout; name -o OUT")
    document = read_input(card)
    known = _known_keys(known_keys)
    store = open_keystore(keystore)
    options = SigningOptions(
        profiles=profiles or DEFAULT_PROFILES,
        compat=compat,
        strict=strict,
        force=force,
        known_keys=known,
        own_kids=store.ever_held_kids(),
        drop_foreign=drop_foreign,
    )
    signers = active_signers(store, passphrase_source(passphrase_file, passphrase_fd))
    signing = sign_with_notes(document, signers, options)
    write_output(output, signing.document)
    if output != STDIO:
        check_as_an_outsider(read_input(output), signers, force=force)
    say_notes(signing.notes)
    kids = [signer.public.kid for signer in signers]
    if as_json:
        print_json(
            {
                "changed": signing.changed,
                "profiles": list(signing.profiles),
                "kids": kids,
                "sha256": hashlib.sha256(signing.document).hexdigest(),
                "notes": [note.to_json() for note in signing.notes],
            }
        )
    elif signing.changed:
        say(f"signed for {', '.join(signing.profiles)} with {', '.join(kids)}")
    else:
        say("fully signed already; nothing changed")


def _known_keys(file: str | None) -> JwkSet | None:
    if file is None:
        return None
    with of_the_user(file):
        return JwkSet.from_bytes(read_input(file))


@click.command()
@click.argument("card")
@click.option(
    "--profile", type=click.Choice(tuple(PROFILES)), required=True, help="Under which rule."
)
@json_option
def canonicalize(card: str, profile: str, as_json: bool) -> None:
    """Print exactly the bytes that a signature on CARD ('-' for stdin) covers under a profile."""
    document = Card.from_bytes(read_input(card)).document
    payload = make_payload(document, profile)
    if not as_json:
        write_output(STDIO, payload.data)
        return
    parts = uncovered_parts(document, payload)
    print_json(
        {
            "profile": profile,
            "sha256": hashlib.sha256(payload.data).hexdigest(),
            "payload": payload.data.decode(),
            "uncovered": [part.pointer for part in parts if part.excuse is None],
        }
    )
