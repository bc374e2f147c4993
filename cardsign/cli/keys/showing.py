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
    open_keystore,
    project_config,
    write_output,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.jose.jwks import JwkSet
from cardsign.keys.ledger import Ledger
from cardsign.keys.opening import Place
from cardsign.keys.records import KeyRecord, KeyTimes
from cardsign.keys.rotation import refresh_hint


@click.command("list")
@keystore_option
@json_option
def list_(keystore: Place | None, as_json: bool) -> None:
    """List the keys, oldest first."""
    records = open_keystore(keystore).state.keys
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
    record = open_keystore(keystore).find(kid)
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

    It holds the card keys that sign, that soon will and that lately did, of these only what the
    newest keyset statement lists, if there is one; it is JSON with or without --json. Its refresh
    hint is shorter where keys are about to change.
    """
    store = open_keystore(keystore)
    published = store.published_keys()
    listed = Ledger.beside(store).listed(published, "card")
    hint = refresh_hint(store.state, project_config().timeline, datetime.now(UTC))
    sequence = store.state.jwks_sequence()
    jwks = JwkSet.of([key.public for key in listed])
    write_output(output, jwks.to_bytes(sequence=sequence, refresh_hint=hint))
    for key in published:
        if key not in listed:
            say(f"{key.kid} is left out: the newest keyset statement does not list it")
    if output != STDIO:
        say(f"wrote {len(listed)} public key(s) to {output}")


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
