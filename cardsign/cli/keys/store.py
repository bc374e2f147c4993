"""``cardsign keys list|jwks|log|doctor``: what the key store holds, and whether it is well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from cardsign.cli.frame import Command, moment
from cardsign.cli.keystore import (
    KeystoreOptions,
    UnlockOptions,
    explaining_absence,
    local_user,
    project_config,
)
from cardsign.cli.options import (
    key_option,
    keystore_option,
    kid_option,
    take,
    unlock_options,
)
from cardsign.cli.printer import Answer, counted, is_json, safe, say, show, table_lines
from cardsign.cli.streams import STDIO, write_output
from cardsign.cli.views import ahead_json, ahead_lines, key_json, say_finding
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK
from cardsign.jose.jwks import JwkSet
from cardsign.jose.keys import PublicKey
from cardsign.keys import lifecycle
from cardsign.keys.history import find_listed
from cardsign.keys.log import Event
from cardsign.keys.opening import locate_store
from cardsign.times import day


@click.command("list", cls=Command, example="cardsign keys list --ahead")
@click.option(
    "--ahead",
    is_flag=True,
    help="List what `keys rotate` will do next, and when.",
)
@keystore_option
def list_(ahead: bool, **options: Any) -> int:
    """List the keys, oldest first."""
    keystore = take(KeystoreOptions, options)
    store, now = keystore.open(), datetime.now(UTC)
    if ahead:
        from cardsign.issuer.gaps import foresee  # all of an issuer, which a list does not need
        from cardsign.issuer.work import Work

        progress = foresee(Work(store, now, project_config()))
        return show(Answer(ahead_json(progress), ahead_lines(progress, now)))
    records, rows = store.state.keys, []
    for record in records:
        gone = "  (private key destroyed)" if record.private == "destroyed" else ""
        roles = f"{', '.join(record.roles)}{gone}"
        created = day(record.created)
        rows.append((record.kid, record.alg, record.state, created, roles))
    columns = {"kid": 0, "algorithm": 0, "state": 12, "made": 0, "roles": 0}
    return show(Answer([key_json(record) for record in records], table_lines(columns, rows)))


@click.command(cls=Command, example="cardsign keys jwks -o jwks.json")
@click.option("-o", "--output", metavar="FILE", default=STDIO, help="'-' for stdout, the default.")
@key_option
@kid_option
@unlock_options
def jwks(output: str, uris: tuple[str, ...], kid: str | None, **options: Any) -> None:
    """Write the JWK Set of the public keys, for peers.

    The set holds the card keys that sign now, the next ones, and those that signed until recently.
    If there is a keyset statement, the set holds only keys that the newest one lists. The output is
    JSON with or without --json.

    With --key the set holds the keys that are named, and no key store is read.
    """
    keystore = take(UnlockOptions, options)
    if uris or kid is not None:
        keys = keystore.list_keys(uris, kid)
        write_output(output, JwkSet.of(keys).to_bytes())
        if output != STDIO:
            say(f"wrote {counted(len(keys), 'public key')} to {output}")
        return
    store = keystore.open()
    published = store.state.published_keys()
    listed = find_listed(store, published, "card")
    write_output(output, JwkSet.of([key.public for key in listed]).to_bytes())
    store.apply(lifecycle.record_key_set, now=datetime.now(UTC))
    if not listed:
        say("no key is in it: whoever takes it trusts none of your cards", asked=True)
        say("  next: cardsign keys rotate, which says what is missing", asked=True)
    for key in published:
        if key not in listed:
            say(f"{key.kid} is left out: the newest keyset statement does not list it")
    if output != STDIO:
        say(f"wrote {counted(len(listed), 'public key')} to {output}")


@click.command(cls=Command, example="cardsign keys doctor")
@keystore_option
def doctor(**options: Any) -> int:
    """Check the key store and what it publishes. An error needs a person; a note is advice.

    The command lists what is missing, as cardsign keys rotate --dry-run does, and what ends within
    14 days. It checks the files of the key store (leftovers, permissions, missing private keys),
    the log, the clock and the timeline of cardsign.toml, and says whether a key could take over
    after a theft.

    Exit status 1: there is an error.
    """
    from cardsign.issuer.examination import examine_issuer
    from cardsign.issuer.work import Work

    store = locate_store(take(KeystoreOptions, options).located(), local_user())
    with explaining_absence():
        findings = examine_issuer(Work(store, moment(), project_config()))
    is_healthy = all(finding.severity == "note" for finding in findings)
    if not is_json():
        if is_healthy:
            say("the key store is healthy")
        for finding in findings:
            say_finding(finding)
    status = EXIT_OK if is_healthy else EXIT_NOT_TRUSTED
    return show(Answer([finding.to_json() for finding in findings], exit_status=status))


@click.command(cls=Command, example="cardsign keys log")
@keystore_option
def log(**options: Any) -> int:
    """List the log of the key store, oldest line first. The log is checked as it is read."""
    store = take(KeystoreOptions, options).open()
    lines = store.read_log()
    kids = {key.thumbprint: key.named for key in store.state.keys}
    value = [{name: line[name] for name in ("seq", "time", "actor", "events")} for line in lines]
    return show(
        Answer(value, (_log_line(line, event, kids) for line in value for event in line["events"]))
    )


def _log_line(line: Mapping[str, Any], event: Event, kids: Mapping[str, str]) -> str:
    members_shown = {
        name: value for name, value in event.items() if name not in ("event", "key", "public")
    }
    key = event.get("key", "")
    if "public" in event:
        key = PublicKey.from_jwk(event["public"]).thumbprint
    details = safe(json.dumps(members_shown)) if members_shown else ""
    who = safe(f"{line['actor']}  {kids.get(key, '')}")
    return f"{line['seq']:>5}  {line['time']}  {event['event']}  {who}  {details}".rstrip()
