"""``cardsign keyset``: who may sign for the issuer, said by his roots."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from cardsign.cli.issuing import (
    DRAFT_HELP,
    check_begun,
    check_publishable,
    described_keyset,
    draft_under,
    make_recovery,
    moment,
    named_key,
    needed_keyset,
    newest_of,
    next_release,
    public_of,
    publication_option,
    publish_newest,
    published_by,
    read_statement,
    recovery_file_options,
    recovery_signer,
    recovery_source,
    refuse_two_documents,
    release_signers,
    signers_among,
    signing_lines,
    tell_differences,
    usual_plan,
    whole,
)
from cardsign.cli.options import (
    STDIO,
    json_option,
    keystore_option,
    of_the_user,
    open_keystore,
    passphrase_options,
    passphrase_source,
    project_config,
    write_output,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.errors import PassphraseFault, SigningRefused, UsageFault
from cardsign.files import create_private
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey
from cardsign.keys.history import Ledger, note_keyset, write_draft
from cardsign.keys.keysets import (
    DEFAULT_LIFETIME,
    KEY_LIFETIME,
    KeysetPlan,
    check_draft,
    check_step,
    differences,
    draft_next,
    draft_recovery,
    signings,
)
from cardsign.keys.model import ENDED
from cardsign.keys.passphrase import (
    new_passphrase,
    read_passphrase,
    terminal_prompt,
)
from cardsign.keys.releases import SKEW, ReleasePlan
from cardsign.keys.stores.opening import AnyStore, Place
from cardsign.statements.envelope import TYP_KEYSET, check_times
from cardsign.statements.keyset import (
    KeysetStatement,
    Quorum,
    Role,
    RootKey,
    StatementKey,
    read_keyset,
)
from cardsign.statements.release import ReleaseStatement
from cardsign.statements.signing import add_signature, sign_statement
from cardsign.urls import parse_origin

# ``cardsign keyset publish``: a statement and the release that speaks of it, at once.


@click.command(short_help="Keep a statement that enough have signed, and publish it.")
@click.argument("file", metavar="STATEMENT")
@click.option(
    "--without-release",
    is_flag=True,
    help="Publish it even if no release speaks of it yet: until one does, nobody trusts a card.",
)
@publication_option
@keystore_option
@passphrase_options
@json_option
def publish(
    file: str,
    without_release: bool,
    publication: Path | None,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Keep STATEMENT as the newest, if enough have signed it, and publish it.

    A release that speaks of it is signed and published with it, for which the passphrase of the
    release key is needed; without it the statement is withheld until cardsign release renew.
    Where nothing is published from this machine, or KEYSTORE has neither a release nor a release
    key, it is only kept, as each holder of a root key should: he compares the next draft with it.
    """
    store, now = open_keystore(keystore), moment()
    source = passphrase_source(passphrase_file, passphrase_fd)
    ledger = Ledger.beside(store)
    statement = read_statement(file)
    data = write_draft(statement)
    only_kept = _is_root_holders(store, publication)
    if statement.digest not in {one.digest for one in ledger.keysets()}:
        check_step(statement, ledger.newest_keyset())
        with of_the_user(file):
            check_times(statement, now=now, skew=SKEW)
        if not only_kept:
            check_publishable(store, publication, keyset=data, now=now)

    def plan(_: KeysetStatement, previous: ReleaseStatement | None) -> ReleasePlan:
        return usual_plan(store, previous, now)

    signers: list[Signer] = []
    if newest_of(publication) is not None and not only_kept:
        try:  # before anything is kept, so that a wrong passphrase changes nothing
            signers = release_signers(store, draft_under(store, statement, plan, now=now), source)
        except PassphraseFault as fault:
            if fault.code != "passphrase.none":
                raise
    is_new = ledger.keep_keyset(statement, data)
    note_keyset(store, statement, now=now)
    number = f"{statement.epoch}.{statement.version}"
    say(f"keyset {number} is the newest now" if is_new else f"keyset {number} was kept already")
    if signers:
        release, _ = next_release(store, plan, lambda _: signers, publication, now=now)
        say(f"release {release.seq} speaks of it")
    generation = None
    if only_kept:
        say("this key store has no release and no release key, so it is kept and not published")
        say(f"  next: cardsign keyset publish {file}, with the key store that has them")
    else:
        generation = publish_newest(store, publication, now=now, without_release=without_release)
    if as_json:
        is_published = generation is not None and number in generation.keysets
        print_json({"created": is_new, "published": is_published, **described_keyset(statement)})


def _is_root_holders(store: AnyStore, publication: Path | None) -> bool:
    """Whether what is published has a release, to which this store can say nothing."""
    if Ledger.beside(store).newest_release() is not None:
        return False
    if any("release" in key.roles for key in store.state.keys):
        return False
    published = published_by(publication)
    return published is not None and published.release is not None


# ``cardsign keyset sign`` and ``recover``: what takes a root's or a recovery key's signature.


@click.command()
@click.argument("draft", metavar="DRAFT")
@click.option(
    "-o", "--output", metavar="FILE", help="Where the signed draft goes [default: DRAFT]."
)
@click.option(
    "--digest",
    metavar="SHA-256",
    help="What whoever drafted it has told you, over another channel; asked for on a terminal.",
)
@click.option("--key", "kids", multiple=True, metavar="KID", help="Only this key of the store.")
@recovery_file_options
@keystore_option
@passphrase_options
@json_option
def sign(
    draft: str,
    output: str | None,
    digest: str | None,
    kids: tuple[str, ...],
    recovery_file: Path | None,
    recovery_passphrase_file: Path | None,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Add the signature of this key store's holder to DRAFT.

    Shown is what it changes of the newest statement that is kept here, not what its author says
    of it. Then the digest is asked for; it belongs to the holder to hear it from a person.
    """
    refuse_two_documents(output or draft, as_json)
    store = open_keystore(keystore)
    previous = Ledger.beside(store).newest_keyset()
    statement = read_statement(draft)
    check_draft(statement, previous)
    with of_the_user(draft):
        check_times(statement, now=moment(), skew=SKEW)
    tell_differences(differences(previous, statement))
    _check_digest(statement, digest)
    source = passphrase_source(passphrase_file, passphrase_fd)
    wanted = {
        key.public.thumbprint for one in signings(statement, previous) for key in one.quorum.keys
    }
    if kids:
        wanted &= {store.find(kid).thumbprint for kid in kids}
    signers: list[Signer] = []
    if recovery_file is not None:
        secret = read_passphrase(
            recovery_source(recovery_passphrase_file), question="Passphrase of the recovery key: "
        )
        signers.append(recovery_signer(recovery_file, secret))
    if recovery_file is None or kids:
        signers += [one for _, one in signers_among(store, ("root", "recovery"), wanted, source)]
    if not signers or any(one.public.thumbprint not in wanted for one in signers):
        raise SigningRefused(
            "sign.no_key",
            "no key that is here has to sign this statement",
            path=str(recovery_file or store.place),
            hint="See who has to: cardsign keyset show DRAFT.",
        )
    signed = _signed(statement, signers)
    write_output(output or draft, write_draft(signed))
    lines = signing_lines(signed, previous)
    if as_json:
        print_json({"digest": signed.digest, "signed_by": lines})
    for line in lines:
        say(f"signed by {line}")
    if not any(one.missing for one in signings(signed, previous)):
        say(f"  next: cardsign keyset publish {output or draft}")


@click.command(short_help="Open the next epoch with the recovery key.")
@click.option("-o", "--output", metavar="DRAFT", help=DRAFT_HELP)
@click.option(
    "--root-holder",
    metavar="HOLDER",
    help="Who holds the new root key [default: who held the first of the old ones].",
)
@click.option(
    "--new-recovery-out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Make a new recovery key too, encrypted, for the old one has been used.",
)
@click.option(
    "--drop", multiple=True, metavar="KID", help="An online key that is listed no longer."
)
@recovery_file_options
@keystore_option
@passphrase_options
@json_option
def recover(
    output: str | None,
    root_holder: str | None,
    new_recovery_out: Path | None,
    drop: tuple[str, ...],
    recovery_file: Path | None,
    recovery_passphrase_file: Path | None,
    keystore: Place | None,
    passphrase_file: Path | None,
    passphrase_fd: int | None,
    as_json: bool,
) -> None:
    """Open the next epoch with the recovery key: for when root keys were stolen or lost.

    A new root key is made in this key store, and every old one ends. Revoke stolen card and
    release keys first (cardsign keys revoke), or --drop them. What is written has the signatures
    of the new root and of --recovery-file; where recovery needs more holders, it goes to them
    (cardsign keyset sign).
    """
    if recovery_file is None:
        raise UsageFault("usage.conflict", "name the recovery key: --recovery-file FILE")
    refuse_two_documents(output, as_json)
    store, now = open_keystore(keystore), moment()
    previous = needed_keyset(Ledger.beside(store))
    check_begun(previous, now)
    secret = read_passphrase(
        recovery_source(recovery_passphrase_file), question="Passphrase of the recovery key: "
    )
    recovery = recovery_signer(recovery_file, secret)
    source = passphrase_source(passphrase_file, passphrase_fd)
    root = PrivateKey.generate("ES256")
    renewed, replacement = make_recovery(secret) if new_recovery_out else (None, b"")
    holder = root_holder or previous.root.keys[0].holder
    plan = _recovering(store, previous, RootKey(root.public, holder), renewed, drop)
    with of_the_user("the draft"):
        statement = draft_recovery(
            plan.following(store.state, now=now, until=now + DEFAULT_LIFETIME), previous, now=now
        )
    signed = _signed(statement, [recovery, root])
    if not any(one.signed for one in signings(signed, previous) if one.whose != "its own root"):
        raise SigningRefused(
            "sign.no_key",
            "this is no recovery key of the newest statement",
            path=str(recovery_file),
            hint="Name the file of one that it lists: cardsign keyset show --json.",
        )
    passphrase = new_passphrase(source)
    if new_recovery_out is not None:
        create_private(new_recovery_out, replacement)
    store.add_key(root, passphrase, now=now, random=os.urandom, roles=("root",), holder=holder)
    file = output or f"keyset-{statement.epoch}.{statement.version}.json"
    write_output(file, write_draft(signed))
    tell_differences(differences(previous, signed))
    if as_json:
        print_json({"draft": file, "digest": signed.digest, "root": root.public.thumbprint})
    for line in signing_lines(signed, previous):
        say(f"signed by {line}")
    say(f"  next: cardsign keyset publish {file}")


def _recovering(
    store: AnyStore,
    previous: KeysetStatement,
    root: RootKey,
    renewed: PrivateKey | None,
    drop: tuple[str, ...],
) -> KeysetPlan:
    """The plan of a new epoch: one new root, and a list of revoked keys that starts anew."""
    held = previous.recovery
    if renewed is not None and held is not None:
        held = Quorum(1, (RootKey(renewed.public, held.keys[0].holder),))
    old = frozenset(key.public.thumbprint for key in previous.root.keys)
    dropped = {
        key.public.thumbprint
        for key in previous.keys
        if {key.public.kid, key.public.thumbprint}.intersection(drop)
    }
    plan = replace(
        KeysetPlan.of(previous), root=Quorum(1, (root,)), recovery=held, revoked=frozenset()
    )
    return plan.revoking(old | dropped)


def _signed(statement: KeysetStatement, signers: list[Signer]) -> KeysetStatement:
    if statement.envelope.signatures:
        data = write_draft(statement)
        for signer in signers:
            data = add_signature(data, signer, TYP_KEYSET)
    else:
        data = sign_statement(statement.envelope.payload, signers, TYP_KEYSET)
    return read_keyset(data)


def _check_digest(statement: KeysetStatement, told: str | None) -> None:
    if told is None:
        prompt = terminal_prompt()
        if prompt is None:
            raise UsageFault("usage.conflict", "name the digest that you were told: --digest")
        told = prompt("The digest that you were told (not shown): ")
    if "".join(told.split()).lower() != statement.digest:
        raise UsageFault("statement.digest", "this draft has another digest")


@click.group()
def keyset() -> None:
    """Draft, sign and publish the statement of which keys may sign for the issuer.

    A draft is the statement itself with too few signatures. It goes from holder to holder of
    the root keys; whoever has the last one publishes it.
    """


keyset.add_command(sign)
keyset.add_command(recover)
keyset.add_command(publish)


@keyset.command(short_help="Draft the next statement.")
@click.option("-o", "--output", metavar="DRAFT", help=DRAFT_HELP)
@click.option("--issuer", help="The issuer's name [default: the host of the first origin].")
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="Where interfaces may lie, instead of what is said now. May be repeated.",
)
@click.option("--days", type=click.IntRange(1, 400), help="How long it is believed [default: 90].")
@click.option(
    "--add-root",
    multiple=True,
    metavar="HOLDER=KEY",
    help="A root key more: a kid of the key store, or a file with a JWK.",
)
@click.option("--remove-root", multiple=True, metavar="HOLDER", help="A holder whose root keys go.")
@click.option("--threshold", type=click.IntRange(min=1), help="How many root holders must sign.")
@click.option(
    "--recovery",
    multiple=True,
    metavar="HOLDER=KEY",
    help="The recovery keys, instead of those before, which must sign this.",
)
@click.option(
    "--recovery-threshold", type=click.IntRange(min=1), help="How many of them [default: 1]."
)
@click.option(
    "--add-card",
    multiple=True,
    metavar="HOLDER=KEY",
    help="A card key that is not in this key store.",
)
@click.option(
    "--add-release",
    multiple=True,
    metavar="HOLDER=KEY",
    help="A release key that is not in this key store.",
)
@click.option(
    "--drop",
    multiple=True,
    metavar="KID",
    help="A key of others that is listed no longer; those of the key store go by their lives.",
)
@click.option(
    "--revoke",
    multiple=True,
    metavar="KID",
    help="A key of others that is revoked; those of the key store are so by cardsign keys revoke.",
)
@keystore_option
@json_option
def draft(output: str | None, keystore: Place | None, as_json: bool, **options: Any) -> None:
    """Draft the next statement: the key store's keys as they are now, and what options change.

    Nothing but the draft is written. Without any change it renews the one before.
    """
    refuse_two_documents(output, as_json)
    store, now = open_keystore(keystore), moment()
    lifetime = timedelta(days=options.pop("days") or DEFAULT_LIFETIME.days)
    previous = Ledger.beside(store).newest_keyset()
    check_begun(previous, now)
    plan = KeysetPlan.of(previous) if previous else _first_plan(store)
    plan = plan.following(store.state, now=now, until=now + lifetime)
    plan = _changed(plan, store, now, **options)
    with of_the_user("the draft"):
        statement = draft_next(plan, previous, now=now, lifetime=lifetime)
    file = output or f"keyset-{statement.epoch}.{statement.version}.json"
    write_output(file, write_draft(statement))
    changes = differences(previous, statement)
    tell_differences(changes)
    if as_json:
        print_json(
            {"draft": file, **described_keyset(statement), "changes": list(map(str, changes))}
        )
    elif file == STDIO:
        say(f"its digest, to be told to each who signs it: {statement.digest}")
    else:
        say(f"wrote the draft {file}; its digest, to be told to each who signs it:")
        click.echo(statement.digest)


@keyset.command(short_help="Show the newest statement, or a draft.")
@click.argument("file", metavar="[STATEMENT]", required=False)
@keystore_option
@json_option
def show(file: str | None, keystore: Place | None, as_json: bool) -> None:
    """Show the newest statement, or a draft: what it says and who has signed it."""
    ledger = Ledger.beside(open_keystore(keystore))
    statements = ledger.keysets()
    statement = read_statement(file) if file is not None else needed_keyset(ledger)
    previous = _before(statement, statements)
    if as_json:
        print_json(described_keyset(statement))
        return
    number = f"keyset {statement.epoch}.{statement.version} of {safe(statement.issuer)}"
    end = f"{datetime.fromtimestamp(statement.exp, UTC):%Y-%m-%d %H:%M} UTC"
    click.echo(f"{number}, believed until {end}")
    click.echo(f"digest {statement.digest}")
    for change in differences(None, statement)[1:]:
        click.echo(f"  {whole(change.text)}")
    for line in signing_lines(statement, previous):
        click.echo(f"signed by {line}")


@keyset.command(short_help="Check statements, each by the one before it.")
@click.argument("files", metavar="STATEMENT...", nargs=-1, required=True)
@keystore_option
@json_option
def verify(files: tuple[str, ...], keystore: Place | None, as_json: bool) -> None:
    """Check statements by the ones kept here, each by the one before; nothing is kept.

    Exit status 1: one does not follow, is a fork, or too few have signed it.
    """
    statements = list(Ledger.beside(open_keystore(keystore)).keysets())
    given = sorted(map(read_statement, files), key=attrgetter("number"))
    for statement in given:
        before = _before(statement, statements)
        known = [one for one in statements if one.digest == statement.digest]
        check_step(statement, before if known else (statements[-1] if statements else None))
        statements += [] if known else [statement]
    if as_json:
        print_json([described_keyset(statement) for statement in given])
    else:
        for one in given:
            click.echo(f"keyset {one.epoch}.{one.version} of {safe(one.issuer)}: {one.digest}")


def _first_plan(store: AnyStore) -> KeysetPlan:
    """The first statement's plan: every root key of the store, one of them being enough."""
    roots = store.state.active_keys("root")
    recovery = store.state.active_keys("recovery")
    return KeysetPlan(
        "",
        (project_config().issuer or "",),
        Quorum(1, tuple(RootKey(key.public, key.holder or "owner") for key in roots)),
        Quorum(1, tuple(RootKey(key.public, key.holder or "owner") for key in recovery))
        if recovery
        else None,
    )


def _changed(
    plan: KeysetPlan,
    store: AnyStore,
    now: datetime,
    *,
    issuer: str | None,
    origins: tuple[str, ...],
    add_root: tuple[str, ...],
    remove_root: tuple[str, ...],
    threshold: int | None,
    recovery: tuple[str, ...],
    recovery_threshold: int | None,
    add_card: tuple[str, ...],
    add_release: tuple[str, ...],
    drop: tuple[str, ...],
    revoke: tuple[str, ...],
) -> KeysetPlan:
    """The plan with what the options say."""
    roots = [key for key in plan.root.keys if key.holder not in remove_root]
    roots += [named_key(store, text, "--add-root") for text in add_root]
    root = Quorum(threshold or plan.root.threshold, tuple(roots))
    with of_the_user("--origin"):
        places = tuple(str(parse_origin(one)) for one in origins or plan.origins)
    dropped = {_dropped(plan, store, name) for name in drop}
    keys = [key for key in plan.keys if key.public.thumbprint not in dropped]
    keys += [_online(store, text, "card", now) for text in add_card]
    keys += [_online(store, text, "release", now) for text in add_release]
    replaced = plan.recovery
    if recovery:
        safe_keys = tuple(named_key(store, text, "--recovery") for text in recovery)
        replaced = Quorum(recovery_threshold or 1, safe_keys)
    name = issuer or plan.issuer or places[0].partition("://")[2]
    changed = replace(
        plan, issuer=name, origins=places, root=root, recovery=replaced, keys=tuple(keys)
    )
    return changed.revoking(_listed(plan, store, name) for name in revoke)


def _online(store: AnyStore, text: str, role: Role, now: datetime) -> StatementKey:
    key = named_key(store, text, f"--add-{role}")
    end = int((now + KEY_LIFETIME).timestamp())
    return StatementKey(key.public, (role,), key.holder, int(now.timestamp()), end)


def _dropped(plan: KeysetPlan, store: AnyStore, name: str) -> str:
    """The thumbprint of a listed key that is not of this key store.

    Its own are dropped by their lives alone, which wait for what was seen to be published.
    """
    if any(name in key.names and key.state not in ENDED for key in store.state.keys):
        raise UsageFault(
            "usage.conflict",
            f"--drop: {name!r} is a key of this key store, and goes once retired or revoked",
            hint="Use cardsign keys retire, or cardsign keys revoke.",
        )
    for key in plan.keys:
        if name in (key.public.kid, key.public.thumbprint):
            return key.public.thumbprint
    raise UsageFault("usage.conflict", f"--drop: the keyset lists no key {name!r}")


def _listed(plan: KeysetPlan, store: AnyStore, name: str) -> str:
    """The thumbprint of a listed key, or of one in a file."""
    publics = [key.public for key in plan.keys] + [key.public for key in plan.root.keys]
    found = [one.thumbprint for one in publics if name in (one.kid, one.thumbprint)]
    return found[0] if found else public_of(store, name).thumbprint


def _before(
    statement: KeysetStatement, statements: tuple[KeysetStatement, ...] | list[KeysetStatement]
) -> KeysetStatement | None:
    """The statement that comes before one, among those kept."""
    earlier = [one for one in statements if one.id < statement.id]
    return earlier[-1] if earlier else None
