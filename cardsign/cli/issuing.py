"""What the commands for an issuer's statements share: ledger, options, roles' keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import click

from cardsign.cli.options import STDIO, of_the_user, project_config, read_input
from cardsign.cli.signers import read_public, user_access
from cardsign.cli.talk import safe, say
from cardsign.errors import (
    LocalFault,
    PassphraseFault,
    PublishRefused,
    ServeFault,
    SigningRefused,
    StoreFault,
    UsageFault,
)
from cardsign.files import read_bytes
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.keys.envelope import DEFAULT_COST, MAX_ENVELOPE_BYTES, KeyLabel, open_envelope, seal
from cardsign.keys.history import Ledger, check_signed, note_keyset, note_release, read_draft
from cardsign.keys.keysets import Difference, Signing, signings
from cardsign.keys.model import KeyRecord, Role
from cardsign.keys.passphrase import VARIABLE as PASSPHRASE_VARIABLE
from cardsign.keys.passphrase import PassphraseSource, terminal_prompt
from cardsign.keys.releases import (
    DEFAULT_LIFETIME,
    SKEW,
    ReleasePlan,
    draft_following,
    is_needed,
    settled_cards,
)
from cardsign.keys.stores.opening import AnyStore
from cardsign.publish.checks import CheckedIssued, Issued
from cardsign.publish.generation import Generation, load_current
from cardsign.publish.publication import publication_of, publish_statements
from cardsign.statements.envelope import (
    MAX_STATEMENT_BYTES,
    TYP_RELEASE,
    StatementRefused,
    check_times,
)
from cardsign.statements.keyset import KeysetStatement, RootKey
from cardsign.statements.members import HOLDER
from cardsign.statements.release import ReleaseStatement, check_release, read_release
from cardsign.statements.signing import sign_statement

CARD_PATH: Final = "/.well-known/agent-card.json"
DRAFT_HELP: Final = "Where the draft goes [default: keyset-EPOCH.VERSION.json]."

_Command = TypeVar("_Command", bound=Callable[..., Any])


def publication_option(command: _Command) -> _Command:
    """``--publication``: what is served."""
    return click.option(
        "--publication",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The publication directory [default: `publish` of cardsign.toml].",
    )(command)


def moment() -> datetime:
    """The time of a command, to the second, as statements have it."""
    return datetime.now(UTC).replace(microsecond=0)


def refuse_two_documents(output: str | None, as_json: bool) -> None:
    """Standard output takes one document.

    Raises:
        UsageFault: ``usage.conflict``.
    """
    if output == STDIO and as_json:
        raise UsageFault("usage.conflict", "-o - and --json both write to standard output")


def needed_keyset(ledger: Ledger) -> KeysetStatement:
    """The newest keyset statement.

    Raises:
        StoreFault: ``keystore.no_keyset``, or as :meth:`Ledger.keysets`.
    """
    newest = ledger.newest_keyset()
    if newest is None:
        raise StoreFault("keystore.no_keyset", "no keyset statement is kept", path=ledger.place)
    return newest


def check_begun(keyset: KeysetStatement | None, now: datetime) -> None:
    """Refuse to follow a statement that was issued later than now.

    Raises:
        UsageFault: ``statement.not_yet``.
    """
    if keyset is not None and now.timestamp() < keyset.iat:
        issued = datetime.fromtimestamp(keyset.iat, UTC)
        raise UsageFault(
            "statement.not_yet",
            f"keyset {keyset.epoch}.{keyset.version}, the newest here, was issued at "
            f"{issued:%Y-%m-%d %H:%M:%S} UTC",
            hint="Check this machine's clock; if another's was ahead, none can follow before then.",
        )


def read_statement(name: str) -> KeysetStatement:
    """A draft or a keyset statement in a file that others may have written."""
    try:
        return read_draft(read_input(name, max_bytes=MAX_STATEMENT_BYTES))
    except StatementRefused as refusal:
        raise StatementRefused(
            refusal.code,
            refusal.message,
            path=f"{name}{refusal.path}",
            line=refusal.line,
            column=refusal.column,
            hint=refusal.hint,
        ) from refusal


def signers_among(
    store: AnyStore,
    roles: tuple[Role, ...],
    thumbprints: Collection[str],
    source: PassphraseSource,
) -> list[tuple[KeyRecord, Signer]]:
    """Open the keys of the store that have such a role and are asked for, and can sign."""
    access = user_access(source)
    return [
        (record, store.signer(record, access))
        for record in store.state.keys
        if record.thumbprint in thumbprints
        and set(roles).intersection(record.roles)
        and record.private != "destroyed"
        and record.state in ("active", "retiring")
    ]


def recovery_signer(file: Path, passphrase: bytes) -> PrivateKey:
    """Open a recovery key that was printed or written by ``init``.

    Raises:
        StoreFault: ``keystore.envelope``.
        PassphraseFault: ``passphrase.wrong``.
        FileFault: It cannot be read.
    """
    data = read_bytes(file, max_bytes=MAX_ENVELOPE_BYTES)
    try:
        pkcs8, label = open_envelope(data, passphrase)
    except (StoreFault, PassphraseFault) as fault:
        raise type(fault)(fault.code, fault.message, path=str(file), hint=fault.hint) from fault
    private = PrivateKey.from_pkcs8_der(pkcs8, kid=label.kid)
    if KeyLabel.of(private.public) != label:
        raise StoreFault("keystore.envelope", "it holds another key than it says", path=str(file))
    return private


def named_key(store: AnyStore, text: str, option: str) -> RootKey:
    """``HOLDER=KEY``, where KEY is a kid of the store or a file with a public JWK."""
    holder, equals, name = text.partition("=")
    if not equals or not HOLDER.fullmatch(holder):
        raise UsageFault("usage.conflict", f"{option} takes HOLDER=KEY, not {text!r}")
    return RootKey(public_of(store, name), holder)


def public_of(store: AnyStore, name: str) -> PublicKey:
    """The public half of a key of the store, or in a file."""
    if any(name in record.names for record in store.state.keys):
        return store.find(name).public
    return read_public(name)


def tell_differences(changes: Iterable[Difference]) -> None:
    """Each change on a line of its own, on stderr; whole, since it is what a holder signs."""
    for change in changes:
        say(f"  {whole(str(change))}")


def whole(text: str) -> str:
    """What a statement says, for a terminal: escaped as ever, and never shortened."""
    return safe(text, limit=len(text))


def signing_lines(statement: KeysetStatement, previous: KeysetStatement | None) -> list[str]:
    """Who has signed, and how many are missing."""
    return [_signing_line(one) for one in signings(statement, previous)]


def _signing_line(one: Signing) -> str:
    signed = ", ".join(sorted(one.signed)) or "nobody"
    wanting = f"; {one.missing} missing" if one.missing else ""
    return f"{one.whose}: {len(one.signed)} of {one.quorum.threshold} ({signed}){wanting}"


def described_keyset(statement: KeysetStatement) -> dict[str, Any]:
    """A statement for ``--json``."""
    return {
        "issuer": statement.issuer,
        "epoch": statement.epoch,
        "version": statement.version,
        "digest": statement.digest,
        "exp": statement.exp,
        "keys": [
            {"kid": key.public.kid, "thumbprint": key.public.thumbprint, "roles": list(key.roles)}
            for key in statement.keys
        ],
        "root": [key.public.thumbprint for key in statement.root.keys],
        "threshold": statement.root.threshold,
        "recovery": [key.public.thumbprint for key in statement.recovery.keys]
        if statement.recovery
        else None,
        "revoked": sorted(statement.revoked),
    }


# What the commands that publish share: the statements to go with it, the record, the talk.


def issued_of(store: AnyStore) -> Issued | None:
    """The statements of a store, to be published; None where there are none."""
    keysets, release = Ledger.beside(store).to_publish()
    return Issued(keysets, release) if keysets else None


def newest_of(publication: Path | None) -> Generation | None:
    """What is published, there or where ``cardsign.toml`` says; None if nothing is."""
    directory = publication or project_config().publish
    try:
        return load_current(directory) if directory else None
    except ServeFault as fault:
        if fault.code == "serve.no_generation":
            return None
        raise


def published_by(publication: Path | None) -> CheckedIssued | None:
    """The statements that are published; None if none are.

    Raises:
        PublishRefused: ``publish.statements``: they are no history.
    """
    generation = newest_of(publication)
    issued = Issued.of(generation) if generation else None
    return issued.published() if issued else None


def check_publishable(
    store: AnyStore,
    publication: Path | None,
    *,
    keyset: bytes | None = None,
    release: bytes | None = None,
    now: datetime,
) -> None:
    """Refuse a statement that what is published will not go on with, before it is kept.

    Raises:
        PublishRefused: ``publish.statements``.
    """
    issued, before = issued_of(store), published_by(publication)
    if before is None:
        return
    keysets = (*(issued.keysets if issued else ()), *([keyset] if keyset else ()))
    candidate = Issued(keysets, release or (issued.release if issued else None))
    candidate.checked(now=now, before=before).check_follows(before)


def publish_newest(
    store: AnyStore, publication: Path | None, *, now: datetime, without_release: bool = False
) -> Generation | None:
    """Put the newest statements into what is published, where something is.

    It goes on record if what was published before is: else nobody knows whether that is live.

    Raises:
        PublishRefused: As :func:`cardsign.publish.publish_statements`.
    """
    directory = publication or project_config().publish
    issued = issued_of(store)
    if directory is None or issued is None:
        return None
    before = newest_of(publication)
    generation = publish_statements(
        issued, directory=directory, now=now, without_release=without_release
    )
    if before is None or generation is None:
        say(f"nothing is published in {directory} yet; the statements will go with the first card")
        return None
    if _recorded(store, generation) & {before.number, generation.number - 1}:
        on_record(store, generation)
    if generation.created:
        say(f"published generation {generation.number} in {directory}")
    tell_withheld(store, generation)
    _tell_of_keys(store, generation)
    _tell_of_cards(generation, now)
    return generation


def _recorded(store: AnyStore, generation: Generation) -> set[int]:
    """The numbers of the generations of the same card that are on record."""
    series = publication_of(generation).series
    return {one.generation for one in store.load().publications if one.series == series}


def on_record(store: AnyStore, generation: Generation) -> None:
    """Let the key store note what is published: all waits of a key rotation run from there.

    Raises:
        LocalFault: As :meth:`KeyOperations.record_publication`, with what to do.
    """
    try:
        store.record_publication(publication_of(generation), now=datetime.now(UTC))
    except LocalFault as fault:
        raise type(fault)(
            fault.code,
            f"generation {generation.number} is published, but not on record: {fault.message}",
            path=fault.path,
            hint="Mend this and publish the same again; no key rotation goes on before.",
        ) from fault


def tell_withheld(store: AnyStore, generation: Generation) -> None:
    """Say which keyset statement is not published yet, and what it waits for."""
    newest = Ledger.beside(store).newest_keyset()
    number = f"{newest.epoch}.{newest.version}" if newest else ""
    if number and number not in generation.keysets:
        say(f"keyset {number} is withheld from what is published until a release speaks of it")
        say("  next: cardsign release renew")


def _tell_of_keys(store: AnyStore, generation: Generation) -> None:
    """Say which keys the published key set lacks, or holds no longer with right."""
    ours = {key.kid for key in store.published_keys()}
    gone = {key.kid for key in store.state.keys} - ours
    for kid in sorted(ours.difference(generation.kids)):
        say(f"the published key set lacks {kid}: cardsign publish")
    for kid in sorted(gone.intersection(generation.kids)):
        say(f"the published key set still holds {kid}: cardsign publish")


def _tell_of_cards(generation: Generation, now: datetime) -> None:
    """Say if the card that was published before is trusted no more by what is published now."""
    issued = Issued.of(generation)
    if issued is None:
        return
    try:
        issued.published().check_cards(generation.card, {}, now=now)
    except PublishRefused as refusal:
        say(f"the published card is not trusted now: {safe(refusal.message, limit=400)}")
        say("  next: sign it again, list it and publish it")


# How the next release comes about: drafted, signed by the release key, and kept.


ATTEMPTS: Final = 5  # at one release; each that fails is one that another process made


@dataclass(frozen=True, slots=True)
class Draft:
    """A release to be signed, the keyset under which it speaks, and the release before it."""

    release: ReleaseStatement
    keyset: KeysetStatement
    previous: ReleaseStatement | None


Planner: TypeAlias = Callable[[KeysetStatement, ReleaseStatement | None], ReleasePlan]


def usual_plan(store: AnyStore, previous: ReleaseStatement | None, now: datetime) -> ReleasePlan:
    """What a release says of itself: which cards have settled, what is revoked, the audit head."""
    state = store.load()
    listed = previous.cards if previous else ()
    return ReleasePlan(
        settled=settled_cards(listed, state, project_config().timeline, now),
        revoked=frozenset(key.thumbprint for key in state.keys if key.state == "revoked"),
        audit_head=state.audit.digest,
    )


def draft_under(
    store: AnyStore,
    keyset: KeysetStatement,
    plan: Planner,
    *,
    now: datetime,
    lifetime: timedelta = DEFAULT_LIFETIME,
) -> Draft:
    """Draft the next release of a store, to speak of `keyset`."""
    ledger = Ledger.beside(store)
    previous = ledger.newest_release()
    with of_the_user("the newest keyset statement"):
        check_times(keyset, now=now, skew=SKEW)
    planned = plan(keyset, previous)
    seq = max(previous.seq if previous else 0, ledger.held.release_seq) + 1
    with of_the_user("the release"):
        draft = draft_following(planned, keyset, previous, seq=seq, now=now, lifetime=lifetime)
    return Draft(draft, keyset, previous)


def release_signers(store: AnyStore, draft: Draft, source: PassphraseSource) -> list[Signer]:
    """Open the release keys of the store that may sign a draft; there may be none."""
    able = {key.public.thumbprint for key in draft.keyset.keys} - draft.release.revoked
    return [one for _, one in signers_among(store, ("release",), able, source)]


def next_release(
    store: AnyStore,
    plan: Planner,
    signers: Callable[[Draft], Sequence[Signer]],
    publication: Path | None,
    *,
    now: datetime,
    lifetime: timedelta = DEFAULT_LIFETIME,
    force: bool = False,
) -> tuple[ReleaseStatement, bool]:
    """Sign and keep the next release if there is anything new to say; it is not published yet.

    Returns:
        The newest release, and whether it is new.

    Raises:
        SigningRefused: ``sign.no_key``.
        PublishRefused: As :func:`check_publishable`.
        StoreFault: ``keystore.no_keyset``, ``keystore.changed``, ``keystore.busy``.
    """
    take_up_published(store, publication, now=now)
    for attempt in range(ATTEMPTS):
        ledger = Ledger.beside(store)
        try:
            with ledger.alone():
                keyset = needed_keyset(ledger)
                draft = draft_under(store, keyset, plan, now=now, lifetime=lifetime)
                if not force and not is_needed(draft.release, draft.previous, now=now):
                    return draft.previous or draft.release, False
                return _sign(store, draft, signers(draft), publication, now), True
        except StoreFault as fault:  # somebody has changed the key store meanwhile
            if fault.code != "keystore.changed" or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError  # the last attempt returns or raises


def take_up_published(store: AnyStore, publication: Path | None, *, now: datetime) -> None:
    """Keep statements of this issuer that are published and newer than those kept.

    A key store that was restored from an older backup lacks them. Each is taken by the right of
    what is kept; a history that has parted from the published one is left as it is, for
    :func:`check_publishable` to refuse.

    Raises:
        PublishRefused: As :func:`check_publishable`.
        StoreFault: ``keystore.changed``, ``keystore.busy``.
    """
    published, ledger = published_by(publication), Ledger.beside(store)
    if published is None or ledger.newest_keyset() is None:
        return
    try:
        for statement, data in zip(published.keysets, published.keyset_bytes, strict=True):
            newest = needed_keyset(ledger)
            if statement.id > newest.id:
                ledger.keep_keyset(statement, data)
                note_keyset(store, statement, now=now)
                say(f"took up keyset {statement.epoch}.{statement.version} from what is published")
        if published.release is not None and published.release_bytes is not None:
            _take_up_release(store, published.release, published.release_bytes, now)
    except StatementRefused as refusal:
        say(f"what is published is not taken up: {refusal.code}: {safe(refusal.message)}")


def _take_up_release(
    store: AnyStore, release: ReleaseStatement, data: bytes, now: datetime
) -> None:
    """Keep a published release unless a key has signed it that does not count any more."""
    with Ledger.beside(store).alone():
        ledger = Ledger.beside(store)
        newest = ledger.newest_release()
        if newest is not None and (release.seq <= newest.seq or release.order < newest.order):
            return
        signers = check_signed(release, ledger.keysets())
        revoked = {key.thumbprint for key in store.load().keys if key.state == "revoked"}
        if signers <= revoked | needed_keyset(ledger).revoked:
            return
        if ledger.held.release_seq < release.seq:
            note_release(store, release, now=now)
        held = store.load().statements.release
        if held is None or held.digest == release.digest:
            ledger.keep_release(release, data)
            say(f"took up release {release.seq} from what is published")


def _sign(
    store: AnyStore,
    draft: Draft,
    signers: Sequence[Signer],
    publication: Path | None,
    now: datetime,
) -> ReleaseStatement:
    """Sign a draft, check it as a verifier will, take its number, and keep it."""
    if not signers:
        raise SigningRefused(
            "sign.no_key",
            "no release key of the newest keyset statement is here",
            path=store.place,
            hint="The roots can list one: cardsign keyset draft.",
        )
    data = sign_statement(draft.release.envelope.payload, signers, TYP_RELEASE)
    signed = read_release(data)
    check_release(signed, draft.keyset, draft.previous, now=now, skew=timedelta())
    check_publishable(store, publication, release=data, now=now)
    note_release(store, signed, now=now)
    Ledger.beside(store).keep_release(signed, data)
    return signed


# Recovery keys: made once, under a passphrase of their own, and kept by nobody here.


VARIABLE: Final = "CARDSIGN_RECOVERY_PASSPHRASE"


def recovery_file_options(command: _Command) -> _Command:
    """``--recovery-file`` and the passphrase of it."""
    command = recovery_passphrase_option(command)
    return click.option(
        "--recovery-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Sign with the recovery key that was printed or written to this file.",
    )(command)


def recovery_passphrase_option(command: _Command) -> _Command:
    """``--recovery-passphrase-file``."""
    return click.option(
        "--recovery-passphrase-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"The recovery key's own passphrase [default: {VARIABLE}, then a prompt].",
    )(command)


def recovery_source(file: Path | None) -> PassphraseSource:
    """Where the recovery key's passphrase comes from; never from where the others do."""
    named = os.environ.get(VARIABLE)
    environment = {} if named is None else {PASSPHRASE_VARIABLE: named}
    return PassphraseSource(file, None, environment, terminal_prompt())


def make_recovery(passphrase: bytes) -> tuple[PrivateKey, bytes]:
    """Make a recovery key, and the encrypted text of it that its holder gets."""
    private = PrivateKey.generate("ES256")
    label = KeyLabel.of(private.public)
    data = private.to_pkcs8_der()
    return private, seal(data, passphrase, label=label, cost=DEFAULT_COST, random=os.urandom)
