"""A new issuer: the first keys, the first signed statements, and the settings of its folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from cardsign.config import CONFIG_FILE, render_config
from cardsign.errors import FileFault, PassphraseFault, UsageFault, of_the_user
from cardsign.files import create_private, write_atomic
from cardsign.issuer.recovery import make_recovery_key
from cardsign.jose.algorithms import SigningAlg
from cardsign.jose.keys import PrivateKey
from cardsign.keys.drafts import (
    KEYSET_LIFETIME,
    KeysetPlan,
    ReleasePlan,
    draft_following,
    draft_next,
    write_draft,
)
from cardsign.keys.heads import SeenHead
from cardsign.keys.history import keep_keyset, keep_release
from cardsign.keys.model import Role
from cardsign.keys.opening import StorePlace, create_store, is_taken
from cardsign.keys.store import KeyStore
from cardsign.statements.envelope import TYP_KEYSET, TYP_RELEASE
from cardsign.statements.keyset import KeysetStatement, Quorum, RootKey, read_keyset
from cardsign.statements.members import HOLDER
from cardsign.statements.release import read_release
from cardsign.statements.signing import sign_statement
from cardsign.urls import parse_origin

#: Origins of a trial on one machine, which has no certificate.
_LOOPBACK: Final = ("http://127.0.0.1:", "http://[::1]:", "http://localhost:")

_MADE: Final[tuple[Role, ...]] = ("root", "card", "release")


@dataclass(frozen=True, slots=True)
class IssuerPassphrases:
    """The passphrases of a new issuer's keys; those of root, card and release may be the same.

    Attributes:
        card: Of the card key.
        root: Of the root key.
        release: Of the release key, which cron has to open.
        recovery: Of the recovery key; None: that of the card key, as no other was given.
    """

    card: bytes = field(repr=False)
    root: bytes = field(repr=False)
    release: bytes = field(repr=False)
    recovery: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NewIssuer:
    """What was made.

    Attributes:
        kids: The kid of each role's key.
        keyset: The first statement.
        recovery_text: The recovery key, encrypted, if it went into no file: its only copy.
        shared: The roles whose key has the passphrase of the card key; root and release keys are
            stored with it as well.
    """

    kids: dict[str, str]
    keyset: KeysetStatement
    recovery_text: bytes | None = field(default=None, repr=False)
    shared: tuple[str, ...] = ()


def check_new_folder(folder: Path, origin: str | None) -> str | None:
    """Check that a folder can be set up for an issuer, and return its origin in normal form.

    Raises:
        UsageFault: ``usage.invalid``: no https origin, nor http on this machine.
        FileFault: ``file.exists``: the folder is set up already.
    """
    with of_the_user("the issuer"):
        parsed = str(parse_origin(origin)) if origin is not None else None
    if parsed is not None and not parsed.startswith(("https://", *_LOOPBACK)):
        raise UsageFault("usage.invalid", f"the issuer is an https origin, not {parsed}")
    if os.path.lexists(folder / CONFIG_FILE):  # a link that leads nowhere too
        raise FileFault("file.exists", "this folder is set up already", path=CONFIG_FILE)
    return parsed


def init_issuer(
    folder: Path,
    keystore: StorePlace,
    passphrases: Callable[[], IssuerPassphrases],
    *,
    origin: str,
    now: datetime,
    publish: str = "public",
    card: str | None = None,
    alg: SigningAlg = "ES256",
    holder: str = "owner",
    root_keystore: StorePlace | None = None,
    recovery_out: Path | None = None,
    actor: str = "",
    heads: SeenHead | None = None,
) -> NewIssuer:
    """Set up a folder with root, card, release and recovery keys and the first statements.

    Args:
        folder: Gets the settings.
        keystore: Where the key store will be.
        passphrases: Gives the passphrases; asked once all else is checked.
        origin: The https origin of the cards.
        now: The time, with its zone, in whole seconds.
        publish: The publication directory, relative to the folder.
        card: The public card's file, relative to the folder; None: the settings name no card.
        alg: Of the card key.
        holder: Who holds the keys.
        root_keystore: Where the root key will be [default: in `keystore`].
        recovery_out: A new file for the recovery key [default: it is returned].
        actor: Who the log says it was.
        heads: What the user saw of the logs of key stores before.

    Raises:
        UsageFault, FileFault: As :func:`check_new_folder`.
        StoreFault: As a key store's operations.
        PassphraseFault: ``passphrase.unfit``: the recovery key has that of another key.
    """
    checked = str(check_new_folder(folder, origin))
    if not HOLDER.fullmatch(holder):
        raise UsageFault("usage.conflict", f"a holder is [a-z0-9][a-z0-9._@-]*, not {holder!r}")
    for place in {keystore, root_keystore or keystore}:
        if is_taken(place):
            raise FileFault("file.exists", "a key store is here already", path=str(place))
    secrets = passphrases()
    if secrets.recovery in (secrets.card, secrets.root, secrets.release):
        raise PassphraseFault(
            "passphrase.unfit",
            "the recovery key must have a passphrase of its own",
            hint="Choose another one for the recovery key, so that a thief of one has not both.",
        )
    recovery, text = make_recovery_key(secrets.recovery or secrets.card)
    if recovery_out is not None:
        create_private(recovery_out, text)
    private = {role: PrivateKey.generate(alg if role == "card" else "ES256") for role in _MADE}
    store = create_store(keystore, actor=actor, heads=heads)
    apart = None if root_keystore == keystore else root_keystore
    roots = create_store(apart, actor=actor, heads=heads) if apart else store
    for role, key in private.items():
        where, secret = roots if role == "root" else store, getattr(secrets, role)
        where.add_key(key, secret, now=now, roles=(role,), holder=holder)
    plan = KeysetPlan(
        checked.partition("://")[2],
        (checked,),
        Quorum(1, (RootKey(private["root"].public, holder),)),
        Quorum(1, (RootKey(recovery.public, holder),)),
    )
    keyset = _sign_first(plan, (store, roots) if apart else (store,), private, now)
    named = str(keystore) if isinstance(keystore, Path) else keystore.to_file()
    config = render_config(issuer=checked, keystore=named, publish=publish, card=card)
    write_atomic(folder / CONFIG_FILE, config, plain=True)
    shared = ["root"] if secrets.root == secrets.card and not apart else []
    shared += ["release"] if secrets.release == secrets.card else []
    shared += ["recovery"] if secrets.recovery is None else []
    kids: dict[str, str] = {role: key.public.kid for role, key in private.items()}
    return NewIssuer(kids, keyset, None if recovery_out else text, tuple(shared))


def _sign_first(
    plan: KeysetPlan,
    stores: tuple[KeyStore, ...],
    private: dict[Role, PrivateKey],
    now: datetime,
) -> KeysetStatement:
    """Sign keyset 1.1 and release 1, and keep them; the first store is that of the online keys."""
    store = stores[0]
    plan = plan.following(store.load(), now=now, until=now + KEYSET_LIFETIME)
    payload = draft_next(plan, None, now=now).envelope.payload
    keyset = read_keyset(sign_statement(payload, [private["root"]], TYP_KEYSET))
    for one in stores:
        keep_keyset(one, keyset, write_draft(keyset), now=now)
    head = store.load().head
    draft = draft_following(ReleasePlan(audit_head=head), keyset, None, seq=1, now=now)
    data = sign_statement(draft.envelope.payload, [private["release"]], TYP_RELEASE)
    signed = read_release(data)
    keep_release(store, signed, data, now=now)
    return keyset
