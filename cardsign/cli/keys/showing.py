"""``cardsign keys list``, ``keys show`` and ``keys jwks``: what is public."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import click

from cardsign.cli.options import (
    STDIO,
    json_option,
    keystore_option,
    open_any_keystore,
    project_config,
    write_output,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.keys.ledger import Ledger
from cardsign.keys.opening import Place
from cardsign.keys.records import KeyRecord, KeyTimes
from cardsign.keys.rotation import refresh_hint
from cardsign.keys.store import DirectoryStore


@click.command("list")
@keystore_option
@json_option
def list_(keystore: Place | None, as_json: bool) -> None:
    """List the keys, oldest first."""
    records = open_any_keystore(keystore).state.keys
    if as_json:
        print_json([described(record) for record in records])
        return
    for record in records:
        roles = "" if record.roles == ("card",) else f"  {', '.join(record.roles)}"
        gone = "  (private half destroyed)" if record.private == "destroyed" else ""
        when = f"{record.created:%Y-%m-%d}"
        click.echo(f"{record.kid}  {record.alg}  {record.state:<12}  {when}{roles}{gone}")


@click.command()
@click.argument("kid")
@keystore_option
@json_option
def show(kid: str, keystore: Place | None, as_json: bool) -> None:
    """Show one key, by its KID or the beginning of it."""
    record = open_any_keystore(keystore).find(kid)
    if as_json:
        print_json(described(record))
        return
    shown = {name: value for name, value in described(record).items() if name != "public"}
    shown |= {name.replace("_", " "): time for name, time in shown.pop("times").items()}
    for name, value in shown.items():
        text = ", ".join(value) if isinstance(value, list) else str(value)
        click.echo(f"{name:<13} {safe(text)}")


@click.command()
@click.option("-o", "--output", default=STDIO, metavar="FILE", help="'-' for stdout, the default.")
@keystore_option
@json_option
def jwks(output: str, keystore: Place | None, as_json: bool) -> None:
    """Write the JWK Set of the public halves, for peers.

    It holds the card keys that sign, that soon will and that lately did; it is JSON with or
    without --json. Its refresh hint is shorter where keys are about to change.
    """
    store = open_any_keystore(keystore)
    if isinstance(store, DirectoryStore):
        Ledger.beside(store).check_listed([key.public for key in store.published_keys()], "card")
    hint = refresh_hint(store.state, project_config().timeline, datetime.now(UTC))
    sequence = store.state.jwks_sequence()
    write_output(output, store.jwks().to_bytes(sequence=sequence, refresh_hint=hint))
    if output != STDIO:
        say(f"wrote {len(store.published_keys())} public key(s) to {output}")


def described(record: KeyRecord) -> dict[str, Any]:
    """A key for ``--json``: what the state holds of it, times as ISO 8601."""
    times = {field.name: getattr(record.times, field.name) for field in fields(KeyTimes)}
    because = {} if record.revoked_because is None else {"revoked_because": record.revoked_because}
    return {
        "kid": record.kid,
        "alg": record.alg,
        "state": record.state,
        **because,
        "roles": list(record.roles),
        "thumbprint": record.thumbprint,
        "custody": record.custody,
        "private": record.private,
        "created": record.created.isoformat(),
        "times": {name: time.isoformat() for name, time in times.items() if time is not None},
        "public": record.public.jwk(),
    }
