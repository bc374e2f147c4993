"""Which keys sign a card, and where their private keys are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial

from cardsign.errors import PassphraseFault, SigningRefused, StoreFault, UsageFault
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PublicKey
from cardsign.keys.history import check_listed, find_listed
from cardsign.keys.secrets import Access
from cardsign.keys.signers import find_remote_key, open_signer
from cardsign.keys.store import KeyStore


@dataclass(frozen=True, slots=True)
class _OpenedLate:
    """A signer that is opened when it first signs, so that nobody is asked for nothing."""

    public: PublicKey
    open: Callable[[], Signer]

    def sign(self, signing_input: bytes) -> bytes:
        return self.open().sign(signing_input)


def _refuse_to_open() -> Signer:
    raise PassphraseFault("passphrase.none", "the key was not opened")


def card_signers(
    store: KeyStore, access: Access | bytes | None, *, now: datetime
) -> tuple[Signer, ...]:
    """Return the card keys of a store that sign now: the active ones, and those beside a successor.

    The older ones come first. A key is opened when it first signs.

    Args:
        store: The key store. Its public keys count; what a signer shows is never believed.
        access: What signers may use; a passphrase is enough for keys in files. None: a key that
            would have to sign raises PassphraseFault ``passphrase.none``.
        now: The time, with its zone.

    Raises:
        SigningRefused: ``sign.no_key``: none is active.
        StoreFault: ``keystore.not_listed``: the roots have not listed the key.
    """
    active = store.state.signing_keys(now)
    if not active:
        raise _no_active_key(store)
    return tuple(
        _OpenedLate(
            key.public,
            _refuse_to_open if access is None else cache(partial(store.signer, key, access)),
        )
        for key in find_listed(store, active, "card")
    )


def named_signers(
    uris: Sequence[str],
    access: Access,
    *,
    now: datetime,
    store: KeyStore | None = None,
    public: PublicKey | None = None,
    kid: str | None = None,
) -> tuple[Signer, ...]:
    """Open the keys that some URIs name, in a key store or not.

    Args:
        uris: Where the private keys are.
        access: What signers may use.
        now: The time, with its zone.
        store: The issuer's key store, if there is one. A key that lies at a URI has the public
            key of the store, and the roots must have listed each key.
        public: The public key; needed for a key that is in no store, unless its URI is ``env:``
            or ``file:``.
        kid: The published kid of a key that is in no store.

    Raises:
        StoreFault: ``keystore.unknown_key``: the store has no active key at a URI;
            ``keystore.not_listed``.
        UsageFault: ``usage.conflict``: the key store knows the key by another kid.
        SignerFault, PassphraseFault, FileFault: As
            :func:`cardsign.keys.signers.open_signer`.
    """
    signers = list[Signer]()
    enrolled = store.state.signing_keys(now) if store is not None and public is None else ()
    for uri in uris:
        record = next((key for key in enrolled if key.custody == uri), None)
        if store is not None and record is not None:
            if kid not in (None, record.kid):
                raise UsageFault("usage.conflict", f"the key store calls this key {record.kid!r}")
            signers.append(store.signer(record, access))
        elif store is not None and public is None and find_remote_key(uri, access):
            raise StoreFault(
                "keystore.unknown_key",
                "the key store has no active key that lies there",
                path=uri,
                hint=f"Enrol it: cardsign keys import '{uri}'; or name its public key: "
                "--public FILE.",
            )
        else:
            signers.append(open_signer(uri, public, access, kid=kid))
    if store is not None:
        check_listed(store, [signer.public for signer in signers], "card")
    return tuple(signers)


def _no_active_key(store: KeyStore) -> SigningRefused:
    """Say what waits to take the place, as after a theft."""
    message, hint = "the key store has no active card key", ""
    waiting = [key for key in store.state.keys if key.state in ("generated", "prepublished")]
    for key in waiting:
        if "card" in key.roles and not key.is_stolen:
            message = f"the key store has no active card key; {key.kid} waits"
            hint = "Go on: cardsign keys rotate."
    if not hint and store.state.stolen:
        hint = "Make another, with a passphrase of its own: cardsign keys generate."
    return SigningRefused("sign.no_key", message, path=store.place, hint=hint)
