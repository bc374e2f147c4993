"""Keyset and release statements: what an issuer signs about its keys and its cards."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.statements.envelope import MAX_SIGNATURES as MAX_SIGNATURES
    from cardsign.statements.envelope import MAX_STATEMENT_BYTES as MAX_STATEMENT_BYTES
    from cardsign.statements.envelope import TYP_KEYSET as TYP_KEYSET
    from cardsign.statements.envelope import TYP_RELEASE as TYP_RELEASE
    from cardsign.statements.envelope import Counted as Counted
    from cardsign.statements.envelope import Envelope as Envelope
    from cardsign.statements.envelope import StatementRefused as StatementRefused
    from cardsign.statements.envelope import Typ as Typ
    from cardsign.statements.envelope import check_past as check_past
    from cardsign.statements.envelope import check_times as check_times
    from cardsign.statements.envelope import count as count
    from cardsign.statements.envelope import read_envelope as read_envelope
    from cardsign.statements.keyset import IssuerKey as IssuerKey
    from cardsign.statements.keyset import KeysetId as KeysetId
    from cardsign.statements.keyset import KeysetStatement as KeysetStatement
    from cardsign.statements.keyset import OnlineRole as OnlineRole
    from cardsign.statements.keyset import Quorum as Quorum
    from cardsign.statements.keyset import RootAnchor as RootAnchor
    from cardsign.statements.keyset import RootKey as RootKey
    from cardsign.statements.keyset import check_first as check_first
    from cardsign.statements.keyset import check_recovery as check_recovery
    from cardsign.statements.keyset import check_step as check_step
    from cardsign.statements.keyset import check_successor as check_successor
    from cardsign.statements.keyset import read_keyset as read_keyset
    from cardsign.statements.release import ListedCard as ListedCard
    from cardsign.statements.release import ReleaseStatement as ReleaseStatement
    from cardsign.statements.release import check_release as check_release
    from cardsign.statements.release import effective_revoked as effective_revoked
    from cardsign.statements.release import read_release as read_release
    from cardsign.statements.signing import add_signatures as add_signatures
    from cardsign.statements.signing import sign_statement as sign_statement

__getattr__ = lazy_names(__name__)
