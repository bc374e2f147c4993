"""Signers by URI, behind the one protocol of ``jose.jws``.

A signer is bound to the stored public key. Each of its answers is verified with it before it
is given out: a wrong key, version, padding or form is found here and not by a peer.

Another package adds a kind of its own by an entry point of the group :data:`ENTRY_POINTS`: its
name is the URI's scheme, its value a subclass of :class:`RemoteKey`. What such a URI does here
is not known, so it always needs the user's leave.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

from cardsign.errors import SignerFault
from cardsign.jose.algorithms import STATEMENT_ALGORITHMS
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PublicKey, check_answer
from cardsign.keys.signers.access import Access, SignerPolicy
from cardsign.keys.signers.awskms import AwsKey
from cardsign.keys.signers.azurekms import AzureKey
from cardsign.keys.signers.gcpkms import GoogleKey
from cardsign.keys.signers.local import FILE, is_local, open_local, read_local_key
from cardsign.keys.signers.pkcs11 import TokenKey
from cardsign.keys.signers.program import ProgramKey
from cardsign.keys.signers.remote import BoundSigner, RemoteKey
from cardsign.keys.signers.uri import scheme_of, shown
from cardsign.keys.signers.vault import VaultKey

ENTRY_POINTS: Final = "cardsign.signers"

#: Signed when a key is enrolled, to see that it can: no JWS has such a protected header.
CHALLENGE: Final = b"cardsign: does this signer hold this key?"

#: What a user may have meant by env:NAME; a key has small letters too.
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,39}")

_OURS: Final[Mapping[str, type[RemoteKey]]] = {
    "awskms": AwsKey,
    "azurekms": AzureKey,
    "exec": ProgramKey,
    "gcpkms": GoogleKey,
    "hashivault": VaultKey,
    "pkcs11": TokenKey,
}


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
            ``file:``, which this process reads itself.
        access: What signers may use of this machine and its user [default: the environment's
            variables, the passphrase from ``CARDSIGN_PASSPHRASE``].
        kid: The published kid, if `public` is left out [default: a JWK's own, else the
            thumbprint].
        base: The directory to which the path of a ``file:`` is relative.

    Raises:
        SignerFault: ``signer.uri``, ``config.not_allowed``, ``signer.uri``,
            ``usage.not_installed``, ``signer.wrong_key``, ``signer.no_key``; or
            ``signer.no_public``: `public` is left out.
        UsageFault: What is there is no private key that can sign a card.
        PassphraseFault: ``passphrase.wrong``, or whatever the secrets raise.
        FileFault: The key file is missing or unreadable, or others can read it.
        StoreFault: It is a damaged file of a key store.
    """
    access = access or Access.by_environment(os.environ)
    if is_local(uri):
        if public is None:
            return read_local_key(uri, access, kid=kid, base=base)
        return open_local(uri, public, access, base=base)
    key = _allowed(uri, access.policy)
    if public is None:
        raise SignerFault(
            "signer.no_public",
            "what a signer shows as its public key is not believed when it signs",
            path=_named(uri, key),
            hint="Give the public key: --public FILE; or enrol it once in a key store: "
            f"cardsign keys import --custody '{_named(uri, key)}'.",
        )
    if public.alg not in STATEMENT_ALGORITHMS:
        raise SignerFault(
            "signer.uri",
            f"a signer of this kind signs with ES256 or RS256, and this is a key for {public.alg}",
            path=_named(uri, key),
            hint="Use env:, file:, pkcs11:, awskms:, gcpkms:, azurekms:, vault: or exec:.",
        )
    return BoundSigner(public, key.open(public, access))


def fetch_public(uri: str, access: Access, *, kid: str | None = None) -> PublicKey:
    """Ask the signer that `uri` names for its public key, to enrol it; signing never does.

    Args:
        uri: Where the private key is.
        access: As for :func:`open_signer`.
        kid: The name under which the key is to be published, if not its thumbprint.

    Raises:
        SignerFault: As :func:`open_signer`; ``signer.no_public``; what the signer raises.
        KeyRefused: The key is weak, or for neither algorithm.
    """
    if uri.startswith(f"{FILE}:"):
        raise SignerFault(
            "signer.no_public",
            "a file is imported into the key store",
            path=shown(uri),
            hint="cardsign keys import FILE",
        )
    if is_local(uri):
        return read_local_key(uri, access, kid=kid).public
    return _allowed(uri, access.policy).fetch_public(access, kid=kid)


def check_possession(signer: Signer) -> None:
    """Let a signer sign :data:`CHALLENGE`, so that no key is enrolled that cannot sign.

    Raises:
        SignerFault: ``signer.wrong_key``, or what the signer itself raises.
    """
    check_answer(signer.public, CHALLENGE, signer.sign(CHALLENGE))


def custody_of(uri: str) -> str:
    """Return what a store keeps of `uri`: without what belongs to this machine and user.

    Raises:
        SignerFault: ``signer.uri`` or ``signer.uri``.
    """
    return uri if is_local(uri) else _loaded(_find(uri))(uri).custody


def _allowed(uri: str, policy: SignerPolicy) -> RemoteKey:
    found = _find(uri)
    key = None if isinstance(found, EntryPoint) else found(uri)
    if (key is None or key.needs_leave) and uri not in policy.uris:
        raise SignerFault(
            "config.not_allowed",
            "the user has not allowed what this signer would run, load or read",
            path=_named(uri, key),
            hint="Give the URI as --key, or allow it in your own signers.toml.",
        )
    return key or _loaded(found)(uri)


def _named(uri: str, key: RemoteKey | None) -> str:
    """What an error calls a signer: the forms of our own kinds are too strict to hold a key."""
    return uri if type(key) in _OURS.values() else shown(uri)


def _find(uri: str) -> type[RemoteKey] | EntryPoint:
    """The kind of signer that `uri` names; another package's is not yet loaded."""
    name = scheme_of(uri)
    if name in _OURS:
        return _OURS[name]
    for point in entry_points(group=ENTRY_POINTS, name=name) if name else ():
        return point
    # Nothing but the scheme is repeated: the rest may be the key itself.
    what = f"`{name}:` is no scheme of a signer" if name else shown(uri)
    hint = "--key takes env:NAME, file:PATH or the URI of a key service."
    if _VARIABLE.fullmatch(uri):
        hint += f" Did you mean --key env:{uri}?"
    raise SignerFault("signer.uri", what, hint=hint)


def _loaded(found: type[RemoteKey] | EntryPoint) -> type[RemoteKey]:
    if not isinstance(found, EntryPoint):
        return found
    kind: type[RemoteKey] = found.load()
    return kind
