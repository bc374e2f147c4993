"""A new issuer: the first keys, the first signed statements, and the settings of its folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from cardsign.card.document import Card
from cardsign.card.interfaces import list_origins
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.config import CONFIG_FILE, render_config
from cardsign.errors import CardsignError, FileFault, PassphraseFault, UsageFault, of_the_user
from cardsign.files import create_private, read_bytes, remove, write_atomic
from cardsign.issuer.keyset import KeysetChanges, draft_keyset, with_signatures
from cardsign.issuer.recovery import make_recovery_key
from cardsign.issuer.release import ReleaseChanges, sign_next_release
from cardsign.issuer.work import Work
from cardsign.jose.algorithms import SigningAlg
from cardsign.jose.keys import PrivateKey
from cardsign.keys.drafts import write_draft
from cardsign.keys.history import keep_keyset
from cardsign.keys.model import Role
from cardsign.keys.opening import StorePlace, create_store, is_taken, open_store
from cardsign.keys.store import KeyStore
from cardsign.statements.envelope import HOLDER
from cardsign.statements.keyset import KeysetStatement, RootKey
from cardsign.urls import parse_origin

#: Origins of a trial on one machine, which has no certificate.
_LOOPBACK: Final = ("http://127.0.0.1:", "http://[::1]:", "http://localhost:")


#: Whose passphrase each key of a new issuer has; without one of its own the recovery key has that
#: of the card key.
RolePassphrases: TypeAlias = Mapping[Role, bytes]


@dataclass(frozen=True, slots=True)
class IssuerPlan:
    """A new issuer, as it is to be set up.

    Attributes:
        folder: Gets the settings.
        keystore: Where the key store will be.
        origin: The https origin of the cards.
        publish: The publication directory, relative to the folder.
        card: The public card's file, relative to the folder; None: the settings name no card.
        alg: Of the card key.
        holder: Who holds the keys.
        root_keystore: Where the root key will be; None: with the others.
        recovery_out: A new file for the recovery key; None: it is returned.
    """

    folder: Path
    keystore: StorePlace
    origin: str
    publish: str = "public"
    card: str | None = None
    alg: SigningAlg = "ES256"
    holder: str = "owner"
    root_keystore: StorePlace | None = None
    recovery_out: Path | None = None

    def check(self) -> None:
        """Check that it can be set up, before anybody is asked for a passphrase.

        Raises:
            FileFault: ``file.exists``: the folder is set up already, or there is a key store.
            UsageFault: ``usage.conflict``: no issuer is named, or a holder cannot be called so;
                ``usage.invalid``: no https origin, nor http on this machine.
        """
        if os.path.lexists(self.folder / CONFIG_FILE):  # a link that leads nowhere too
            message, hint = "this folder is set up already", "Use another folder."
            raise FileFault("file.exists", message, path=CONFIG_FILE, hint=hint)
        if not self.origin:
            hint = "Name its origin: cardsign init --issuer https://HOST"
            raise UsageFault("usage.conflict", "no issuer is named", hint=hint)
        with of_the_user("the issuer"):
            origin = str(parse_origin(self.origin))
        if not origin.startswith(("https://", *_LOOPBACK)):
            raise UsageFault("usage.invalid", f"the issuer is an https origin, not {origin}")
        self._check_card(origin)
        if not HOLDER.fullmatch(self.holder):
            message = f"a holder is [a-z0-9][a-z0-9._@-]*, not {self.holder!r}"
            raise UsageFault("usage.conflict", message)
        for place in {self.keystore, self.root_keystore or self.keystore}:
            if is_taken(place):
                keys = len(open_store(place, moved=True).state.keys)
                raise FileFault(
                    "file.exists",
                    f"{place} holds a key store with {keys} keys",
                    hint="To use it, write cardsign.toml (docs/reference/settings.md). "
                    "For a second issuer use another folder.",
                )

    def _check_card(self, origin: str) -> None:
        """Check that a card that is here already is called at the issuer's origin."""
        if self.card is None or not (self.folder / self.card).is_file():
            return
        data = read_bytes(self.folder / self.card, max_bytes=MAX_CARD_BYTES)
        with of_the_user(self.card):
            origins = list_origins(Card.from_bytes(data).document)
        if origins and origin not in origins:
            message = f"{self.card} has an interface at {origins[0]}, and --issuer is {origin}"
            raise UsageFault("card.origin_mismatch", message, hint="Correct one of them.")

    @property
    def has_root_apart(self) -> bool:
        """Whether the root key has a key store of its own."""
        return self.root_keystore not in (None, self.keystore)

    def list_shared(self, passphrases: RolePassphrases) -> tuple[Role, ...]:
        """Return the roles whose key has the passphrase of the card key and lies beside it.

        A recovery key without a passphrase of its own has it too.
        """
        card = passphrases["card"]
        apart = ("root",) if self.has_root_apart else ()
        same = (role for role, passphrase in passphrases.items() if passphrase == card)
        shared = tuple(role for role in same if role not in ("card", *apart))
        return shared if "recovery" in passphrases else (*shared, "recovery")


def init_issuer(
    plan: IssuerPlan,
    passphrases: RolePassphrases,
    *,
    now: datetime,
    create: Callable[[StorePlace], KeyStore] = create_store,
) -> tuple[KeysetStatement, bytes]:
    """Set up a folder with root, card, release and recovery keys and the first statements.

    Args:
        plan: What is set up.
        passphrases: Of the keys.
        now: The time, with its zone, in whole seconds.
        create: Makes an empty key store at a place.

    Returns:
        The first keyset, and the recovery key as an encrypted PEM: where the plan names no file for
        it, the only copy.

    Raises:
        UsageFault, FileFault: As :meth:`IssuerPlan.check`.
        StoreFault: As a key store's operations.
        PassphraseFault: ``passphrase.unfit``: the recovery key has that of another key.
    """
    plan.check()
    recovery, text = make_recovery_key(_choose_recovery_passphrase(passphrases))
    if plan.recovery_out is not None:
        create_private(plan.recovery_out, text)
    algs: dict[Role, SigningAlg] = {"root": "ES256", "card": plan.alg, "release": "ES256"}
    private = {role: PrivateKey.generate(alg) for role, alg in algs.items()}
    stores = [create(plan.keystore)]
    if plan.root_keystore is not None and plan.has_root_apart:
        stores.append(create(plan.root_keystore))
    try:
        for role, key in private.items():
            store = stores[-1 if role == "root" else 0]
            store.add_key(key, passphrases[role], now=now, roles=(role,), holder=plan.holder)
    except CardsignError:
        if plan.recovery_out is not None and not any(store.state.seq for store in stores):
            remove(plan.recovery_out)  # nothing names that key yet
        raise
    work = Work(stores[0], now, access=passphrases["release"])
    root = RootKey(private["root"].public, plan.holder)
    changes = KeysetChanges(
        origins=(plan.origin,),
        add_roots=(root,) if plan.has_root_apart else (),  # else it is found in the store
        recovery=(RootKey(recovery.public, plan.holder),),
    )
    draft = draft_keyset(work, changes)
    keyset = with_signatures(draft.statement, [private["root"]])
    for store in stores:
        keep_keyset(store, keyset, write_draft(keyset), now=now)
    sign_next_release(work, ReleaseChanges())
    write_settings(plan.folder, keyset.origins[0], plan.keystore, plan.publish, plan.card)
    return keyset, text


def _choose_recovery_passphrase(passphrases: RolePassphrases) -> bytes:
    """Return the recovery key's own passphrase, or that of the card key where it has none."""
    own = passphrases.get("recovery")
    if own in [passphrases[role] for role in ("card", "root", "release")]:
        raise PassphraseFault(
            "passphrase.unfit",
            "the recovery key must have a passphrase of its own",
            hint="Choose another one for the recovery key, so that a thief of one has not both.",
        )
    return own or passphrases["card"]


def write_settings(
    folder: Path, origin: str, keystore: StorePlace, publish: str, card: str | None = None
) -> None:
    """Write the settings of an issuer's folder, which name no database."""
    named = str(keystore) if isinstance(keystore, Path) else None
    config = render_config(issuer=origin, keystore=named, publish=publish, card=card)
    write_atomic(folder / CONFIG_FILE, config, plain=True)
