"""The issuer's side: key stores, the lifecycle of keys, and what is drafted from them."""

from typing import TYPE_CHECKING

from cardsign.facade import lazy_names

if TYPE_CHECKING:
    from cardsign.keys.audit import AuditEvent as AuditEvent
    from cardsign.keys.audit import AuditLine as AuditLine
    from cardsign.keys.audit import check_vouched as check_vouched
    from cardsign.keys.audit import check_witnessed as check_witnessed
    from cardsign.keys.audit import extend as extend
    from cardsign.keys.audit import verify_chain as verify_chain
    from cardsign.keys.backup import MAX_BACKUP_BYTES as MAX_BACKUP_BYTES
    from cardsign.keys.backup import decrypt as decrypt
    from cardsign.keys.backup import encrypt as encrypt
    from cardsign.keys.backup import pack as pack
    from cardsign.keys.backup import restore as restore
    from cardsign.keys.backup import unpack as unpack
    from cardsign.keys.doctor import Examined as Examined
    from cardsign.keys.doctor import Finding as Finding
    from cardsign.keys.doctor import coming_findings as coming_findings
    from cardsign.keys.doctor import examine_store as examine_store
    from cardsign.keys.envelope import DEFAULT_COST as DEFAULT_COST
    from cardsign.keys.envelope import MAX_ENVELOPE_BYTES as MAX_ENVELOPE_BYTES
    from cardsign.keys.envelope import MAX_KDF_MEMORY as MAX_KDF_MEMORY
    from cardsign.keys.envelope import MIN_WRITTEN_N as MIN_WRITTEN_N
    from cardsign.keys.envelope import KeyLabel as KeyLabel
    from cardsign.keys.envelope import ScryptCost as ScryptCost
    from cardsign.keys.envelope import UnsafeScryptCost as UnsafeScryptCost
    from cardsign.keys.envelope import open_envelope as open_envelope
    from cardsign.keys.envelope import seal as seal
    from cardsign.keys.heads import SeenHeads as SeenHeads
    from cardsign.keys.heads import UserHeads as UserHeads
    from cardsign.keys.history import StatementFiles as StatementFiles
    from cardsign.keys.history import StatementHistory as StatementHistory
    from cardsign.keys.history import check_signed as check_signed
    from cardsign.keys.history import note_keyset as note_keyset
    from cardsign.keys.history import note_release as note_release
    from cardsign.keys.history import read_draft as read_draft
    from cardsign.keys.history import write_draft as write_draft
    from cardsign.keys.keysets import KEY_LIFETIME as KEY_LIFETIME
    from cardsign.keys.keysets import Difference as Difference
    from cardsign.keys.keysets import KeysetPlan as KeysetPlan
    from cardsign.keys.keysets import QuorumSignatures as QuorumSignatures
    from cardsign.keys.keysets import check_draft as check_draft
    from cardsign.keys.keysets import check_not_needed as check_not_needed
    from cardsign.keys.keysets import check_step as check_step
    from cardsign.keys.keysets import draft_next as draft_next
    from cardsign.keys.keysets import draft_recovery as draft_recovery
    from cardsign.keys.keysets import quorum_signatures as quorum_signatures
    from cardsign.keys.lifecycle import DEFAULT_SETTINGS as DEFAULT_SETTINGS
    from cardsign.keys.lifecycle import SHOWN_TIME as SHOWN_TIME
    from cardsign.keys.lifecycle import Change as Change
    from cardsign.keys.lifecycle import TimelineSettings as TimelineSettings
    from cardsign.keys.lifecycle import Waiting as Waiting
    from cardsign.keys.lifecycle import cards_to_sign as cards_to_sign
    from cardsign.keys.lifecycle import record_publication as record_publication
    from cardsign.keys.lifecycle import standby_of as standby_of
    from cardsign.keys.model import ENDED as ENDED
    from cardsign.keys.model import MAX_PUBLICATIONS as MAX_PUBLICATIONS
    from cardsign.keys.model import PUBLISHED as PUBLISHED
    from cardsign.keys.model import REVOCATION_REASONS as REVOCATION_REASONS
    from cardsign.keys.model import ROLES as ROLES
    from cardsign.keys.model import TRANSITIONS as TRANSITIONS
    from cardsign.keys.model import AuditHead as AuditHead
    from cardsign.keys.model import KeyRecord as KeyRecord
    from cardsign.keys.model import KeyTimes as KeyTimes
    from cardsign.keys.model import Publication as Publication
    from cardsign.keys.model import PublishedCard as PublishedCard
    from cardsign.keys.model import RevocationReason as RevocationReason
    from cardsign.keys.model import Role as Role
    from cardsign.keys.model import StoreState as StoreState
    from cardsign.keys.model import check_transition as check_transition
    from cardsign.keys.model import dump_state as dump_state
    from cardsign.keys.model import file_custody as file_custody
    from cardsign.keys.model import load_state as load_state
    from cardsign.keys.model import same_custody as same_custody
    from cardsign.keys.passphrase import MAX_FILE_BYTES as MAX_FILE_BYTES
    from cardsign.keys.passphrase import VARIABLE as VARIABLE
    from cardsign.keys.passphrase import PassphraseSource as PassphraseSource
    from cardsign.keys.passphrase import check_strength as check_strength
    from cardsign.keys.passphrase import new_passphrase as new_passphrase
    from cardsign.keys.passphrase import read_passphrase as read_passphrase
    from cardsign.keys.passphrase import terminal_prompt as terminal_prompt
    from cardsign.keys.releases import SKEW as SKEW
    from cardsign.keys.releases import ReleasePlan as ReleasePlan
    from cardsign.keys.releases import card_digest as card_digest
    from cardsign.keys.releases import draft_following as draft_following
    from cardsign.keys.releases import is_early as is_early
    from cardsign.keys.releases import past_half_life as past_half_life
    from cardsign.keys.releases import settled_cards as settled_cards
    from cardsign.keys.renewal import DRAFT_FILE as DRAFT_FILE
    from cardsign.keys.renewal import Renewal as Renewal
    from cardsign.keys.renewal import next_draft as next_draft
    from cardsign.keys.renewal import plan_renewal as plan_renewal
    from cardsign.keys.renewal import says_more as says_more
    from cardsign.keys.rotation import Step as Step
    from cardsign.keys.rotation import next_change as next_change
    from cardsign.keys.rotation import refresh_hint as refresh_hint
    from cardsign.keys.rotation import steps as steps
    from cardsign.keys.rotation import take as take
    from cardsign.keys.timeline import Phase as Phase
    from cardsign.keys.timeline import Span as Span
    from cardsign.keys.timeline import TimelineRow as TimelineRow
    from cardsign.keys.timeline import extent as extent
    from cardsign.keys.timeline import key_rows as key_rows
    from cardsign.keys.timeline import statement_rows as statement_rows
    from cardsign.keys.transfer import MAX_KEY_FILE_BYTES as MAX_KEY_FILE_BYTES
    from cardsign.keys.transfer import export_private as export_private
    from cardsign.keys.transfer import export_public as export_public
    from cardsign.keys.transfer import import_private_key as import_private_key
    from cardsign.keys.transfer import import_public_key as import_public_key

_NAMES = {
    "audit": "AuditEvent AuditLine check_vouched check_witnessed extend verify_chain",
    "backup": "MAX_BACKUP_BYTES decrypt encrypt pack restore unpack",
    "doctor": "Examined Finding coming_findings examine_store",
    "envelope": (
        "DEFAULT_COST KeyLabel MAX_ENVELOPE_BYTES MAX_KDF_MEMORY MIN_WRITTEN_N ScryptCost "
        "UnsafeScryptCost open_envelope seal"
    ),
    "heads": "SeenHeads UserHeads",
    "history": (
        "StatementFiles StatementHistory check_signed note_keyset note_release read_draft "
        "write_draft"
    ),
    "keysets": (
        "Difference KEY_LIFETIME KeysetPlan QuorumSignatures check_draft check_not_needed "
        "check_step draft_next draft_recovery quorum_signatures"
    ),
    "lifecycle": (
        "Change DEFAULT_SETTINGS SHOWN_TIME TimelineSettings Waiting cards_to_sign "
        "record_publication standby_of"
    ),
    "model": (
        "AuditHead ENDED KeyRecord KeyTimes MAX_PUBLICATIONS PUBLISHED Publication "
        "PublishedCard REVOCATION_REASONS ROLES RevocationReason Role StoreState TRANSITIONS "
        "check_transition dump_state file_custody load_state same_custody"
    ),
    "passphrase": (
        "MAX_FILE_BYTES PassphraseSource VARIABLE check_strength new_passphrase read_passphrase "
        "terminal_prompt"
    ),
    "releases": (
        "ReleasePlan SKEW card_digest draft_following is_early past_half_life settled_cards"
    ),
    "renewal": "DRAFT_FILE Renewal next_draft plan_renewal says_more",
    "rotation": "Step next_change refresh_hint steps take",
    "timeline": "Phase Span TimelineRow extent key_rows statement_rows",
    "transfer": (
        "MAX_KEY_FILE_BYTES export_private export_public import_private_key import_public_key"
    ),
}
__all__, __getattr__ = lazy_names(__name__, _NAMES)
