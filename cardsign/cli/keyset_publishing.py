"""``cardsign keyset publish``: a statement and the release that speaks of it, at once."""

from __future__ import annotations

from pathlib import Path

import click

from cardsign.cli.issuing import described_keyset, moment, publication_option, read_statement
from cardsign.cli.options import (
    json_option,
    keystore_option,
    of_the_user,
    open_keystore,
    passphrase_options,
    passphrase_source,
)
from cardsign.cli.publishing import (
    check_publishable,
    newest_of,
    publish_newest,
    published_by,
)
from cardsign.cli.releasing import (
    draft_under,
    next_release,
    release_signers,
    usual_plan,
)
from cardsign.cli.talk import print_json, say
from cardsign.errors import PassphraseFault
from cardsign.jose.jws import Signer
from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.release import ReleaseStatement
from cardsign.jose.statements import check_times
from cardsign.keys.ledger import Ledger, note_keyset, write_draft
from cardsign.keys.opening import AnyStore, Place
from cardsign.keys.releases import SKEW, ReleasePlan
from cardsign.keys.statements import check_step


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
