"""Which keys sign a card, and where their private keys are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from cardsign.errors import SigningRefused, StoreFault
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PublicKey
from cardsign.keys.history import StatementHistory
from cardsign.keys.model import KeyRecord
from cardsign.keys.signers.access import Access
from cardsign.keys.signers.registry import custody_of, open_signer
from cardsign.keys.stores.base import KeyStore


@dataclass(frozen=True, slots=True)
class CardSigners:
    """The keys that are to sign a card.

    Attributes:
        signers: Older first.
        own_kids: Kids whose signatures are the issuer's own, and are replaced.
    """

    signers: tuple[Signer, ...]
    own_kids: frozenset[str]

    @property
    def kids(self) -> list[str]:
        """The kids of the signers."""
        return [signer.public.kid for signer in self.signers]


def card_signers(
    store: KeyStore, access: Access | bytes, *, now: datetime, uris: Sequence[str] = ()
) -> CardSigners:
    """Open the card keys of a store that sign now: the active ones, and those beside a successor.

    Args:
        store: The key store. Its public keys count; what a signer shows is never believed.
        access: What signers may use; a passphrase is enough for keys in files.
        now: The time, with its zone.
        uris: Sign only with the keys that are there.

    Raises:
        SigningRefused: ``sign.no_key``: none is active.
        StoreFault: ``keystore.unknown_key``: no active key is at a URI;
            ``keystore.not_listed``: the roots have not listed the key.
        SignerFault, PassphraseFault: As :func:`cardsign.keys.signers.open_signer`.
    """
    active = store.signing_keys(now)
    if not active:
        raise _no_active_key(store)
    history = StatementHistory.of(store)
    if uris:
        chosen = tuple(_at(uri, active) for uri in uris)
        history.check_listed([record.public for record in chosen], "card")
    else:
        chosen = history.listed(active, "card")
    places = uris or [record.custody for record in chosen]
    signers = (
        store.signer(replace(record, custody=place), access)
        for place, record in zip(places, chosen, strict=True)
    )
    return CardSigners(tuple(signers), store.ever_held_kids())


def external_signer(
    uri: str, public: PublicKey, access: Access, *, store: KeyStore | None, base: Path
) -> CardSigners:
    """Open one key that is in no key store, by its URI and its public key.

    Args:
        uri: Where the private key is.
        public: Its public key.
        access: What signers may use.
        store: The issuer's key store, if there is one: its roots must have listed the key.
        base: What a relative path of the URI starts from.

    Raises:
        StoreFault: ``keystore.not_listed``.
        SignerFault, PassphraseFault: As :func:`cardsign.keys.signers.open_signer`.
    """
    own_kids = frozenset({public.kid})
    if store is not None:
        StatementHistory.of(store).check_listed([public], "card")
        own_kids |= store.ever_held_kids()
    return CardSigners((open_signer(uri, public, access, base=base),), own_kids)


def _no_active_key(store: KeyStore) -> SigningRefused:
    """Say which key could be let sign, if one waits: after a theft, say."""
    message, hint = "the key store has no active key", ""
    for key in store.state.keys:
        if key.state == "prepublished" and "card" in key.roles:
            message = f"the key store has no active key, and {key.kid} waits"
            hint = f"Let it sign: cardsign keys activate -- {key.kid}; or make another."
    return SigningRefused("sign.no_key", message, path=store.place, hint=hint)


def _at(uri: str, active: Sequence[KeyRecord]) -> KeyRecord:
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
