"""Signers by URI, behind the one protocol of ``jose.jws``.

A key of ``env:`` or ``file:`` is read by this process. Every other signer is bound to a public key
that is known beforehand, with which each of its answers is verified.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from cardsign.errors import SignerFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.jws import Signer, sign_payload
from cardsign.jose.keys import PublicKey
from cardsign.keys.signers import base as remote
from cardsign.keys.signers.access import Access, PassphraseSource, user_secrets
from cardsign.keys.signers.base import BoundSigner, RemoteKey, scheme_of, shown
from cardsign.keys.signers.local import (
    ProgramKey,
    is_local,
    list_local_keys,
    read_private_key,
)
from cardsign.keys.signers.pkcs11 import TokenKey
from cardsign.keys.signers.services import AwsKey, AzureKey, GoogleKey, VaultKey

SCHEMES: Final[Mapping[str, type[RemoteKey]]] = {
    "awskms": AwsKey,
    "azurekms": AzureKey,
    "exec": ProgramKey,
    "gcpkms": GoogleKey,
    "hashivault": VaultKey,
    "pkcs11": TokenKey,
}

#: Signed when a key is enrolled, to see that it can: no JWS has such a protected header.
CHALLENGE: Final = b"cardsign: does this signer hold this key?"

#: What a user may have meant by env:NAME; a key has small letters too.
_LIKELY_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,39}")


def open_signer(
    uri: str,
    public: PublicKey | None = None,
    access: Access | None = None,
    *,
    kid: str | None = None,
    base: Path = Path(),
) -> Signer:
    """Return the signer that `uri` names.

    ::

        sign_card(card, [open_signer("env:CARD_KEY", kid="card-2026")])

    A key of ``env:`` or ``file:`` is read now. Every other signer is asked only when it signs.

    Args:
        uri: Where the private key is.
        public: The key that the signer must turn out to hold; may be left out for ``env:`` and
            ``file:``.
        access: Where secrets come from; by default the environment, with the passphrase of
            ``CARDSIGN_PASSPHRASE``.
        kid: If `public` is left out [default: a JWK's own, else the thumbprint].
        base: The directory to which the path of a ``file:`` is relative.

    Raises:
        SignerFault: ``signer.uri``, ``config.not_allowed``, ``usage.not_installed``,
            ``signer.wrong_key``, ``signer.no_key``, or ``signer.no_public``: `public` is left out.
        UsageFault: ``key.*`` or ``json.*``: what is there is no private key that can sign a card.
        PassphraseFault: ``passphrase.none``, ``passphrase.wrong``, or what the secrets raise.
        FileFault: Such as ``file.permissions``: others can read a key that is not encrypted.
        StoreFault: ``keystore.corrupt``, ``keystore.newer_format``: a damaged file of a key store.
    """
    if access is None:  # nobody is asked, and nothing more is allowed
        usual = user_secrets(PassphraseSource(environment=os.environ))
        access = Access(usual, environment=os.environ)
    if is_local(uri):
        private = read_private_key(uri, access, kid=public.kid if public else kid, base=base)
        if public is not None and private.public != public:
            message = f"there is another private key, not that of {public.kid!r}"
            raise SignerFault("signer.wrong_key", message, path=uri)
        return private
    key = _allowed_key(uri, access)
    if public is None:
        raise SignerFault(
            "signer.no_public",
            "what a signer shows as its public key is not believed when it signs",
            path=uri,
            hint=f"Write it down once: cardsign keys jwks --key '{uri}' -o jwks.json; then give "
            "--public jwks.json.",
        )
    if public.alg not in STATEMENT_ALGORITHMS:
        message = (
            f"a signer of this kind signs with ES256 or RS256, and this is a key for {public.alg}"
        )
        hint = "Use env: or file:, or a key of one of these two."
        raise SignerFault("signer.uri", message, path=uri, hint=hint)
    return BoundSigner(public, key, access)


def fetch_public(uri: str, access: Access, *, kid: str | None = None) -> PublicKey:
    """Ask the signer that `uri` names for its public key, to enrol it; signing never does.

    Raises:
        SignerFault: As :func:`open_signer`; ``signer.no_public``; what the signer raises.
        KeyRefused: The key is weak, or for neither algorithm.
    """
    if is_local(uri):
        return read_private_key(uri, access, kid=kid).public
    return remote.fetch_public(_allowed_key(uri, access), access, kid=kid)


def choose_public(uri: str, keys: Sequence[PublicKey], access: Access) -> PublicKey:
    """Return the one of several known keys that the signer at `uri` shows as its own.

    While a key is rotated, two are published. What a signer shows chooses between them and adds
    none.

    Raises:
        SignerFault: ``signer.wrong_key``: it shows another key; as :func:`fetch_public`.
        KeyRefused: As :func:`fetch_public`.
    """
    shown = fetch_public(uri, access)
    for key in keys:
        if key.thumbprint == shown.thumbprint:
            return key
    message = f"it shows the key {shown.thumbprint}, which is none of the {len(keys)} known ones"
    raise SignerFault("signer.wrong_key", message, path=uri)


def list_public_keys(
    uri: str, access: Access, *, kid: str | None = None, base: Path = Path()
) -> tuple[PublicKey, ...]:
    """Return the public keys of what `uri` names, to publish them.

    A signer elsewhere is asked for its key, and must sign with it. ``env:`` and ``file:`` may hold
    public keys as well.

    Raises:
        CardsignError: As :func:`open_signer` and :func:`fetch_public`.
    """
    if is_local(uri):
        return list_local_keys(uri, access, kid=kid, base=base)
    key = fetch_public(uri, access, kid=kid)
    check_possession(open_signer(uri, key, access))
    return (key,)


def check_possession(signer: Signer) -> None:
    """Let a signer sign :data:`CHALLENGE`, so that no key is enrolled that cannot sign.

    Raises:
        SignerFault: ``signer.wrong_key``, or what the signer itself raises.
    """
    sign_payload(CHALLENGE, signer, typ="cardsign-challenge")


def custody_of(uri: str) -> str:
    """Return what a store keeps of `uri`: without what belongs to this machine and user.

    Raises:
        SignerFault: ``signer.uri``.
    """
    return uri if is_local(uri) else _parse(uri).custody


def _allowed_key(uri: str, access: Access) -> RemoteKey:
    key = _parse(uri)
    if key.needs_leave and uri not in access.policy.allow:
        raise SignerFault(
            "config.not_allowed",
            "the user has not allowed what this signer would run, load or read",
            path=uri,
            hint="Give the URI as --key, or allow it in your own signers.toml.",
        )
    return key


def _parse(uri: str) -> RemoteKey:
    scheme = scheme_of(uri)
    if scheme in SCHEMES:
        return SCHEMES[scheme](uri)
    # Nothing but the scheme is repeated: the rest may be the key itself.
    what = f"`{scheme}:` is no scheme of a signer" if scheme else shown(uri)
    hint = "--key takes env:NAME, file:PATH or the URI of a key service."
    if not scheme:
        hint += " The keys of a key store sign without --key."
    if _LIKELY_VARIABLE.fullmatch(uri):
        hint += f" Did you mean --key env:{uri}?"
    raise SignerFault("signer.uri", what, hint=hint)
