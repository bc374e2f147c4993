"""What the user's signers may use, and the keys that he names by where they lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from cardsign.card.strictjson import parse_object
from cardsign.cli.options import (
    of_the_user,
    open_keystore,
    own_keystore,
    passphrase_source,
    read_input,
)
from cardsign.errors import SigningRefused, StoreFault, UsageFault
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PublicKey
from cardsign.keys.history import Ledger
from cardsign.keys.model import KeyRecord
from cardsign.keys.passphrase import PassphraseSource
from cardsign.keys.signers.access import MODULE_VARIABLE, UserSecrets, user_policy
from cardsign.keys.signers.registry import (
    Access,
    check_possession,
    custody_of,
    fetch_public,
    open_signer,
)
from cardsign.keys.stores.opening import AnyStore, Place

MAX_PUBLIC_BYTES = 64 * 1024  # bytes; as a JWK Set may have

_Command = TypeVar("_Command", bound=Callable[..., Any])


def public_option(command: _Command) -> _Command:
    """``--public``: the public half of a key that lies elsewhere."""
    return click.option(
        "--public",
        metavar="FILE",
        help="The public half of that key, a JWK ('-' for stdin).",
    )(command)


def user_access(source: PassphraseSource, *uris: str) -> Access:
    """What signers may use: what the user's own file allows, and what he has just typed.

    Args:
        source: Where passphrases come from; its environment and prompt serve the rest.
        uris: Signers that were named on the command line.
    """
    policy = user_policy(os.environ)
    module = policy.pkcs11_module
    if named := os.environ.get(MODULE_VARIABLE):
        if not Path(named).is_absolute():
            raise UsageFault("usage.invalid", f"{MODULE_VARIABLE} is no absolute path")
        module = Path(named)
    policy = replace(policy, uris=policy.uris | set(uris), pkcs11_module=module)
    return Access(UserSecrets(source), policy, os.environ)


def choose_signers(
    uris: tuple[str, ...],
    public: str | None,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
) -> tuple[list[Signer], frozenset[str]]:
    """Open the keys that are to sign, older first, and say which kids are ours to replace.

    Those that `uris` name, else all that sign now: the active ones, and those that sign on
    beside their successor. The public half is the store's, or the
    one in the file `public`; what a signer shows when it signs is never believed.

    Raises:
        UsageFault: ``usage.conflict``: `public` without exactly one URI.
        SigningRefused: ``sign.no_key``: none is active.
        KeyRefused: The file is no JWK that we accept.
        SignerFault: As :func:`open_signer`.
        StoreFault: ``keystore.unknown_key``: no active key lies there; or there is no store, or it
            cannot be read; ``keystore.not_listed``: the roots have not listed the key.
    """
    if public is not None and len(uris) != 1:
        raise UsageFault("usage.conflict", "--public goes with one --key")
    source = passphrase_source(passphrase_file, passphrase_fd)
    access = user_access(source, *uris)
    if public is not None:
        key = read_public(public)
        held = frozenset({key.kid})
        if store := own_keystore(keystore):
            Ledger.beside(store).check_listed([key], "card")
            held |= store.ever_held_kids()
        return [open_signer(uris[0], key, access, base=Path.cwd())], held
    store = open_keystore(keystore)
    active = store.signing_keys(datetime.now(UTC))
    if not active:
        raise _no_active_key(store)
    ledger = Ledger.beside(store)
    if uris:
        chosen = tuple(_lying_at(uri, active) for uri in uris)
        ledger.check_listed([record.public for record in chosen], "card")
    else:
        chosen = ledger.listed(active, "card")
    places = uris or [record.custody for record in chosen]
    signers = [
        store.signer(replace(record, custody=place), access)
        for place, record in zip(places, chosen, strict=True)
    ]
    return signers, store.ever_held_kids()


def _no_active_key(store: AnyStore) -> SigningRefused:
    """Say which key could be let sign, if one waits: after a theft, say."""
    message, hint = "the key store has no active key", ""
    for key in store.state.keys:
        if key.state == "prepublished" and "card" in key.roles:
            message = f"the key store has no active key, and {key.kid} waits"
            hint = f"Let it sign: cardsign keys activate -- {key.kid}; or make another."
    return SigningRefused("sign.no_key", message, path=store.place, hint=hint)


def _lying_at(uri: str, active: tuple[KeyRecord, ...]) -> KeyRecord:
    custody = custody_of(uri)
    for record in active:
        if record.custody == custody:
            return record
    raise StoreFault(
        "keystore.unknown_key",
        "the key store has no active key that lies there",
        path=uri,
        hint="Enrol it: cardsign keys import --custody URI; or give its public half as --public.",
    )


def enrol(uri: str, public: str | None, kid: str | None, source: PassphraseSource) -> PublicKey:
    """Ask a signer for its public half, or read it from a file, and let the signer prove it.

    Raises:
        SignerFault: As :func:`fetch_public` and :func:`check_possession`.
        KeyRefused: The key is not one that we accept.
    """
    access = user_access(source, uri)
    key = fetch_public(uri, access, kid=kid) if public is None else read_public(public, kid=kid)
    check_possession(open_signer(uri, key, access, base=Path.cwd()))
    return key


def read_public(name: str, *, kid: str | None = None) -> PublicKey:
    """Read a JWK that the user hands over.

    Raises:
        UsageFault: It is none, or none that we accept.
    """
    with of_the_user(name):
        untrusted_jwk = parse_object(read_input(name, max_bytes=MAX_PUBLIC_BYTES))
        return PublicKey.from_jwk(untrusted_jwk, kid=kid)
