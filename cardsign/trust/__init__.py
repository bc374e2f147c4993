"""The verifier's side: policy, remembered issuer state, and who may speak for an issuer now."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.trust.disk import LOCK_FORMAT as LOCK_FORMAT
    from cardsign.trust.disk import PolicyFile as PolicyFile
    from cardsign.trust.disk import editing as editing
    from cardsign.trust.disk import find_policy as find_policy
    from cardsign.trust.disk import floor_to_json as floor_to_json
    from cardsign.trust.disk import identity_of as identity_of
    from cardsign.trust.disk import lock_of as lock_of
    from cardsign.trust.disk import raise_floors as raise_floors
    from cardsign.trust.disk import read_lock as read_lock
    from cardsign.trust.disk import read_policy as read_policy
    from cardsign.trust.disk import remove_floor as remove_floor
    from cardsign.trust.enroll import Proposal as Proposal
    from cardsign.trust.enroll import add_issuers as add_issuers
    from cardsign.trust.enroll import begin_states as begin_states
    from cardsign.trust.enroll import move_pin as move_pin
    from cardsign.trust.enroll import propose_jwks_url as propose_jwks_url
    from cardsign.trust.enroll import propose_keys as propose_keys
    from cardsign.trust.enroll import propose_keyset as propose_keyset
    from cardsign.trust.enroll import propose_published as propose_published
    from cardsign.trust.enroll import remove_issuer as remove_issuer
    from cardsign.trust.keyset_choice import Chosen as Chosen
    from cardsign.trust.keyset_choice import Walk as Walk
    from cardsign.trust.keyset_choice import choose_release as choose_release
    from cardsign.trust.keyset_choice import receive as receive
    from cardsign.trust.policy import ACCEPTED as ACCEPTED
    from cardsign.trust.policy import MAX_CARDS as MAX_CARDS
    from cardsign.trust.policy import MAX_SKEW as MAX_SKEW
    from cardsign.trust.policy import Accept as Accept
    from cardsign.trust.policy import Anchor as Anchor
    from cardsign.trust.policy import AtOrigin as AtOrigin
    from cardsign.trust.policy import CardUrl as CardUrl
    from cardsign.trust.policy import Expectation as Expectation
    from cardsign.trust.policy import Extended as Extended
    from cardsign.trust.policy import Holder as Holder
    from cardsign.trust.policy import Issuer as Issuer
    from cardsign.trust.policy import JwksAnchor as JwksAnchor
    from cardsign.trust.policy import KeysAnchor as KeysAnchor
    from cardsign.trust.policy import KeysetAnchor as KeysetAnchor
    from cardsign.trust.policy import Limits as Limits
    from cardsign.trust.policy import Policy as Policy
    from cardsign.trust.policy import PublicSubject as PublicSubject
    from cardsign.trust.policy import ReleaseFloor as ReleaseFloor
    from cardsign.trust.policy import RollbackFloor as RollbackFloor
    from cardsign.trust.policy import TrustedIssuer as TrustedIssuer
    from cardsign.trust.policy import raise_floor as raise_floor
    from cardsign.trust.policyfile import parse_policy as parse_policy
    from cardsign.trust.policytext import Lines as Lines
    from cardsign.trust.refresh import REFRESH_INTERVAL as REFRESH_INTERVAL
    from cardsign.trust.refresh import Fetcher as Fetcher
    from cardsign.trust.refresh import FetchResult as FetchResult
    from cardsign.trust.refresh import Refreshed as Refreshed
    from cardsign.trust.refresh import refresh_issuer as refresh_issuer
    from cardsign.trust.resolve import KEYSET_NOTICE as KEYSET_NOTICE
    from cardsign.trust.resolve import IssuerTrust as IssuerTrust
    from cardsign.trust.resolve import Weight as Weight
    from cardsign.trust.resolve import end_of as end_of
    from cardsign.trust.resolve import resolve_issuer as resolve_issuer
    from cardsign.trust.resolve import resolve_remembered as resolve_remembered
    from cardsign.trust.state import MAX_PASSED as MAX_PASSED
    from cardsign.trust.state import NO_STATES as NO_STATES
    from cardsign.trust.state import DirectoryStates as DirectoryStates
    from cardsign.trust.state import IssuerState as IssuerState
    from cardsign.trust.state import IssuerStates as IssuerStates
    from cardsign.trust.state import TransientStates as TransientStates
    from cardsign.trust.state import read_state as read_state
    from cardsign.trust.state import rollback_floor as rollback_floor
    from cardsign.trust.state import state_bytes as state_bytes
    from cardsign.trust.supplied import MAX_CHAIN_BYTES as MAX_CHAIN_BYTES
    from cardsign.trust.supplied import MAX_STEPS as MAX_STEPS
    from cardsign.trust.supplied import NO_STATEMENTS as NO_STATEMENTS
    from cardsign.trust.supplied import SuppliedStatements as SuppliedStatements
    from cardsign.trust.supplied import read_statements as read_statements

__getattr__ = lazy_names(__name__)
