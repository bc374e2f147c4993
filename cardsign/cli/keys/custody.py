"""``cardsign keys generate|import|passwd|export|move``: where private keys lie."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import click

from cardsign.cli.frame import Command, moment
from cardsign.cli.keystore import (
    KEYSTORE_VARIABLE,
    ROLE_VARIABLES,
    KeystoreOptions,
    UnlockOptions,
    local_user,
    own_passphrase,
    read_public,
)
from cardsign.cli.options import (
    PATH,
    alg_option,
    keystore_option,
    public_option,
    read_place,
    take,
    unlock_options,
)
from cardsign.cli.printer import Answer, is_json, say, show
from cardsign.cli.streams import STDIO, read_input, refuse_two_documents, write_output, write_secret
from cardsign.cli.views import key_json
from cardsign.errors import PassphraseFault, SignerFault, UsageFault, of_the_user
from cardsign.jose.algorithms import SigningAlg
from cardsign.jose.keys import KID_FORM, PrivateKey, short_kid
from cardsign.keys import lifecycle
from cardsign.keys.imports import (
    MAX_KEY_FILE_BYTES,
    export_private,
    export_public,
    import_private_key,
)
from cardsign.keys.model import ENDED, ROLES, KeyRecord, Role
from cardsign.keys.opening import StorePlace, create_store, move_store, open_store
from cardsign.keys.signers.access import PassphraseSource, read_passphrase, user_policy
from cardsign.keys.signers.registry import SCHEMES, check_possession, list_public_keys, open_signer
from cardsign.keys.store import KeyStore

_DOES: Final = {
    "active": "it signs from now on",
    "prepublished": "it is prepublished, and does not sign yet",
    "generated": "it waits for a keyset statement that lists it: cardsign keyset draft",
}

role_option = click.option(
    "--role",
    type=click.Choice(ROLES),
    default="card",
    show_default=True,
    help="What it signs: cards, or the issuer's statements. Keep root and recovery keys "
    "in a key store of their own.",
)


def _check_kid(_context: click.Context, _option: click.Parameter, kid: str | None) -> str | None:
    if kid is not None and (not KID_FORM.fullmatch(kid) or kid.startswith("-")):
        raise UsageFault(
            "usage.invalid", "--kid takes 1 to 256 printable ASCII characters, the first no '-'"
        )
    return kid


@click.command(cls=Command, example="cardsign keys generate --alg ES256")
@alg_option
@click.option(
    "--kid",
    metavar="TEXT",
    callback=_check_kid,
    help="The kid to publish, such as card-2026 [default: thumbprint].",
)
@role_option
@unlock_options
def generate(alg: SigningAlg, kid: str | None, role: Role, **options: Any) -> None:
    """Make a key. A store's first key of a role and algorithm signs at once.

    A later key is prepublished: it is in the JWK Set and does not sign yet. Publish it. When
    caches have it, activate it: cardsign keys rotate. If there is a keyset statement, a new key
    is used only after a statement lists it: cardsign keyset draft.
    """
    keystore = take(UnlockOptions, options)
    path = keystore.located()
    passphrase = keystore.new_passphrase(role)
    private = PrivateKey.generate(alg, kid=kid)
    _add(path, private, passphrase, role)


@click.command(
    "import",
    cls=Command,
    short_help="Import a key from a PEM, PKCS #12 or JWK file, or by URI.",
    example="cardsign keys import key.pem --kid key-001",
)
@click.argument("source", metavar="FILE|URI")
@click.option(
    "--kid",
    metavar="TEXT",
    callback=_check_kid,
    help="The kid to publish [default: a JWK's own, else the thumbprint].",
)
@click.option(
    "--import-passphrase-file",
    metavar="FILE",
    type=PATH,
    help="The passphrase of FILE itself, if it is encrypted with another one.",
)
@public_option
@role_option
@unlock_options
def import_(
    source: str,
    kid: str | None,
    import_passphrase_file: Path | None,
    public: str | None,
    role: Role,
    **options: Any,
) -> None:
    """Import a key from a PEM, PKCS #12 or JWK FILE ('-' for stdin), or from a signer.

    Keep the kid that peers know already: they find the key by it. For a URI, such as awskms:///ID
    or env:NAME, the key store holds only the public key and the URI. The signer has to prove that
    it has the private key.
    """
    keystore = take(UnlockOptions, options)
    path = keystore.located()
    if source.partition(":")[0] in ("env", *SCHEMES):
        access = keystore.access(source)
        if public is None:
            key = list_public_keys(source, access, kid=kid)[0]
        else:
            key = read_public(public, kid=kid)
        check_possession(open_signer(source, key, access))
        store = create_store(path, local_user())
        store.apply(lifecycle.enter, key, custody=source, now=datetime.now(UTC), roles=(role,))
        _made(store.state.find(key.thumbprint), store, path)
        return
    if public is not None:
        raise UsageFault("usage.conflict", "--public goes with the URI of a signer")
    opened_by = keystore.source(role)
    if import_passphrase_file is not None:
        opened_by = PassphraseSource(import_passphrase_file)
    with of_the_user(source):
        data = read_input(source, max_bytes=MAX_KEY_FILE_BYTES)
        try:
            question = "Passphrase of the imported file: "
            private = import_private_key(
                data, kid=kid, password=lambda: read_passphrase(opened_by, question=question)
            )
        except PassphraseFault as fault:
            hint = "If the file has one of its own, name it: --import-passphrase-file FILE."
            raise PassphraseFault(fault.code, fault.message, path=source, hint=hint) from fault
    _add(path, private, keystore.new_passphrase(role), role)


def _add(path: StorePlace, private: PrivateKey, passphrase: bytes, role: Role) -> None:
    store = create_store(path, local_user())
    record = store.add_key(private, passphrase, now=datetime.now(UTC), roles=(role,))
    _made(record, store, path)


def _made(record: KeyRecord, store: KeyStore, path: StorePlace) -> None:
    show(Answer(key_json(record), [record.kid]))
    if is_json():
        return
    does, state = _DOES[record.state], store.state
    if record.state == "active" and (not record.rotates or state.keyset is not None):
        does = "it signs as soon as a keyset statement lists it: cardsign keyset draft"
    if not record.rotates and state.keyset is None and len(state.keys) == 1:
        does = "send its public key to who drafts the keyset: "
        does += (
            f"cardsign keys export {shlex.quote(record.kid)} --keystore {shlex.quote(str(path))}"
        )
    say(f"the {record.alg} key {short_kid(record.kid)} is in {path}; {does}")


# ``cardsign keys passwd``.


@click.command(
    cls=Command,
    short_help="Change the passphrase of a role's keys.",
    example="cardsign keys passwd --role release",
)
@click.option(
    "--role",
    type=click.Choice(ROLES),
    required=True,
    help="The role whose keys get the new passphrase.",
)
@click.option(
    "--new-passphrase-file",
    metavar="FILE",
    type=PATH,
    help="The new passphrase [default: a prompt].",
)
@unlock_options
def passwd(role: Role, new_passphrase_file: Path | None, **options: Any) -> None:
    """Change the passphrase of every private key of a role that is in this key store.

    If the command is interrupted, run it again. Copies of the key store keep the old passphrase.
    """
    keystore = take(UnlockOptions, options)
    store = keystore.open()
    records = [
        key
        for key in store.state.keys
        if role in key.roles and key.private == "held" and key.state not in ENDED
    ]
    if not records:
        raise UsageFault(
            "usage.conflict",
            f"no {role} key in this key store has a passphrase",
            path=store.place,
            hint="See which keys are here: cardsign keys list --keystore DIR.",
        )
    old = keystore.access().for_roles((role,)).secrets("passphrase", f"{role} keys")
    question = f"New passphrase of the {role} keys: "
    new = own_passphrase("--new-passphrase-file", new_passphrase_file, question)
    changed = store.change_passphrase(records, old, new, now=datetime.now(UTC))
    file = user_policy(os.environ).passphrase_files.get(role)
    where = f"{file} (the user's settings)" if file else f"`{role}` of [passphrase_files]"
    where += f", or {ROLE_VARIABLES[role]}" if role in ROLE_VARIABLES else ""
    report = {"role": role, "changed": [key.kid for key in changed], "also_in": where}
    notes = [
        f"changed the passphrase of {len(changed)} of {len(records)} {role} keys",
        f"  next: change it where programs such as cron read it: {where}",
    ]
    show(Answer(report, notes=notes))


# ``cardsign keys export``.


@click.command(
    cls=Command,
    short_help="Write one key for another program.",
    example="cardsign keys export vzTO --as pem",
)
@click.argument("kid")
@click.option(
    "--as",
    "form",
    type=click.Choice(("jwk", "pem")),
    default="jwk",
    show_default=True,
    help="The form of the public key. A private key is always PEM.",
)
@click.option(
    "--private",
    is_flag=True,
    help="Export the private key to -o FILE, as an encrypted PEM (PKCS #8). Take a random "
    "passphrase, as others can guess at it fast.",
)
@click.option(
    "--export-passphrase-file",
    metavar="FILE",
    type=PATH,
    help="The passphrase for the exported file [default: a prompt].",
)
@click.option("-o", "--output", metavar="FILE", default=STDIO, help="'-' for stdout, the default.")
@unlock_options
def export(
    kid: str,
    form: Literal["jwk", "pem"],
    private: bool,
    export_passphrase_file: Path | None,
    output: str,
    **options: Any,
) -> None:
    """Write one key for another program: its public key, or with --private its private key.

    A private key is encrypted with a passphrase of its own. It goes to a new file that only you
    can read.
    """
    keystore = take(UnlockOptions, options)
    refuse_two_documents(output)
    store = keystore.open()
    record = store.state.find(kid)
    if not private:
        write_output(output, export_public(record.public, form))
        show(Answer({"kid": record.kid, "as": form, "output": output}))
        return
    if output == STDIO:
        why = "a private key goes to a file"
        raise UsageFault("usage.conflict", why, hint="Add -o FILE.")
    if not record.custody.startswith("file:"):
        message, hint = "the private key does not leave its signer", "Leave --private out."
        raise SignerFault("signer.uri", message, path=record.custody, hint=hint)
    signer = store.signer(record, keystore.access())
    assert isinstance(signer, PrivateKey)  # noqa: S101  what lies in a file is one
    question = "Passphrase of the exported file: "
    new = own_passphrase("--export-passphrase-file", export_passphrase_file, question)
    write_secret(Path(output), export_private(signer, new))
    note = f"wrote the private key of {record.kid} to {output}, encrypted"
    show(Answer({"kid": record.kid, "as": "pem", "output": output}, notes=[note]))


# ``cardsign keys move``: the whole key store.


@click.command(
    cls=Command,
    short_help="Move the key store to another folder or database.",
    example="cardsign keys move postgresql://db.example/keys",
)
@click.argument("to", metavar="TO")
@keystore_option
def move(to: str, **options: Any) -> None:
    """Move the key store to TO, a folder or the URL of a database; the old one signs no more.

    The old key store stays, and says where the new one is. An interrupted move is continued by the
    same command.
    Afterwards change `keystore` in cardsign.toml, or set CARDSIGN_KEYSTORE.
    """
    keystore = take(KeystoreOptions, options)
    place = keystore.located()
    store = open_store(place, local_user(), moved=True)
    target = read_place(to)
    moved = move_store(store, target, now=moment())
    show(Answer({"from": str(place), "to": moved.place}))
    if is_json():
        return
    say(f"the key store is in {target} now, and {place} signs no more")
    if isinstance(target, Path):
        say(f"  next: change `keystore` in cardsign.toml, or set {KEYSTORE_VARIABLE}")
    else:
        say(f"  next: export {KEYSTORE_VARIABLE}={shlex.quote(str(target))}")
        say("  and set it for cron too; a password is found in ~/.pgpass")
    say(f"  then destroy the old private keys: cardsign keys doctor --keystore {place} says how")
