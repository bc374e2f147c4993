"""The first epoch of an issuer, with its keys and settings; and the next, by a recovery key.

A recovery key is in no key store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from cardsign import errors
from cardsign.card.document import Card, list_origins
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.errors import UsageFault, of_the_user
from cardsign.files import CONFIG_FILE, create_private, read_bytes, remove, write_atomic
from cardsign.issuer import keyset as keysets
from cardsign.issuer.publishing import published_statements
from cardsign.issuer.release import ReleasePlan, sign_next_release
from cardsign.issuer.work import RECOVER, Work
from cardsign.jose.algorithms import SigningAlg
from cardsign.jose.keys import PrivateKey
from cardsign.keys.history import keep_keyset
from cardsign.keys.ledger import ROTATING, KeyRecord, Role
from cardsign.keys.sealed import MAX_ENVELOPE_BYTES, open_envelope, seal
from cardsign.keys.store import KeyStore, StorePlace, create_store, is_taken, open_store
from cardsign.statements.keyset import KeysetStatement, OnlineRole, Quorum, RootKey
from cardsign.urls import parse_origin

#: Origins of a trial on one machine, which has no certificate.
_LOOPBACK: Final = ("http://127.0.0.1:", "http://[::1]:", "http://localhost:")


#: Who holds the first keys, until a keyset names somebody else.
_OWNER: Final = "owner"
_PUBLICATION: Final = "public"

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
        card: The public card's file, relative to the folder; None: the settings name no card.
        alg: Of the card key.
        root_keystore: Where the root key will be; None: with the others.
        recovery_out: A new file for the recovery key; None: it is returned.
    """

    folder: Path
    keystore: StorePlace
    origin: str
    card: str | None = None
    alg: SigningAlg = "ES256"
    root_keystore: StorePlace | None = None
    recovery_out: Path | None = None

    def check(self) -> None:
        """Check that it can be set up, before anybody is asked for a passphrase.

        Raises:
            FileFault: ``file.exists``: the folder is set up already, or there is a key store.
            UsageFault: ``usage.conflict``: no issuer is named;
                ``usage.invalid``: no https origin, nor http on this machine;
                ``card.origin_mismatch``: the card that is here has no interface there.
        """
        extends = is_taken(self.keystore) and _has_cards_alone(self.keystore)
        if self.has_settings and not extends:
            message, hint = "this folder is set up already", "Use another folder."
            raise errors.FileFault("file.exists", message, path=CONFIG_FILE, hint=hint)
        if not self.origin:
            hint = "Name its origin: cardsign init --issuer https://HOST"
            raise UsageFault("usage.conflict", "no issuer is named", hint=hint)
        with of_the_user("the issuer"):
            origin = str(parse_origin(self.origin))
        if not origin.startswith(("https://", *_LOOPBACK)):
            raise UsageFault("usage.invalid", f"the issuer is an https origin, not {origin}")
        if self.card is not None and (file := self.folder / self.card).is_file():
            with of_the_user(self.card):
                card = Card.from_bytes(read_bytes(file, max_bytes=MAX_CARD_BYTES))
                origins = list_origins(card.document)
            if origins and origin not in origins:
                message = f"{self.card} has an interface at {origins[0]}, and --issuer is {origin}"
                raise UsageFault("card.origin_mismatch", message, hint="Correct one of them.")
        for place in {self.keystore, self.root_keystore or self.keystore}:
            if is_taken(place) and not (extends and place == self.keystore):
                message = f"{place} holds a key store with keys of an issuer"
                raise errors.FileFault("file.exists", message, hint="Use another folder.")

    @property
    def has_settings(self) -> bool:
        """Whether the folder has settings, be it by a link that leads nowhere."""
        return os.path.lexists(self.folder / CONFIG_FILE)

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


def _has_cards_alone(place: StorePlace) -> bool:
    """Return whether a key store has signed cards, and is nobody's issuer yet."""
    state = open_store(place).state
    return not state.keysets and all(key.roles == ("card",) for key in state.keys)


def init_issuer(
    plan: IssuerPlan,
    passphrases: RolePassphrases,
    *,
    now: datetime,
    create: Callable[[StorePlace], KeyStore] = create_store,
) -> tuple[KeysetStatement, bytes]:
    """Set up a folder with root, card, release and recovery keys and the first statements.

    A key store that is there keeps its card keys, and the first keyset statement lists them.

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
    own = passphrases.get("recovery")
    if own in [passphrases[role] for role in ("card", "root", "release")]:
        hint = "Choose another one for the recovery key, so that a thief of one has not both."
        message = "the recovery key must have a passphrase of its own"
        raise errors.PassphraseFault("passphrase.unfit", message, hint=hint)
    recovery, text = make_recovery_key(own or passphrases["card"])
    algs: dict[Role, SigningAlg] = {"root": "ES256", "card": plan.alg, "release": "ES256"}
    store = roots = create(plan.keystore)
    if store.state.active_keys("card"):
        del algs["card"]
    private = {role: PrivateKey.generate(alg) for role, alg in algs.items()}
    if plan.root_keystore is not None and plan.has_root_apart:
        roots = create(plan.root_keystore)
    with _written(plan.recovery_out, text):
        for role, key in private.items():
            holding = roots if role == "root" else store
            holding.add_key(key, passphrases[role], now=now, roles=(role,), holder=_OWNER)
    work = Work(store, now, access=passphrases["release"])
    root = RootKey(private["root"].public, _OWNER)
    draft = keysets.draft_keyset(
        work,
        origins=(plan.origin,),
        add_roots=(root,) if roots is not store else (),  # else it is found in the store
        recovery=(RootKey(recovery.public, _OWNER),),
    )
    keyset = keysets.with_signatures(draft, [private["root"]])
    for holding in dict.fromkeys((store, roots)):
        keep_keyset(holding, keyset, keysets.write_draft(keyset), now=now)
    sign_next_release(work, ReleasePlan())
    if not plan.has_settings:
        write_settings(plan.folder, keyset.origins[0], plan.keystore, _PUBLICATION, plan.card)
    return keyset, text


def write_settings(
    folder: Path, origin: str, keystore: StorePlace, publish: str, card: str | None = None
) -> None:
    """Write the settings of an issuer's folder, which name no database."""
    lines = ["# Settings for every cardsign command run in this folder; options override them."]
    lines += ["format = 1", f"issuer = {json.dumps(origin)}"]
    if isinstance(keystore, Path):
        lines.append(f"keystore = {json.dumps(str(keystore))}")
    lines.append(f"publish = {json.dumps(publish)}")
    if card is not None:
        lines += ["", "[[card]]", f"source = {json.dumps(card)}", 'signed = "signed.json"']
    write_atomic(folder / CONFIG_FILE, "\n".join(lines).encode() + b"\n", plain=True)


# The next epoch.


def make_recovery_key(passphrase: bytes) -> tuple[PrivateKey, bytes]:
    """Make a recovery key, and the encrypted text of it that its holder gets."""
    private = PrivateKey.generate("ES256")
    return private, seal(private.to_pkcs8_der(), passphrase, private.public)


def open_recovery_key(file: Path, passphrase: bytes) -> PrivateKey:
    """Open a recovery key that was printed or written by ``init``.

    Raises:
        StoreFault: ``keystore.corrupt``.
        PassphraseFault: ``passphrase.wrong``.
        FileFault: It cannot be read.
    """
    data = read_bytes(file, max_bytes=MAX_ENVELOPE_BYTES)
    try:
        pkcs8, label = open_envelope(data, passphrase)
    except (errors.StoreFault, errors.PassphraseFault) as fault:
        fault.finding = fault.finding.at(str(file))
        raise
    return PrivateKey.from_pkcs8_der(pkcs8, kid=label["kid"])


def recover(
    work: Work,
    recovery: Callable[[], tuple[PrivateKey, bytes]],
    *,
    passphrase: Callable[[str], bytes],
    digest: str | None = None,
    new_recovery_out: Path | None = None,
) -> tuple[KeysetStatement, KeyRecord]:
    """Open the next epoch with a recovery key, after root keys were stolen or lost.

    A new root key is made for the holder of the first old one, and every old one ends. The old
    roots and keys that are lost are revoked.

    Args:
        work: The key store, and what is published: a new store takes up its statements, but no
            lost key.
        recovery: Opens a recovery key of the newest statement; gives it with its passphrase, which
            encrypts a new one too.
        passphrase: Gives the passphrase of a role's new key; asked before anything is written.
        digest: Of one of the issuer's own keysets, in lower-case hex, where none is kept: whoever
            can write what is published could list this recovery key beside one of theirs.
        new_recovery_out: Make a new recovery key too, into this new file.

    Returns:
        The draft, signed by the recovery key and the new root; and that root, which is kept now.

    Raises:
        SigningRefused: ``sign.no_key``: the newest statement does not list `recovery`.
        UsageFault: No verifier would take the statement; ``statement.not_yet``;
            ``statement.digest``: `digest` is missing, or of no published keyset.
        StoreFault: ``keystore.no_keyset``: neither kept nor published.
        FileFault: ``file.exists``: something is at `new_recovery_out`.
    """
    store, now = work.store, work.now
    previous, published = _find_newest(work, digest)
    holder = previous.root.keys[0].holder
    old, secret = recovery()
    quorum = _find_recovery_keys(previous, old)
    present = {role for key in store.state.keys for role in key.roles}
    missing = [role for role in ROTATING if role not in present]
    # Everything is asked before anything is written, so that a slip leaves nothing half made.
    secrets, envelope = {role: passphrase(role) for role in (*missing, "root")}, b""
    for statement, data in published.items():
        keep_keyset(store, statement, data, now=now)
    lost = _replace_keys(work, previous, missing, secrets)
    root = PrivateKey.generate("ES256")
    if new_recovery_out is not None:
        renewed, envelope = make_recovery_key(secret)
        quorum = Quorum(1, (RootKey(renewed.public, quorum.keys[0].holder),))
    roots = Quorum(1, (RootKey(root.public, holder),))
    content = replace(previous, root=roots, recovery=quorum, revoked=frozenset())
    over = lost.union(key.public.thumbprint for key in previous.root.keys)
    until = now + keysets.KEYSET_LIFETIME
    content = keysets.following(keysets.revoking(content, over), store.state, now=now, until=until)
    with of_the_user("the draft"):
        draft = keysets.draft_next(content, previous, now=now, recovery=True)
    signed = keysets.with_signatures(draft, [old, root])
    with _written(new_recovery_out, envelope):
        record = store.add_key(root, secrets["root"], now=now, roles=("root",), holder=holder)
    return signed, record


def _find_recovery_keys(keyset: KeysetStatement, key: PrivateKey) -> Quorum:
    """Return the recovery keys of a statement; `key` has to be among them."""
    quorum = keyset.recovery
    listed = {listed.public.thumbprint for listed in quorum.keys} if quorum else set()
    if quorum is None or key.public.thumbprint not in listed:
        message = "this is no recovery key of the newest statement"
        hint = "Name the file of one that it lists: cardsign keyset show --json."
        raise errors.SigningRefused("sign.no_key", message, hint=hint)
    return quorum


@contextmanager
def _written(file: Path | None, envelope: bytes) -> Iterator[None]:
    """Write a recovery key into a new file, which goes again if nothing comes to name that key."""
    if file is not None:
        create_private(file, envelope)
    try:
        yield
    except errors.CardsignError:  # such as for a passphrase that was stolen
        if file is not None:
            remove(file)
        raise


def _replace_keys(
    work: Work,
    previous: KeysetStatement,
    roles: Sequence[OnlineRole],
    passphrases: Mapping[str, bytes],
) -> frozenset[str]:
    """Make a key of each role that the store lacks; return the thumbprints of the lost keys."""
    if not roles:
        return frozenset()
    for role in roles:
        holder = next((key.holder for key in previous.keys if role in key.roles), None)
        private = PrivateKey.generate("ES256")
        work.store.add_key(private, passphrases[role], now=work.now, roles=(role,), holder=holder)
    ours = {key.thumbprint for key in work.store.state.keys}
    return frozenset(key.public.thumbprint for key in previous.keys) - ours


def _find_newest(
    work: Work, digest: str | None
) -> tuple[KeysetStatement, Mapping[KeysetStatement, bytes]]:
    """Return the newest keyset, and those to keep: what is published, where none is kept."""
    published = None if work.keyset else published_statements(work.config.publish)
    keysets_to_keep = published.keysets if published else {}
    own = "".join((digest or "").split()).lower()
    if keysets_to_keep and own not in {keyset.digest for keyset in keysets_to_keep}:
        why = "no keyset that is published has this digest" if digest else "no keyset is kept here"
        raise UsageFault(
            "statement.digest",
            f"{why}, so what is published may be somebody else's",
            hint="Give the digest that `cardsign init` printed, or that a verifier's trust.toml "
            f"pins: {RECOVER} --digest SHA-256",
        )
    newest = published.newest if published else work.keyset
    if newest is None:
        message = "there is neither a key store nor a publication of this issuer here"
        hint = "Go to the issuer's folder, or name what is published: --publication DIR."
        place = str(work.config.publish or work.store.place)
        raise errors.StoreFault("keystore.no_keyset", message, path=place, hint=hint)
    keysets.check_begun(newest, work.now)
    return newest, keysets_to_keep
