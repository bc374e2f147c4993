"""``cardsign keys rotate|retire|revoke|look``: all that is due, and what is begun by a person."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import click

from cardsign.cli.dry_run import confirm, dry_run_option
from cardsign.cli.frame import Command, moment
from cardsign.cli.keystore import GuidedOptions, KeystoreOptions, UnlockOptions, project_config
from cardsign.cli.options import guided_options, keystore_option, take, unlock_options, yes_option
from cardsign.cli.printer import Answer, is_json, say, show
from cardsign.cli.views import key_json, progress_json, say_progress
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, FetchFailed, UsageFault
from cardsign.issuer.reconcile import reconcile, report_revocation, revoke_keys, rotate_now
from cardsign.issuer.work import Progress
from cardsign.jose.jwks import JwkSet
from cardsign.keys import lifecycle
from cardsign.keys.history import check_not_needed, has_ended, kept_keyset
from cardsign.keys.model import (
    ENDED,
    REVOCATION_REASONS,
    KeyRecord,
    Publication,
    RevocationReason,
    StoreState,
)
from cardsign.publish.publication import published_card

#: What ``--now`` stands for without a key.
_ALL: Final = "*"


@click.command(cls=Command, example="cardsign keys retire vzTO")
@click.argument("kid")
@keystore_option
@dry_run_option
def retire(kid: str, **options: Any) -> None:
    """Take the key KID, which has a successor, out of the JWK Set.

    Refused until its successor has signed every published card and caches have those cards. A
    root or recovery key ends at once, unless the next keyset statement needs it.
    """
    store = take(KeystoreOptions, options).open()
    check_not_needed(store, kid)
    settings = project_config().timeline
    store.apply(lifecycle.retire, kid, now=datetime.now(UTC), settings=settings)
    record = store.state.find(kid)
    todo = "has left the key set; publish it"
    if not record.rotates:
        has_keyset = store.state.keyset is not None
        todo = "has ended" + ("; leave it out: cardsign keyset draft" if has_keyset else "")
    show(Answer(key_json(record), notes=[f"{record.kid} {todo}"]))


@click.command(
    cls=Command, short_help="Do all that is due.", example="cardsign keys rotate --dry-run"
)
@guided_options
@click.option(
    "--withdrawn",
    metavar="URL",
    help="The card with this endpoint is no longer served: first forget its publications.",
)
@click.option(
    "--now",
    metavar="[KID]",
    is_flag=False,
    flag_value=_ALL,
    help="Begin the rotation of this active key now, or of all; nobody has stolen it.",
)
@unlock_options
@dry_run_option
def rotate(withdrawn: str | None, now: str | None, **options: Any) -> int:
    """Do all that is due: keys, keyset, cards, release and publication; by hand or from cron.

    A rotation makes a successor, activates it, retires the old key, and destroys the old private
    key. Each step waits until the publication before it has reached every cache. The next keyset
    is drafted, signed with the root keys that are here and published. The cards are signed again,
    listed and published. The command may be stopped anywhere, and run at any time on any number
    of hosts; each step is taken once.

    A draft that is still right is left as it is.

    Exit status 1: something is left for a person. It says who, what and until when.
    """
    guided = take(GuidedOptions, options)
    keystore = take(UnlockOptions, options)
    work = guided.work(keystore, project_config())
    if withdrawn is not None:
        work.store.apply(lifecycle.withdraw, withdrawn, now=work.now)
    if now is None:
        return show_progress(reconcile(work), work.now)
    return show_progress(rotate_now(work, [] if now == _ALL else [now]), work.now)


def show_progress(progress: Progress, now: datetime) -> int:
    """Print what a task came to; the exit status says whether anything needs a person."""
    if not is_json():
        say_progress(progress, now)
    status = EXIT_NOT_TRUSTED if progress.left else EXIT_OK
    return show(Answer(progress_json(progress), exit_status=status))


@click.command(
    cls=Command,
    short_help="Revoke keys for ever.",
    example="cardsign keys revoke vzTO --reason compromised",
)
@click.argument("kids", metavar="KID...", nargs=-1, required=True)
@click.option(
    "--reason",
    type=click.Choice(REVOCATION_REASONS),
    required=True,
    help="compromised: somebody else may have it, and all that is kept with it. superseded, "
    "ceased: it is not needed any more.",
)
@click.option(
    "--store-only", is_flag=True, help="Change only the key store; tell nobody, replace nothing."
)
@guided_options
@unlock_options
@yes_option
@dry_run_option
def revoke(
    kids: tuple[str, ...], reason: RevocationReason, store_only: bool, yes: bool, **options: Any
) -> int:
    """Revoke the keys KID... for ever, and do all that must follow.

    Of a compromised key all card keys of its custody are revoked with it: those that one
    passphrase of the key store opens, of one token, or of one service. A release key of the custody
    signs one more release, which revokes them, and then ends. Root and recovery keys are not
    revoked: the next keyset leaves them out, or a recovery does.

    The keys leave the published key set at once. Standby keys of another custody, or new keys under
    another passphrase, replace them. The root keys that are here sign one keyset that lists the
    replacements. The cards are signed again and published. What needs a person is said at the
    end. The command can be repeated.

    Exit status 1: something is left for a person.
    """
    guided = take(GuidedOptions, options)
    keystore = take(UnlockOptions, options)
    store = keystore.open()
    keys = [store.state.find(kid) for kid in kids]
    if alive := [key for key in keys if key.state != "revoked"]:
        confirm(yes, _ask_to_revoke(store.state, alive, reason))
    if store_only:
        report_revocation(store, keys, reason=reason, now=moment())
        show(Answer([key_json(store.state.find(key.thumbprint)) for key in keys]))
        for key in keys:
            say(f"{key.kid} is {store.state.find(key.thumbprint).state}")
        if not has_ended(store.state, kept_keyset(store)):
            say("  next: cardsign keys rotate")
        return EXIT_OK
    work = guided.work(keystore, project_config(), store=store)
    progress = revoke_keys(work, [key.thumbprint for key in keys], reason=reason)
    return show_progress(progress, work.now)


def _ask_to_revoke(state: StoreState, keys: list[KeyRecord], reason: RevocationReason) -> str:
    names = ", ".join(f"{key.roles[0]} key {key.kid}" for key in keys)
    if reason != "compromised":
        return f"{names} will be revoked, and stay so for ever"
    groups = {key.group for key in keys}
    beside = [key for key in state.keys if key.group in groups and key.state not in ENDED]
    others = ", ".join(key.named for key in beside if key not in keys)
    also = f"; with it, as kept in the same custody: {others}" if others else ""
    if any(not key.rotates for key in beside):
        also += "; root keys end with the next keyset, or the recovery key opens a new epoch"
    return f"{names} counts as stolen, and stays so for ever{also}"


@click.command(
    cls=Command,
    short_help="Record what the live URLs serve.",
    example="cardsign keys look https://agents.example.com/.well-known/agent-card.json --jwks https://agents.example.com/.well-known/jwks.json",
)
@click.argument("card_url")
@click.option("--jwks", "jwks_url", metavar="URL", required=True, help="The live key set.")
@click.option(
    "--insecure-loopback-http", is_flag=True, help="Allow http to this machine, for tests."
)
@keystore_option
@dry_run_option
def look(
    card_url: str,
    jwks_url: str,
    insecure_loopback_http: bool,
    **options: Any,
) -> None:
    """Fetch the live card at CARD_URL and the live key set, and record what is served.

    You need this if you publish by other means than cardsign publish, or deploy long after it.
    The waits of a key rotation then begin when this command sees the files.
    """
    keystore = take(KeystoreOptions, options)
    from cardsign.net.fetch import FetchSettings, fetch_document

    settings = FetchSettings(insecure_loopback_http=insecure_loopback_http)
    for named, url in (("--jwks", jwks_url), ("CARD_URL", card_url)):
        try:
            settings.target(url)
        except FetchFailed as exc:
            raise UsageFault("usage.invalid", f"{named}: {exc.message}", path=url) from exc
    store = keystore.open()
    untrusted_jwks = fetch_document(jwks_url, settings).untrusted_body
    untrusted_card = fetch_document(card_url, settings).untrusted_body
    jwks, now = JwkSet.from_bytes(untrusted_jwks), datetime.now(UTC)
    ours = [key.public for key in store.state.keys]
    seen = Publication(
        generation=0,
        at=now,
        max_age=0,  # what is assumed of caches stands in the settings
        kids=tuple(key.kid for key in jwks.keys if key in ours),
        cards=(published_card("agent-card.json", untrusted_card, store.state.jwks()),),
    )
    store.record_publication(seen, now=now)
    signed_by = ", ".join(seen.cards[0].kids) or "none of them"
    note = f"on record: {len(seen.kids)} of our keys are live; the card is signed by {signed_by}"
    view = {"kids": list(seen.kids), "signed_by": list(seen.cards[0].kids)}
    show(Answer(view, notes=[note]))
