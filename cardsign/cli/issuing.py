"""What the commands for an issuer's statements share: ledger, options, roles' keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from cardsign.cli.options import STDIO, read_input
from cardsign.cli.signers import read_public, user_access
from cardsign.cli.talk import safe, say
from cardsign.errors import PassphraseFault, StoreFault, UsageFault
from cardsign.files import read_bytes
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PrivateKey, PublicKey
from cardsign.jose.keyset import KeysetStatement, RootKey
from cardsign.jose.members import HOLDER
from cardsign.jose.statements import MAX_STATEMENT_BYTES, StatementRefused
from cardsign.keys.differences import Difference
from cardsign.keys.envelope import MAX_ENVELOPE_BYTES, KeyLabel, open_envelope
from cardsign.keys.ledger import Ledger, read_draft
from cardsign.keys.opening import AnyStore
from cardsign.keys.passphrase import PassphraseSource
from cardsign.keys.records import KeyRecord, Role
from cardsign.keys.statements import Signing, signings

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
