"""``cardsign init``: everything that an issuer needs to sign his first card."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cardsign.cli.issuing import (
    VARIABLE,
    make_recovery,
    moment,
    recovery_passphrase_option,
    recovery_source,
)
from cardsign.cli.options import (
    STDIO,
    actor,
    alg_option,
    json_option,
    leave,
    of_the_user,
    passphrase_options,
    passphrase_source,
    read_place,
)
from cardsign.cli.talk import print_json, say
from cardsign.config import CONFIG_FILE, render_config
from cardsign.errors import FileFault, PassphraseFault, UsageFault
from cardsign.files import create_private, write_atomic
from cardsign.jose.keys import Alg, PrivateKey, PublicKey
from cardsign.keys.history import Ledger, note_keyset, note_release, write_draft
from cardsign.keys.keysets import DEFAULT_LIFETIME, KeysetPlan, draft_next
from cardsign.keys.model import Role
from cardsign.keys.passphrase import PassphraseSource, new_passphrase, terminal_prompt
from cardsign.keys.releases import ReleasePlan, draft_following
from cardsign.keys.stores.address import DatabaseUrl
from cardsign.keys.stores.directory import DEFAULT_DIRECTORY
from cardsign.keys.stores.directory import VARIABLE as KEYSTORE_VARIABLE
from cardsign.keys.stores.opening import AnyStore, Place, create_store, is_taken
from cardsign.statements.envelope import TYP_KEYSET, TYP_RELEASE
from cardsign.statements.keyset import KeysetStatement, Quorum, RootKey, read_keyset
from cardsign.statements.members import HOLDER
from cardsign.statements.release import read_release
from cardsign.statements.signing import sign_statement
from cardsign.urls import parse_origin

_FILE = click.Path(path_type=Path)
#: Where a trial on one machine speaks for itself without a certificate.
_LOOPBACK = ("http://127.0.0.1:", "http://[::1]:", "http://localhost:")


@dataclass(frozen=True, slots=True)
class _Secrets:
    """The passphrases; `recovery` is None for no recovery key."""

    card: bytes
    root: bytes
    release: bytes
    recovery: bytes | None


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made: the first statement, and the kid of each role's key."""

    keyset: KeysetStatement
    kids: dict[str, str]


@click.command()
@click.option(
    "--issuer",
    metavar="ORIGIN",
    help="The https origin that the cards will speak for; needed unless --simple.",
)
@click.option(
    "--keystore",
    type=read_place,
    metavar="DIR",
    help="Where the keys will lie, or the URL of a database for them "
    f"[default: {KEYSTORE_VARIABLE}, then keys].",
)
@click.option(
    "--publish",
    "publish_dir",
    default="public",
    show_default=True,
    metavar="DIR",
    help="Where publications will lie.",
)
@click.option("--simple", is_flag=True, help="Only a card key: no statements, no revocation.")
@click.option("--holder", default="owner", show_default=True, help="Who holds the keys.")
@click.option(
    "--root-keystore",
    type=read_place,
    metavar="DIR",
    help="Where the root key will lie, such as on a stick [default: as the rest].",
)
@click.option(
    "--root-passphrase-file",
    type=_FILE,
    metavar="FILE",
    help="Another passphrase for the root key.",
)
@click.option(
    "--release-passphrase-file",
    type=_FILE,
    metavar="FILE",
    help="Another passphrase for the release key, which cron has to open.",
)
@click.option(
    "--recovery-out",
    metavar="FILE",
    default=STDIO,
    help="Where the recovery key goes, encrypted [default: printed once, on stdout].",
)
@recovery_passphrase_option
@click.option(
    "--no-recovery", is_flag=True, help="Make no recovery key: the theft of the root is final."
)
@alg_option
@passphrase_options
@json_option
def init(
    issuer: str | None,
    keystore: Place | None,
    publish_dir: str,
    simple: bool,
    alg: Alg,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
    **full: Any,
) -> None:
    """Set up this folder: cardsign.toml, a key store, and the first signed statements.

    Made are a root key, which says by a keyset statement what keys count; a card key; a release
    key, with which cron says which cards are current; and a recovery key, of which no copy is
    kept. --simple makes a card key and nothing else.
    """
    with of_the_user("--issuer"):
        origin = str(parse_origin(issuer)) if issuer is not None else None
    if origin is not None and not origin.startswith(("https://", *_LOOPBACK)):
        raise UsageFault("usage.invalid", f"--issuer is an https origin, not {origin}")
    if Path(CONFIG_FILE).exists():
        raise FileFault("file.exists", "this folder is set up already", path=CONFIG_FILE)
    source = passphrase_source(passphrase_file, passphrase_fd)
    place = keystore or read_place(os.environ.get(KEYSTORE_VARIABLE) or DEFAULT_DIRECTORY)
    if simple:
        described = _simple(place, new_passphrase(source), alg)
    else:
        described = _full(origin, place, source, alg, **full)
    named = str(place) if isinstance(place, Path) else place.to_file()
    config = render_config(issuer=origin, keystore=named, publish=publish_dir)
    write_atomic(Path(CONFIG_FILE), config)
    if isinstance(place, DatabaseUrl):
        _tell_database(place)
    if as_json:
        print_json({"config": CONFIG_FILE, "keystore": str(place), "alg": alg, **described})
        return
    if recovery := described.get("recovery"):
        click.echo(recovery, nl=False)
    say(f"wrote {CONFIG_FILE} and the key store {place} with the {alg} card key")
    say(f"  {described['kid']}")
    say("  next: cardsign sign card.json -o signed.json")
    if not simple:
        say("  then: cardsign release renew --card signed.json; cardsign publish signed.json")
        say("  and from cron, daily: cardsign release renew")


def _tell_database(place: DatabaseUrl) -> None:
    """Say what a committed file leaves to the user's own."""
    left_out = [*(["the password"] if place.password is not None else []), *place.uncommitted]
    if left_out:
        say(f"not in {CONFIG_FILE}, which is committed: {', '.join(left_out)}")
        say(f"  keep a password in ~/.pgpass, or the whole URL in {KEYSTORE_VARIABLE}")
    say(f"the database is used without {KEYSTORE_VARIABLE} once you allow its server:")
    say(f"  {leave(place)}")


def _simple(keystore: Place, passphrase: bytes, alg: Alg) -> dict[str, Any]:
    store = create_store(keystore, actor=actor())
    private = PrivateKey.generate(alg)
    return {"kid": _add(store, private, passphrase, "card", None)}


def _full(
    origin: str | None,
    keystore: Place,
    source: PassphraseSource,
    alg: Alg,
    *,
    holder: str,
    root_keystore: Place | None,
    root_passphrase_file: Path | None,
    release_passphrase_file: Path | None,
    recovery_out: str,
    recovery_passphrase_file: Path | None,
    no_recovery: bool,
) -> dict[str, Any]:
    """Everything is asked for and checked before anything is written."""
    if origin is None:
        raise UsageFault("usage.conflict", "name the origin, --issuer https://HOST, or --simple")
    if not HOLDER.fullmatch(holder):
        raise UsageFault("usage.conflict", f"--holder is [a-z0-9][a-z0-9._@-]*, not {holder!r}")
    for place in {keystore, root_keystore or keystore}:
        if is_taken(place):
            raise FileFault("file.exists", "a key store is here already", path=str(place))
    passphrase = new_passphrase(source)
    secrets = _Secrets(
        passphrase,
        _another(root_passphrase_file) or passphrase,
        _another(release_passphrase_file) or passphrase,
        None if no_recovery else _recovery_passphrase(recovery_passphrase_file),
    )
    if secrets.recovery in (secrets.card, secrets.root, secrets.release):
        raise PassphraseFault(
            "passphrase.reused", "the recovery key must have a passphrase of its own"
        )
    recovery, printed = make_recovery(secrets.recovery) if secrets.recovery else (None, b"")
    if recovery is not None and recovery_out != STDIO:
        create_private(Path(recovery_out), printed)
    public = recovery.public if recovery else None
    made = _make(origin, keystore, root_keystore or keystore, secrets, alg, holder, public)
    described = {
        "kid": made.kids["card"],
        "keys": made.kids,
        "keyset": {"epoch": 1, "version": 1, "digest": made.keyset.digest},
    }
    if recovery is not None and recovery_out == STDIO:
        described["recovery"] = printed.decode()
    _tell_custody(secrets, keystore, root_keystore, recovery_out)
    say("tell your verifiers the digest of keyset 1.1, over a channel that they trust:")
    say(f"  {made.keyset.digest}")
    return described


def _make(
    origin: str,
    keystore: Place,
    root_keystore: Place,
    secrets: _Secrets,
    alg: Alg,
    holder: str,
    recovery: PublicKey | None,
) -> _Made:
    """Keys into their stores, then the first statements into the ledgers beside them."""
    now = moment()
    root, card, release = (PrivateKey.generate(kind) for kind in ("ES256", alg, "ES256"))
    store = create_store(keystore, actor=actor())
    roots = store if root_keystore == keystore else create_store(root_keystore, actor=actor())
    kids = {
        "root": _add(roots, root, secrets.root, "root", holder),
        "card": _add(store, card, secrets.card, "card", holder),
        "release": _add(store, release, secrets.release, "release", holder),
    }
    plan = KeysetPlan(
        origin.partition("://")[2],
        (origin,),
        Quorum(1, (RootKey(root.public, holder),)),
        Quorum(1, (RootKey(recovery, holder),)) if recovery else None,
    )
    plan = plan.following(store.load(), now=now, until=now + DEFAULT_LIFETIME)
    payload = draft_next(plan, None, now=now).envelope.payload
    keyset = read_keyset(sign_statement(payload, [root], TYP_KEYSET))
    for one in {id(each): each for each in (store, roots)}.values():
        Ledger.beside(one).keep_keyset(keyset, write_draft(keyset))
        note_keyset(one, keyset, now=now)
    head = store.load().audit.digest
    draft = draft_following(ReleasePlan(audit_head=head), keyset, None, seq=1, now=now)
    data = sign_statement(draft.envelope.payload, [release], TYP_RELEASE)
    signed = read_release(data)
    note_release(store, signed, now=now)
    Ledger.beside(store).keep_release(signed, data)
    return _Made(keyset, kids)


def _add(
    store: AnyStore, private: PrivateKey, passphrase: bytes, role: Role, holder: str | None
) -> str:
    record = store.add_key(
        private, passphrase, now=moment(), random=os.urandom, roles=(role,), holder=holder
    )
    return record.kid


def _another(file: Path | None) -> bytes | None:
    if file is None:
        return None
    return new_passphrase(PassphraseSource(file, None, {}, terminal_prompt()))


def _recovery_passphrase(file: Path | None) -> bytes:
    try:
        return new_passphrase(
            recovery_source(file), question="New passphrase of the recovery key: "
        )
    except PassphraseFault as fault:
        raise PassphraseFault(
            fault.code,
            f"of the recovery key: {fault.message}",
            hint=f"Use --recovery-passphrase-file FILE or {VARIABLE}; or --no-recovery.",
        ) from fault


def _tell_custody(
    secrets: _Secrets, keystore: Place, root_keystore: Place | None, recovery_out: str
) -> None:
    """Say what falls together with what, as it is."""
    together = [
        name
        for name, is_with in (
            ("root", secrets.root == secrets.card and root_keystore in (None, keystore)),
            ("release", secrets.release == secrets.card),
        )
        if is_with
    ]
    if together:
        say(
            f"the {' and '.join(together)} key lies with the card key, under the same passphrase "
            f"in {keystore}: who steals one has all of them"
        )
    if secrets.recovery is None:
        say("there is no recovery key: the theft of the root key is final")
        return
    where = "above" if recovery_out == STDIO else f"in {recovery_out}"
    say(f"the recovery key is {where}, encrypted; no copy is kept here")
    say("  print it or put it where none of the other keys is: it alone outlasts their theft")
