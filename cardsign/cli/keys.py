"""``cardsign keys``: make, import, show, rotate and revoke keys."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from cardsign import errors
from cardsign.cli import frame, issuer
from cardsign.cli.frame import Answer, Group, is_json, members, moment, safe, say, show
from cardsign.cli.issuer import KeystoreOptions
from cardsign.errors import UsageFault, of_the_user
from cardsign.findings import counted
from cardsign.jose.jwk import SigningAlg
from cardsign.jose.keys import JwkSet, PrivateKey, short_kid
from cardsign.keys import agenda, ledger, passphrases
from cardsign.keys import store as stores
from cardsign.keys.history import find_listed
from cardsign.keys.imports import MAX_KEY_FILE_BYTES, export_public, import_private_key
from cardsign.keys.signers import SCHEMES, check_possession, list_public_keys, open_signer
from cardsign.times import day, second

if TYPE_CHECKING:
    from cardsign.issuer.work import Work


@click.group(cls=Group)
def keys() -> None:
    """Make, import, show, rotate and revoke keys.

    Private keys are in the key store, encrypted, or in a signer such as a KMS.
    """


role_option = click.option(
    "--role",
    type=click.Choice(ledger.ROLES),
    default="card",
    help="What it signs. Keep root and recovery keys in a key store of their own.",
)


@keys.command(example="cardsign keys generate --alg ES256")
@issuer.alg_option
@issuer.kid_option
@role_option
@issuer.unlock_options
def generate(alg: SigningAlg, role: ledger.Role, keystore: KeystoreOptions) -> None:
    """Make a key. A store's first key of a role and algorithm signs at once.

    A later key is prepublished: it is in the JWK Set and does not sign yet. Publish it. When
    caches have it, activate it: cardsign keys rotate. If there is a keyset statement, a new key
    is used only after a statement lists it; cardsign keys rotate drafts one.
    """
    keystore.check_unclaimed()
    with of_the_user("--kid"):
        private = PrivateKey.generate(alg, kid=keystore.kid)
    _add(keystore, private, role)


@keys.command("import", example="cardsign keys import key.pem --kid key-001")
@click.argument("source", metavar="FILE|URI")
@issuer.kid_option
@issuer.public_option
@role_option
@issuer.unlock_options
def import_(source: str, role: ledger.Role, keystore: KeystoreOptions) -> None:
    """Import a key from a FILE ('-' for stdin), or from a signer.

    FILE is PEM, PKCS #12 or JWK. Keep the kid that peers know already: they find the key by it. For
    a URI, such as awskms:///ID or env:NAME, the key store holds only the public key and the URI.
    The signer has to prove that it has the private key.
    """
    keystore.check_unclaimed()
    kid, public = keystore.kid, keystore.public
    if source.partition(":")[0] in ("env", *SCHEMES):
        access = keystore.access(source)
        named = public and issuer.read_public(public, kid=kid)
        key = named or list_public_keys(source, access, kid=kid)[0]
        check_possession(open_signer(source, key, access))
        store = stores.create_store(keystore.located(), stores.local_user())
        store.commit(agenda.enter, key, custody=source, now=moment(), role=role)
        _made(store.state.find(key.thumbprint), store)
        return
    if public is not None:
        raise UsageFault("usage.conflict", "--public can be used with the URI of a signer only")
    source = source.removeprefix("file:")
    with of_the_user(source):
        data = frame.read_input(source, max_bytes=MAX_KEY_FILE_BYTES)
        question = f"Passphrase of {source}: "
        password = partial(passphrases.read_passphrase, keystore.source(role), question=question)
        private = import_private_key(data, kid=kid, password=password)
    _add(keystore, private, role)


def _add(keystore: KeystoreOptions, private: PrivateKey, role: ledger.Role) -> None:
    place, passphrase = keystore.located(), keystore.new_passphrase(role)
    store = stores.create_store(place, stores.local_user())
    _made(store.add_key(private, passphrase, now=moment(), role=role), store)


def _made(record: ledger.KeyRecord, store: stores.KeyStore) -> None:
    state = store.state
    if record.rotates and not state.keysets:
        is_active = record.state == "active"
        does = "it signs from now on" if is_active else "it is prepublished, and does not sign yet"
    elif record.rotates or state.keysets or len(state.keys) > 1:
        command = "cardsign keys rotate" if record.rotates else "cardsign keyset draft"
        does = f"it signs as soon as a keyset statement lists it: {command}"
    else:
        command = shlex.join(["cardsign", "keys", "export", record.kid, "--keystore", store.place])
        does = f"send its public key to whoever drafts the keyset: {command}"
    note = f"the {record.alg} key {short_kid(record.kid)} is in {store.place}; {does}"
    show(Answer(key_json(record), [record.kid], [note]))


@keys.command(example="cardsign keys export vzTO --as pem")
@click.argument("key", metavar="KID")
@click.option("--as", "form", type=click.Choice(("jwk", "pem")), default="jwk", help="The format.")
@frame.output_option()
@issuer.keystore_option
def export(key: str, form: Literal["jwk", "pem"], output: str, keystore: KeystoreOptions) -> None:
    """Write one public key for another program."""
    record = keystore.open().state.find(key)
    frame.write_output(output, export_public(record.public, form))
    show(Answer({"kid": record.kid, "as": form, "output": output}))


def key_json(record: ledger.KeyRecord) -> dict[str, Any]:
    """Return a key: what the state holds of it, times as ISO 8601."""
    because = {} if record.revoked_because is None else {"revoked_because": record.revoked_because}
    return {
        **members(record, "kid alg state"),
        **because,
        "roles": [record.role],
        **members(record, "thumbprint custody private created"),
        "times": {name: at.isoformat() for name, at in asdict(record.times).items() if at},
        "public": record.public.jwk(),
    }


@keys.command("list", example="cardsign keys list --ahead")
@click.option("--ahead", is_flag=True, help="List what `keys rotate` will do next, and when.")
@issuer.keystore_option
def list_(ahead: bool, keystore: KeystoreOptions) -> int:
    """List the keys, oldest first."""
    if ahead:
        return _list_ahead(keystore.work())
    records, rows = keystore.open().state.keys, []
    for record in records:
        gone = "  (private key destroyed)" if record.private == "destroyed" else ""
        rows.append((record.kid, record.alg, record.state, day(record.created), record.role + gone))
    columns = {"kid": 0, "algorithm": 0, "state": 12, "made": 0, "roles": 0}
    return show(Answer([key_json(record) for record in records], frame.table_lines(columns, rows)))


def _list_ahead(work: Work) -> int:
    """List what is to be done next with the keys and the keyset, and from when on."""
    from cardsign.issuer.reconcile import foresee  # all of an issuer, which a list does not need

    steps, renewal, cards = foresee(work)
    rows, lines, now = list[dict[str, Any]](), list[str](), work.now
    for step in steps:
        kid = None if step.action == "generate" else step.key.kid
        of_key = {**members(step.key, "role alg"), "kid": kid}
        rows.append({**members(step, "action due why"), **of_key})
        lines.append(_due_line(step.what, step.due, now, "" if step.is_due(now) else step.why))
    renewals = [(f"let the roots sign keyset {renewal.name}", renewal)] if renewal else []
    renewals += [(f"sign the extended card of audience {card.name} again", card) for card in cards]
    lines += [_due_line(task, ahead.due, now, ahead.why) for task, ahead in renewals]
    keyset = renewal and {"number": renewal.name, **members(renewal, "due why ends")}
    ending = [{"audience": card.name, **members(card, "due ends")} for card in cards]
    return show(Answer({"ahead": rows, "keyset": keyset, "extended": ending}, lines))


def _due_line(what: str, due: datetime | None, now: datetime, why: str) -> str:
    when = "" if due is None else "now" if due <= now else f"from {second(due, now)}"
    return safe(f"{what}: {', '.join(filter(None, (when, why)))}", limit=400)


@keys.command(example="cardsign keys rotate --dry-run")
@issuer.root_keystore_option
@click.option(
    "--now",
    metavar="[KID]",
    is_flag=False,
    flag_value="",
    help="Begin to rotate this active key now, or all. For a stolen one: cardsign keys revoke.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="First add to the log what another copy has published, as cardsign keys doctor lists it.",
)
@issuer.unlock_options
@frame.dry_run_option
def rotate(
    root_keystore: stores.StorePlace | None, now: str | None, adopt: bool, keystore: KeystoreOptions
) -> int:
    """Do all that is due: keys, keyset, cards, release, publication.

    Run it by hand, or from cron.

    A rotation makes a successor, activates it, and retires the old key, whose private key is
    destroyed. Each step waits until the publication before it has reached every cache. The next
    keyset is drafted, signed with the root keys that are here and published. The cards are signed
    again, listed and published. The command may be stopped anywhere, and run at any time on any
    number of hosts; each step is taken once.

    A draft in next-keyset.json that is still right is not changed.

    Exit status 1: something is left for a person. The output says who must do what, and by when.
    """
    from cardsign.issuer import reconcile

    work = keystore.work(root_keystore=root_keystore)
    work.adopts = adopt
    if now is None or adopt:
        progress = reconcile.reconcile(work)
    else:
        progress = reconcile.rotate_now(work, [now] if now else [])
    return issuer.show_progress(progress, work.now)


@keys.command(example="cardsign keys revoke vzTO --reason compromised")
@click.argument("kids", metavar="KID...", nargs=-1, required=True)
@click.option(
    "--reason",
    type=click.Choice(ledger.REVOCATION_REASONS),
    required=True,
    help="compromised: somebody else may have the key, and the keys kept with it.",
)
@issuer.root_keystore_option
@issuer.unlock_options
@frame.yes_option
@frame.dry_run_option
def revoke(
    kids: tuple[str, ...],
    reason: ledger.RevocationReason,
    root_keystore: stores.StorePlace | None,
    yes: bool,
    keystore: KeystoreOptions,
) -> int:
    """Revoke keys permanently, and do everything that follows from it.

    With a compromised key all card keys of its custody are revoked: those that the same passphrase
    of the key store opens, or that are on the same token or in the same service. A release key of
    the custody signs one more release, which revokes them, and is revoked after that. Root and
    recovery keys are not revoked here: the next keyset or a recovery leaves them out.

    The keys leave the published key set at once. Standby keys of another custody, or new keys under
    another passphrase, replace them. The root keys that are here sign one keyset that lists the
    replacements. The cards are signed again and published. At the end the command lists what needs
    a person. It can be repeated.

    Exit status 1: something is left for a person.
    """
    from cardsign.issuer.reconcile import revoke_keys

    store = keystore.open()
    keys = [store.state.find(kid) for kid in kids]
    if alive := [key for key in keys if key.state != "revoked"]:
        warning = _ask_to_revoke(store.state, alive, reason)
        frame.confirm(yes, warning)
        if yes and reason == "compromised":
            say(safe(warning, limit=600))
    work, notes = keystore.work(store=store), []
    try:
        if root_keystore:
            keystore.add_roots(work, root_keystore)
    except (errors.StoreFault, errors.FileFault) as fault:
        if reason != "compromised":
            raise
        # A stick that is not there keeps no stolen key in what is published.
        notes = [f"without the root keys: {fault.message}", f"  {fault.finding.hint}"]
    progress = revoke_keys(work, [key.thumbprint for key in keys], reason=reason)
    return issuer.show_progress(progress._replace(notes=(*notes, *progress.notes)), work.now)


def _ask_to_revoke(
    state: ledger.StoreState, keys: list[ledger.KeyRecord], reason: ledger.RevocationReason
) -> str:
    names = ", ".join(f"{key.role} key {key.kid}" for key in keys)
    if reason != "compromised":
        return f"{names} will be revoked permanently"
    groups = frozenset[str]().union(*(key.groups for key in keys))
    in_use = (key for key in state.keys if key.state not in ledger.ENDED)
    beside = [key for key in in_use if key.is_taken_with(groups)]
    others = ", ".join(key.named for key in beside if key not in keys)
    also = f", together with what is in the same custody: {others}" if others else ""
    if any(not key.rotates for key in beside):
        also += "; root keys end with the next keyset, or the recovery key opens a new epoch"
    return f"{names} will count as stolen for good{also}"


@keys.command(example="cardsign keys passwd --role release")
@click.option("--role", type=click.Choice(ledger.ROLES), required=True, help="The keys' role.")
@click.option(
    "--new-passphrase-file", type=frame.FILE, help="The new passphrase [default: a prompt]."
)
@issuer.unlock_options
def passwd(role: ledger.Role, new_passphrase_file: Path | None, keystore: KeystoreOptions) -> None:
    """Change the passphrase of a role's keys in this key store.

    If the command is interrupted, run it again. Copies of the key store keep the old passphrase.
    """
    store = keystore.open()
    if not (records := store.state.sealed_keys(role)):
        message = f"no {role} key that is in use in this key store has a passphrase"
        raise UsageFault("usage.conflict", message, path=store.place)
    old = keystore.access().for_role(role).secrets("passphrase", f"{role} keys")
    question = f"New passphrase of the {role} keys: "
    source = passphrases.PassphraseSource(new_passphrase_file, prompt=passphrases.terminal_prompt())
    new = passphrases.read_passphrase(source, question=question, is_new=True)
    changed = store.change_passphrase(records, old, new, now=moment())
    where = f"`{role}` of [passphrase_files], or {ledger.passphrase_variable(role)}"
    report = {"role": role, "changed": [key.kid for key in changed], "also_in": where}
    notes = [
        f"changed the passphrase of {len(changed)} of {counted(len(records), f'{role} key')}",
        f"  next: change it where programs such as cron read it: {where}",
    ]
    show(Answer(report, notes=notes))


@keys.command(example="cardsign keys move postgresql://db.example/keys")
@click.argument("to", metavar="TO")
@issuer.keystore_option
def move(to: str, keystore: KeystoreOptions) -> None:
    """Move the key store to TO, a folder or the URL of a database.

    The old key store stays. It signs no more, and says where the new one is. An interrupted move is
    continued by the same command. Afterwards change `keystore` in cardsign.toml, or set
    CARDSIGN_KEYSTORE.
    """
    place = keystore.located()
    store = stores.open_store(place, stores.local_user(), moved=True)
    target = stores.read_place(to)
    moved, old = stores.move_store(store, target, now=moment()), shlex.quote(str(place))
    notes = [
        f"the key store is in {target} now, and {place} signs no more",
        f"  next: export {issuer.KEYSTORE_VARIABLE}={shlex.quote(str(target))}, for cron too",
        "  or name it as `keystore` in cardsign.toml, if it is a folder",
        f"  then see how to destroy the old private keys: cardsign keys doctor --keystore {old}",
    ]
    show(Answer({"from": str(place), "to": moved.place}, notes=notes))


@keys.command(example="cardsign keys jwks -o jwks.json")
@frame.output_option()
@issuer.key_option
@issuer.kid_option
@issuer.unlock_options
def jwks(output: str, keystore: KeystoreOptions) -> None:
    """Write the JWK Set of the public keys, for peers.

    The set holds the card keys that sign now, the next ones, and those that signed until recently.
    If there is a keyset statement, the set holds only keys that the newest one lists. The output is
    JSON with or without --json.

    With --key the set holds only the keys named, which may be public, and no key store is read.
    """
    store = None if keystore.names_keys else keystore.open()
    published = [key.public for key in store.state.published_keys()] if store else []
    public = find_listed(store, published, "card") if store else keystore.list_keys()
    frame.write_output(output, JwkSet.of(public).to_bytes())
    if store is not None:
        store.commit(agenda.record_key_set, now=moment())
    for key in published:
        if key not in public:
            say(f"{key.kid} is left out: the newest keyset statement does not list it")
    if not public:
        say("the key set is empty: whoever uses it trusts none of your cards", asked=True)
        say("  next: cardsign keys rotate, which says what is missing", asked=True)
    if output != frame.STDIO:
        say(f"wrote {counted(len(public), 'public key')} to {output}")


@keys.command(example="cardsign keys log")
@issuer.keystore_option
def log(keystore: KeystoreOptions) -> int:
    """List the log of the key store, oldest line first. The log is checked as it is read."""
    store = keystore.open()
    lines = map(json.loads, store.read_lines())  # which opening it has checked
    kids = {key.thumbprint: key.named for key in store.state.keys}
    value = [{name: line[name] for name in ("seq", "time", "actor", "events")} for line in lines]
    texts = (_log_line(line, event, kids) for line in value for event in line["events"])
    return show(Answer(value, texts))


def _log_line(line: Mapping[str, Any], event: ledger.Event, kids: Mapping[str, str]) -> str:
    """Return one event of a line: when, what and by whom; and the rest but for the public key."""
    rest = {name: event[name] for name in event if name not in ("event", "key", "public")}
    key = kids.get(event.get("key", ""), event.get("public", {}).get("kid", ""))
    who, details = safe(f"{line['actor']}  {key}"), safe(json.dumps(rest)) if rest else ""
    return f"{line['seq']:>5}  {line['time']}  {event['event']}  {who}  {details}".rstrip()


@keys.command(example="cardsign keys doctor")
@issuer.keystore_option
def doctor(keystore: KeystoreOptions) -> int:
    """Check the key store and what it publishes. An error needs a person; a note is advice.

    The command lists what is missing, as cardsign keys rotate --dry-run does, and what ends within
    14 days. It checks the files of the key store (leftovers, permissions, missing private keys),
    the log and the clock.

    Exit status 1: there is an error.
    """
    from cardsign.issuer.doctor import examine_issuer

    findings = examine_issuer(keystore.work(store=keystore.locate()))
    is_healthy = all(finding.severity == "note" for finding in findings)
    if not is_json():
        if is_healthy:
            say("the key store is healthy")
        for finding in findings:
            head, is_error = f"{finding.severity}: ", finding.severity == "error"
            frame.say_finding(finding, head=head, asked=is_error, with_hint=True)
    status = errors.EXIT_OK if is_healthy else errors.EXIT_NOT_TRUSTED
    return show(Answer([finding.to_json() for finding in findings], exit_status=status))
