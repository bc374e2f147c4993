"""The issuer's side: key stores, the lifecycle of keys, and what is drafted from them."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.keys.audit import AuditEvent as AuditEvent
    from cardsign.keys.audit import SeenHeads as SeenHeads
    from cardsign.keys.audit import check_vouched as check_vouched
    from cardsign.keys.audit import extend as extend
    from cardsign.keys.audit import verify_chain as verify_chain
    from cardsign.keys.doctor import Concern as Concern
    from cardsign.keys.doctor import Examined as Examined
    from cardsign.keys.doctor import coming_findings as coming_findings
    from cardsign.keys.doctor import examine_store as examine_store
    from cardsign.keys.drafts import DRAFT_FILE as DRAFT_FILE
    from cardsign.keys.drafts import KeysetPlan as KeysetPlan
    from cardsign.keys.drafts import ReleasePlan as ReleasePlan
    from cardsign.keys.drafts import card_digest as card_digest
    from cardsign.keys.drafts import check_draft as check_draft
    from cardsign.keys.drafts import draft_following as draft_following
    from cardsign.keys.drafts import draft_if_due as draft_if_due
    from cardsign.keys.drafts import draft_next as draft_next
    from cardsign.keys.drafts import keyset_due as keyset_due
    from cardsign.keys.drafts import quorum_signatures as quorum_signatures
    from cardsign.keys.drafts import read_draft as read_draft
    from cardsign.keys.drafts import says_more as says_more
    from cardsign.keys.drafts import settled_cards as settled_cards
    from cardsign.keys.drafts import write_draft as write_draft
    from cardsign.keys.history import StatementHistory as StatementHistory
    from cardsign.keys.history import has_ended as has_ended
    from cardsign.keys.history import note_keyset as note_keyset
    from cardsign.keys.history import note_release as note_release
    from cardsign.keys.key_files import DEFAULT_COST as DEFAULT_COST
    from cardsign.keys.key_files import MAX_ENVELOPE_BYTES as MAX_ENVELOPE_BYTES
    from cardsign.keys.key_files import MAX_KDF_MEMORY as MAX_KDF_MEMORY
    from cardsign.keys.key_files import MAX_KEY_FILE_BYTES as MAX_KEY_FILE_BYTES
    from cardsign.keys.key_files import ScryptCost as ScryptCost
    from cardsign.keys.key_files import export_private as export_private
    from cardsign.keys.key_files import export_public as export_public
    from cardsign.keys.key_files import import_private_key as import_private_key
    from cardsign.keys.key_files import import_public_key as import_public_key
    from cardsign.keys.key_files import open_envelope as open_envelope
    from cardsign.keys.key_files import seal as seal
    from cardsign.keys.lifecycle import DEFAULT_SETTINGS as DEFAULT_SETTINGS
    from cardsign.keys.lifecycle import NewState as NewState
    from cardsign.keys.lifecycle import TimelineSettings as TimelineSettings
    from cardsign.keys.lifecycle import Waiting as Waiting
    from cardsign.keys.lifecycle import cards_to_sign as cards_to_sign
    from cardsign.keys.lifecycle import record_publication as record_publication
    from cardsign.keys.model import MAX_PUBLICATIONS as MAX_PUBLICATIONS
    from cardsign.keys.model import PUBLISHED as PUBLISHED
    from cardsign.keys.model import TRANSITIONS as TRANSITIONS
    from cardsign.keys.model import AuditHead as AuditHead
    from cardsign.keys.model import KeyRecord as KeyRecord
    from cardsign.keys.model import KeyTimes as KeyTimes
    from cardsign.keys.model import Publication as Publication
    from cardsign.keys.model import PublishedCard as PublishedCard
    from cardsign.keys.model import Role as Role
    from cardsign.keys.model import StoreState as StoreState
    from cardsign.keys.model import check_transition as check_transition
    from cardsign.keys.model import dump_state as dump_state
    from cardsign.keys.model import file_custody as file_custody
    from cardsign.keys.model import load_state as load_state
    from cardsign.keys.rotation import Step as Step
    from cardsign.keys.rotation import steps as steps
    from cardsign.keys.rotation import take as take
    from cardsign.keys.signers.access import MAX_FILE_BYTES as MAX_FILE_BYTES
    from cardsign.keys.signers.access import PassphraseSource as PassphraseSource
    from cardsign.keys.signers.access import check_strength as check_strength
    from cardsign.keys.signers.access import new_passphrase as new_passphrase
    from cardsign.keys.signers.access import read_passphrase as read_passphrase
    from cardsign.keys.signers.access import terminal_prompt as terminal_prompt
    from cardsign.keys.stores.opening import move_store as move_store

__getattr__ = lazy_names(__name__)
