"""``cardsign keyset``: who may sign for the issuer, said by his roots."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from cardsign.cli.issuing import (
    DRAFT_HELP,
    check_begun,
    described_keyset,
    moment,
    named_key,
    needed_keyset,
    public_of,
    read_statement,
    refuse_two_documents,
    signing_lines,
    tell_differences,
    whole,
)
from cardsign.cli.keyset_publishing import publish
from cardsign.cli.keyset_signing import recover, sign
from cardsign.cli.options import (
    STDIO,
    json_option,
    keystore_option,
    of_the_user,
    open_keystore,
    project_config,
    write_output,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.errors import UsageFault
from cardsign.jose.keyset import KeysetStatement, Quorum, Role, RootKey, StatementKey
from cardsign.keys.differences import differences
from cardsign.keys.ledger import Ledger, write_draft
from cardsign.keys.opening import AnyStore, Place
from cardsign.keys.statements import (
    DEFAULT_LIFETIME,
    KEY_LIFETIME,
    KeysetPlan,
    check_step,
    draft_next,
)
from cardsign.keys.states import ENDED
from cardsign.trust.origins import parse_origin


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
    given = sorted(map(read_statement, files), key=lambda one: (one.epoch, one.version))
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
    number = (statement.epoch, statement.version)
    earlier = [one for one in statements if (one.epoch, one.version) < number]
    return earlier[-1] if earlier else None
