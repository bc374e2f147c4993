"""``cardsign keyset sign`` and ``recover``: what takes a root's or a recovery key's signature."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from cardsign.cli.issuing import (
    DRAFT_HELP,
    check_begun,
    moment,
    needed_keyset,
    read_statement,
    recovery_signer,
    refuse_two_documents,
    signers_among,
    signing_lines,
    tell_differences,
)
from cardsign.cli.options import (
    json_option,
    keystore_option,
    of_the_user,
    open_keystore,
    passphrase_options,
    passphrase_source,
    write_output,
)
from cardsign.cli.recovery import (
    make_recovery,
    recovery_file_options,
    recovery_source,
)
from cardsign.cli.talk import print_json, say
from cardsign.errors import SigningRefused, UsageFault
from cardsign.files import create_private
from cardsign.jose.assembly import add_signature, sign_statement
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey
from cardsign.jose.keyset import KeysetStatement, Quorum, RootKey, read_keyset
from cardsign.jose.statements import TYP_KEYSET, check_times
from cardsign.keys.differences import differences
from cardsign.keys.ledger import Ledger, write_draft
from cardsign.keys.opening import AnyStore, Place
from cardsign.keys.passphrase import (
    new_passphrase,
    read_passphrase,
    terminal_prompt,
)
from cardsign.keys.releases import SKEW
from cardsign.keys.statements import (
    DEFAULT_LIFETIME,
    KeysetPlan,
    check_draft,
    draft_recovery,
    signings,
)


@click.command()
@click.argument("draft", metavar="DRAFT")
@click.option(
    "-o", "--output", metavar="FILE", help="Where the signed draft goes [default: DRAFT]."
)
@click.option(
    "--digest",
    metavar="SHA-256",
    help="What whoever drafted it has told you, over another channel; asked for on a terminal.",
)
@click.option("--key", "kids", multiple=True, metavar="KID", help="Only this key of the store.")
@recovery_file_options
@keystore_option
@passphrase_options
@json_option
def sign(
    draft: str,
    output: str | None,
    digest: str | None,
    kids: tuple[str, ...],
    recovery_file: Path | None,
    recovery_passphrase_file: Path | None,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Add the signature of this key store's holder to DRAFT.

    Shown is what it changes of the newest statement that is kept here, not what its author says
    of it. Then the digest is asked for; it belongs to the holder to hear it from a person.
    """
    refuse_two_documents(output or draft, as_json)
    store = open_keystore(keystore)
    previous = Ledger.beside(store).newest_keyset()
    statement = read_statement(draft)
    check_draft(statement, previous)
    with of_the_user(draft):
        check_times(statement, now=moment(), skew=SKEW)
    tell_differences(differences(previous, statement))
    _check_digest(statement, digest)
    source = passphrase_source(passphrase_file, passphrase_fd)
    wanted = {
        key.public.thumbprint for one in signings(statement, previous) for key in one.quorum.keys
    }
    if kids:
        wanted &= {store.find(kid).thumbprint for kid in kids}
    signers: list[Signer] = []
    if recovery_file is not None:
        secret = read_passphrase(
            recovery_source(recovery_passphrase_file), question="Passphrase of the recovery key: "
        )
        signers.append(recovery_signer(recovery_file, secret))
    if recovery_file is None or kids:
        signers += [one for _, one in signers_among(store, ("root", "recovery"), wanted, source)]
    if not signers or any(one.public.thumbprint not in wanted for one in signers):
        raise SigningRefused(
            "sign.no_key",
            "no key that is here has to sign this statement",
            path=str(recovery_file or store.place),
            hint="See who has to: cardsign keyset show DRAFT.",
        )
    signed = _signed(statement, signers)
    write_output(output or draft, write_draft(signed))
    lines = signing_lines(signed, previous)
    if as_json:
        print_json({"digest": signed.digest, "signed_by": lines})
    for line in lines:
        say(f"signed by {line}")
    if not any(one.missing for one in signings(signed, previous)):
        say(f"  next: cardsign keyset publish {output or draft}")


@click.command(short_help="Open the next epoch with the recovery key.")
@click.option("-o", "--output", metavar="DRAFT", help=DRAFT_HELP)
@click.option(
    "--root-holder",
    metavar="HOLDER",
    help="Who holds the new root key [default: who held the first of the old ones].",
)
@click.option(
    "--new-recovery-out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Make a new recovery key too, encrypted, for the old one has been used.",
)
@click.option(
    "--drop", multiple=True, metavar="KID", help="An online key that is listed no longer."
)
@recovery_file_options
@keystore_option
@passphrase_options
@json_option
def recover(
    output: str | None,
    root_holder: str | None,
    new_recovery_out: Path | None,
    drop: tuple[str, ...],
    recovery_file: Path | None,
    recovery_passphrase_file: Path | None,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Open the next epoch with the recovery key: for when root keys were stolen or lost.

    A new root key is made in this key store, and every old one ends. Revoke stolen card and
    release keys first (cardsign keys revoke), or --drop them. What is written has the signatures
    of the new root and of --recovery-file; where recovery needs more holders, it goes to them
    (cardsign keyset sign).
    """
    if recovery_file is None:
        raise UsageFault("usage.conflict", "name the recovery key: --recovery-file FILE")
    refuse_two_documents(output, as_json)
    store, now = open_keystore(keystore), moment()
    previous = needed_keyset(Ledger.beside(store))
    check_begun(previous, now)
    secret = read_passphrase(
        recovery_source(recovery_passphrase_file), question="Passphrase of the recovery key: "
    )
    recovery = recovery_signer(recovery_file, secret)
    source = passphrase_source(passphrase_file, passphrase_fd)
    root = PrivateKey.generate("ES256")
    renewed, replacement = make_recovery(secret) if new_recovery_out else (None, b"")
    holder = root_holder or previous.root.keys[0].holder
    plan = _recovering(store, previous, RootKey(root.public, holder), renewed, drop)
    with of_the_user("the draft"):
        statement = draft_recovery(
            plan.following(store.state, now=now, until=now + DEFAULT_LIFETIME), previous, now=now
        )
    signed = _signed(statement, [recovery, root])
    if not any(one.signed for one in signings(signed, previous) if one.whose != "its own root"):
        raise SigningRefused(
            "sign.no_key",
            "this is no recovery key of the newest statement",
            path=str(recovery_file),
            hint="Name the file of one that it lists: cardsign keyset show --json.",
        )
    passphrase = new_passphrase(source)
    if new_recovery_out is not None:
        create_private(new_recovery_out, replacement)
    store.add_key(root, passphrase, now=now, random=os.urandom, roles=("root",), holder=holder)
    file = output or f"keyset-{statement.epoch}.{statement.version}.json"
    write_output(file, write_draft(signed))
    tell_differences(differences(previous, signed))
    if as_json:
        print_json({"draft": file, "digest": signed.digest, "root": root.public.thumbprint})
    for line in signing_lines(signed, previous):
        say(f"signed by {line}")
    say(f"  next: cardsign keyset publish {file}")


def _recovering(
    store: AnyStore,
    previous: KeysetStatement,
    root: RootKey,
    renewed: PrivateKey | None,
    drop: tuple[str, ...],
) -> KeysetPlan:
    """The plan of a new epoch: one new root, and a list of revoked keys that starts anew."""
    held = previous.recovery
    if renewed is not None and held is not None:
        held = Quorum(1, (RootKey(renewed.public, held.keys[0].holder),))
    old = frozenset(key.public.thumbprint for key in previous.root.keys)
    dropped = {
        key.public.thumbprint
        for key in previous.keys
        if {key.public.kid, key.public.thumbprint}.intersection(drop)
    }
    plan = replace(
        KeysetPlan.of(previous), root=Quorum(1, (root,)), recovery=held, revoked=frozenset()
    )
    return plan.revoking(old | dropped)


def _signed(statement: KeysetStatement, signers: list[Signer]) -> KeysetStatement:
    if statement.envelope.signatures:
        data = write_draft(statement)
        for signer in signers:
            data = add_signature(data, signer, TYP_KEYSET)
    else:
        data = sign_statement(statement.envelope.payload, signers, TYP_KEYSET)
    return read_keyset(data)


def _check_digest(statement: KeysetStatement, told: str | None) -> None:
    if told is None:
        prompt = terminal_prompt()
        if prompt is None:
            raise UsageFault("usage.conflict", "name the digest that you were told: --digest")
        told = prompt("The digest that you were told (not shown): ")
    if "".join(told.split()).lower() != statement.digest:
        raise UsageFault("statement.digest", "this draft has another digest")
