"""``cardsign keyset`` and ``release``: which keys may sign for the issuer, and what is current."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from cardsign import errors
from cardsign.cli import frame, issuer
from cardsign.cli.frame import Answer, Group, members, moment, safe, say, show
from cardsign.cli.issuer import KeystoreOptions, project_config
from cardsign.cli.verifier import statements_option
from cardsign.config import NO_CONFIG
from cardsign.errors import PassphraseFault, UsageFault, of_the_user
from cardsign.files import CONFIG_FILE
from cardsign.issuer import keyset as keysets
from cardsign.issuer import release as releases
from cardsign.issuer.cards import list_signed_cards
from cardsign.issuer.reconcile import publish_keyset, renew_release
from cardsign.keys.history import kept_keyset, kept_keysets, kept_release
from cardsign.keys.passphrases import ask, terminal_prompt
from cardsign.keys.store import KeyStore, StorePlace, create_store, local_user
from cardsign.statements.envelope import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.statements.keyset import KeysetStatement, RootKey, quorum_signatures
from cardsign.statements.release import ReleaseStatement
from cardsign.times import day, minute
from cardsign.urls import CARD_PATH, card_url, parse_url

draft_option: Final = frame.output_option(
    default=None, help="Where the draft goes [default: keyset-EPOCH.VERSION.json]."
)


@click.group(cls=Group)
def keyset() -> None:
    """Draft, sign and publish the statement of which keys may sign for the issuer.

    A draft is the statement itself with too few signatures. It goes from holder to holder of
    the root keys. Once enough have signed it, one of them publishes it.
    """


def read_statement(name: str) -> KeysetStatement:
    """Return a draft or a keyset statement in a file that others may have written."""
    try:
        return keysets.read_draft(frame.read_input(name, max_bytes=MAX_STATEMENT_BYTES))
    except StatementRefused as refusal:
        raise errors.place_below(refusal, name, StatementRefused) from refusal


# ``cardsign keyset draft``.


def _named_keys(store: KeyStore, texts: Iterable[str], option: str) -> tuple[RootKey, ...]:
    """Return the key of each ``HOLDER=KEY``: KEY is a kid here, or a file with a public JWK."""
    kids = {name for record in store.state.keys for name in record.names}
    return tuple(
        RootKey(store.state.find(key).public if key in kids else issuer.read_public(key), holder)
        for holder, key in frame.read_pairs(option, "HOLDER=KEY", texts).items()
    )


@keyset.command(example="cardsign keyset draft --days 90 -o next.json")
@draft_option
@click.option(
    "--origin",
    metavar="ORIGIN",
    multiple=True,
    help="An origin where interfaces may be; replaces all earlier origins.",
)
@click.option(
    "--days",
    metavar="DAYS",
    type=click.IntRange(1, 400),
    default=keysets.KEYSET_LIFETIME.days,
    help="How long it is valid.",
)
@click.option(
    "--add-root", metavar="HOLDER=KEY", multiple=True, help="A kid of the key store, or a JWK file."
)
@click.option(
    "--remove-root", metavar="HOLDER", multiple=True, help="Remove the root keys of this holder."
)
@click.option(
    "--threshold", metavar="N", type=click.IntRange(min=1), help="How many root holders must sign."
)
@click.option(
    "--recovery",
    metavar="HOLDER=KEY",
    multiple=True,
    help="A recovery key; replaces all earlier ones, and those must sign this too.",
)
@issuer.keystore_option
def draft(output: str | None, days: int, keystore: KeystoreOptions, **options: Any) -> None:
    """Draft the next statement from the key store and the options.

    Only the draft is written. A draft without changes renews the statement before it.
    """
    work = keystore.work()
    store = work.store
    drafted = keysets.draft_keyset(
        work,
        origins=options["origin"],
        add_roots=_named_keys(store, options["add_root"], "--add-root"),
        remove_roots=options["remove_root"],
        threshold=options["threshold"],
        recovery=_named_keys(store, options["recovery"], "--recovery"),
        lifetime=timedelta(days=days),
    )
    file = output or f"keyset-{drafted.label}.json"
    frame.write_output(file, keysets.write_draft(drafted), plain=output is None)
    changes = say_differences(kept_keyset(store), drafted)
    sign = f"{'DRAFT' if file == frame.STDIO else shlex.quote(file)} --digest {drafted.digest}"
    notes = [f"next, for each holder of a root key: cardsign keyset sign {sign}"]
    view = {"draft": file, **keyset_json(drafted), "changes": changes}
    show(Answer(view, () if file == frame.STDIO else [drafted.digest], notes))


# ``cardsign keyset sign`` and ``recover``: what takes a root's or a recovery key's signature.


@keyset.command(example="cardsign keyset sign next.json")
@click.argument("draft", metavar="DRAFT")
@click.option(
    "--digest",
    metavar="SHA-256",
    help="The draft's digest, as its author told you over another channel [default: a prompt].",
)
@issuer.recovery_option()
@issuer.unlock_options
def sign(
    draft: str, digest: str | None, recovery_file: Path | None, keystore: KeystoreOptions
) -> None:
    """Add the signature of this key store's holder to DRAFT.

    The command shows what the draft changes, compared with the newest statement of this key store,
    and asks for the digest. Get the digest from the author of the draft, over another channel than
    the draft. A key store with root keys alone keeps the statement once enough have signed it.
    """
    frame.check_output(draft)
    work = keystore.work(NO_CONFIG)
    drafted, previous = read_statement(draft), kept_keyset(work.store)
    keysets.review_keyset(work, drafted, name=draft)
    say_differences(previous, drafted)
    recovery = None if recovery_file is None else partial(issuer.unlock_recovery, recovery_file)
    if digest is None:
        try:
            digest = os.fsdecode(ask(terminal_prompt(), "The digest that its author told you: "))
        except PassphraseFault as fault:
            message = "give the digest that the author of the draft told you: --digest SHA-256"
            raise UsageFault("usage.conflict", message) from fault
    signed = keysets.sign_keyset(work, drafted, digest=digest, recovery=recovery)
    frame.write_output(draft, keysets.write_draft(signed))
    lines = signing_lines(signed, previous)
    notes = [f"signed by {line}" for line in lines]
    if previous is None and signed.number > (1, 1):
        notes.append("  the keyset before it is not here; its roots must sign too: send it back")
        notes.append(f"  once all have signed, keep it: {work.command(f'keyset publish {draft}')}")
    elif not any(signing.missing for signing in quorum_signatures(signed, previous)):
        command = work.command(f"keyset publish {draft}")
        if not any(key.rotates for key in work.store.state.keys):
            # Signers of the next statement are shown what it changes in this one.
            keysets.accept_keyset(work, signed, name=draft)
            command = f"send it to where the release key is; there: cardsign keyset publish {draft}"
        notes.append(f"  next: {command}")
    show(Answer({"digest": signed.digest, "signed_by": lines}, notes=notes))


@keyset.command(example="cardsign keyset recover --recovery-file recovery.key")
@draft_option
@click.option("--digest", metavar="SHA-256", help="Your keyset's digest, if the key store is lost.")
@click.option(
    "--new-recovery-out",
    type=frame.FILE,
    help="Make a new recovery key too, encrypted, because the old one has been used.",
)
@issuer.publication_option("--publication")
@statements_option
@issuer.recovery_option(required=True)
@issuer.unlock_options
@frame.yes_option
def recover(
    output: str | None,
    recovery_file: Path,
    publication: Path | None,
    statements: tuple[Path, ...],
    yes: bool,
    keystore: KeystoreOptions,
    **options: Any,
) -> None:
    """Open the next epoch with the recovery key.

    Use it when root keys were stolen or lost. The command makes a new root key in this key store,
    and every old root key ends. Revoke stolen card and release keys first: cardsign keys revoke.
    The draft is signed by the new root and by the key in --recovery-file. If recovery needs more
    holders, send them the draft (cardsign keyset sign).

    If everything else is lost, the command makes a new key store with a card key and a release key,
    and takes the statements from what is published, or from a verifier's copies (--statements);
    --digest shows that they are yours. The draft no longer lists the lost keys.
    Afterwards: cardsign keyset publish DRAFT; cardsign keys rotate.
    """
    config = project_config(publication)
    place, access = keystore.located(), keystore.access()
    store = create_store(place, local_user())
    frame.confirm(yes, "every root key of this issuer ends, and a new epoch begins")
    work = keystore.work(config, store=store, access=access)
    signed, root = keysets.recover(
        work,
        partial(issuer.unlock_recovery, recovery_file),
        # Each from where later commands look for it, or as it is typed.
        passphrase=lambda role: access.for_role(role).secrets("new passphrase", f"{role} keys"),
        copies=statements,
        **options,
    )
    previous = releases.needed_keyset(store)
    if work.now.timestamp() >= previous.exp:
        clock = "the newest keyset has ended by this machine's clock, which may be ahead"
        say(f"{clock}: publish only if it is {day(work.now)}")
    file = output or f"keyset-{signed.label}.json"
    frame.write_output(file, keysets.write_draft(signed), plain=output is None)
    say_differences(previous, signed)
    notes = [*(f"signed by {line}" for line in signing_lines(signed, previous))]
    if (publication or statements) and _write_settings(signed, place, publication):
        notes.append(f"wrote {CONFIG_FILE}, so that the next commands know where to publish")
    notes.append(f"  next: {work.command(f'keyset publish {file}')}")
    show(Answer({"draft": file, "digest": signed.digest, "root": root.thumbprint}, notes=notes))


def _write_settings(signed: KeysetStatement, place: StorePlace, site: Path | None) -> bool:
    """Write the settings after a loss: what follows publishes there, and signs the cards there.

    They are not written over others, and a committed file names no place outside its folder.
    """
    here = Path(os.path.relpath(place)) if isinstance(place, Path) else place
    publish = os.path.relpath(site or "public")
    is_outside = publish.startswith("..") or str(here).startswith("..")
    return not is_outside and keysets.write_settings(Path(), signed.origins[0], here, publish)


# ``cardsign keyset publish``: a statement and the release that names it, at once.


@keyset.command(example="cardsign keyset publish next.json")
@click.argument("file", metavar="STATEMENT")
@issuer.publication_option("--publication")
@issuer.unlock_options
@frame.dry_run_option
def publish(file: str, publication: Path | None, keystore: KeystoreOptions) -> int:
    """Keep a STATEMENT that enough holders have signed, and publish it.

    A release that names the keyset is signed and published with it. That needs the passphrase of
    the release key; without it, the next cardsign release renew publishes the statement. A key
    store that has neither a release nor a release key keeps the statement alone. Each holder of a
    root key should keep every statement in this way, to compare the next draft with it.

    Exit status 1: something is left for a person.
    """
    work = keystore.work(project_config(publication))
    statement = read_statement(file)
    progress = publish_keyset(work, statement, name=file)
    return issuer.show_progress(progress, work.now, keyset_json(statement))


# ``cardsign keyset show``.


@keyset.command("show", example="cardsign keyset show")
@click.argument("file", metavar="[STATEMENT]", required=False)
@issuer.keystore_option
def show_statement(file: str | None, keystore: KeystoreOptions) -> None:
    """Show the newest statement or a draft, and who has signed it.

    Showing a draft needs no key store.
    """
    statement = releases.needed_keyset(keystore.open()) if file is None else read_statement(file)
    store = keystore.open_if_any()
    kept = kept_keysets(store) if store else ()
    previous = next((keyset for keyset in reversed(kept) if keyset.id < statement.id), None)
    lines = [
        f"keyset {statement.label} of {safe(statement.issuer)}, "
        f"valid until {minute(statement.exp)}",
        f"digest {statement.digest}",
        *(f"  {change[2:]}" for change in list(keysets.differences(None, statement))[1:]),
        *(f"signed by {line}" for line in signing_lines(statement, previous)),
    ]
    show(Answer(keyset_json(statement), lines))


# ``cardsign release``: an online key says it, from cron.


def _card(text: str) -> tuple[str | None, bytes]:
    """Return the url and the card of ``[URL=]FILE``."""
    url, equals, file = text.partition("=")
    if not equals or "://" not in url:
        return None, frame.read_input(text)
    with of_the_user("--card"):
        return card_url(str(parse_url(url))), frame.read_input(file)


@click.group(cls=Group)
def release() -> None:
    """Sign the list of current cards. A card that no fresh release lists is not trusted."""


@release.command(example="cardsign release renew --card signed.json")
@click.option(
    "--card",
    metavar="[URL=]FILE",
    multiple=True,
    help=f"A signed card to list, before it is published [default URL: the issuer's {CARD_PATH}].",
)
@click.option(
    "--withdraw",
    "withdrawn",
    metavar="URL",
    multiple=True,
    help="Withdraw the card at this URL. No card there is current any more.",
)
@click.option("--raise-floor", is_flag=True, help="Void older cards at the URL of each --card.")
@click.option(
    "--extended-floor",
    metavar="SEQ",
    type=click.IntRange(1),
    help="Make extended cards for an earlier release than SEQ invalid.",
)
@click.option("--force", is_flag=True, help="Sign a release even if nothing is new.")
@issuer.publication_option("--publication")
@issuer.unlock_options
@frame.dry_run_option
def renew(
    card: tuple[str, ...],
    force: bool,
    raise_floor: bool,
    publication: Path | None,
    keystore: KeystoreOptions,
    **options: Any,
) -> int:
    """Sign and publish the next release, and do what else is due.

    The release key signs. A release is signed if something is new or half of the newest release's
    time is over. Without --card the release lists the signed public card of cardsign.toml. Listed
    cards stay listed. A withdrawn card stays withdrawn until --card names it. An older card is
    dropped once no cache can have it. Keys that were revoked in the key store are revoked by this
    release too. What else is due is done as cardsign keys rotate does it.

    Exit status 1: something is left for a person.
    """
    work = keystore.work(project_config(publication))
    cards = releases.list_named(work, map(_card, card))
    if not card:
        for part in work.by_agent():
            cards += list_signed_cards(part)
    plan = releases.ReleasePlan(tuple(cards), dict(cards) if raise_floor else {}, **options)
    progress = renew_release(work, plan, force=force)
    newest = kept_release(work.store)
    return issuer.show_progress(progress, work.now, release_json(newest) if newest else {})


@release.command("show", example="cardsign release show --json")
@issuer.keystore_option
def show_release(keystore: KeystoreOptions) -> int:
    """Show the newest release. Exit status 1 if another one is due.

    Another one is due when half of the release's lifetime is over, when it names an older keyset
    statement, or when it was signed while the clock was ahead.
    """
    store = keystore.open()
    keyset, newest = releases.needed_keyset(store), kept_release(store)
    is_due = newest is None or releases.is_release_due(newest, keyset.id, now=moment())
    view = {"due": is_due, **(release_json(newest) if newest else {})}
    lines = _release_lines(newest) if newest else ()
    status = errors.EXIT_NOT_TRUSTED if is_due else errors.EXIT_OK
    notes = ["it is time for another one: cardsign release renew"] if is_due else ()
    return show(Answer(view, lines, notes, status))


def _release_lines(newest: ReleaseStatement) -> Iterator[str]:
    yield f"release {newest.seq} under keyset {newest.keyset.label}, until {minute(newest.exp)}"
    for card in newest.cards:
        floor = newest.floor.get(card.url, 0)
        yield f"  {safe(card.url)} {card.payload_sha256} seq {card.seq}, floor {floor}"
    for thumbprint in sorted(newest.revoked):
        yield f"  revoked {thumbprint}"


# How statements are shown.


def keyset_json(statement: KeysetStatement) -> dict[str, Any]:
    """Return a keyset statement."""
    recovery = statement.recovery
    return {
        **members(statement, "issuer epoch version digest exp revoked"),
        "keys": [
            {"kid": key.public.kid, "thumbprint": key.public.thumbprint, "roles": list(key.roles)}
            for key in statement.keys
        ],
        "root": [key.public.thumbprint for key in statement.root.keys],
        "threshold": statement.root.threshold,
        "recovery": [key.public.thumbprint for key in recovery.keys] if recovery else None,
    }


def release_json(statement: ReleaseStatement) -> dict[str, Any]:
    """Return a release statement."""
    return {
        **members(statement, "seq digest exp floor revoked"),
        "keyset": statement.keyset.label,
        "cards": [members(card, "url payload_sha256 seq") for card in statement.cards],
    }


def say_differences(old: KeysetStatement | None, new: KeysetStatement) -> list[str]:
    """Say each change on a line of its own, and return them; whole, as a holder signs them."""
    changes = list(keysets.differences(old, new))
    for change in changes:
        say(f"  {change}")
    return changes


def signing_lines(statement: KeysetStatement, previous: KeysetStatement | None) -> list[str]:
    """Return who has signed a statement, and how many are missing."""
    lines = []
    for signing in quorum_signatures(statement, previous):
        signed = ", ".join(sorted(signing.signed)) or "nobody"
        absent = sorted({key.holder for key in signing.quorum.keys} - signing.signed)
        choice = f"{signing.missing} of " if signing.missing < len(absent) else ""
        wanting = f"; missing: {choice}{', '.join(absent)}" if signing.missing else ""
        threshold = signing.quorum.threshold
        lines.append(f"{signing.name}: {len(signing.signed)} of {threshold} ({signed}){wanting}")
    return lines
