"""Sign, publish and verify A2A Agent Cards.

    >>> from cardsign import Holder, JwkSet, Policy, verify_card
    >>> policy = Policy.holder_of_keys(JwkSet.from_bytes(jwks), name="geo")  # doctest: +SKIP
    >>> verify_card(untrusted_bytes, expect=Holder(), policy=policy, now=now)  # doctest: +SKIP

Names not listed in ``__all__`` are internal and may change in any release.
"""

from typing import TYPE_CHECKING

from cardsign.facade import lazy_names

if TYPE_CHECKING:
    from cardsign.card.canonical import DEFAULT_PROFILES as DEFAULT_PROFILES
    from cardsign.card.canonical import FULL_PROFILES as FULL_PROFILES
    from cardsign.card.canonical import OPT_IN_PROFILES as OPT_IN_PROFILES
    from cardsign.card.canonical import Payload as Payload
    from cardsign.card.canonical import canonicalize as canonicalize
    from cardsign.card.document import Card as Card
    from cardsign.card.extended import ExtendedMarker as ExtendedMarker
    from cardsign.errors import CanonicalizationError as CanonicalizationError
    from cardsign.errors import CardRefused as CardRefused
    from cardsign.errors import CardsignError as CardsignError
    from cardsign.errors import InputRefused as InputRefused
    from cardsign.errors import JsonRefused as JsonRefused
    from cardsign.errors import KeyRefused as KeyRefused
    from cardsign.errors import LocalFault as LocalFault
    from cardsign.errors import SignatureRefused as SignatureRefused
    from cardsign.errors import SigningRefused as SigningRefused
    from cardsign.explain.explanation import explain_card as explain_card
    from cardsign.explain.report import Explanation as Explanation
    from cardsign.jose.jwks import JwkSet as JwkSet
    from cardsign.jose.jws import Signer as Signer
    from cardsign.jose.keys import PrivateKey as PrivateKey
    from cardsign.jose.keys import PublicKey as PublicKey
    from cardsign.keys.signers.registry import open_signer as open_signer
    from cardsign.net.asker import Asker as Asker
    from cardsign.net.credentials import CredentialStore as CredentialStore
    from cardsign.net.credentials import read_credentials as read_credentials
    from cardsign.net.discovery import Discoverer as Discoverer
    from cardsign.net.discovery import adiscover as adiscover
    from cardsign.net.discovery import discover as discover
    from cardsign.net.endpoints import endpoints_of as endpoints_of
    from cardsign.net.extended import Ground as Ground
    from cardsign.net.extended import meet_extended as meet_extended
    from cardsign.net.fetch import Wire as Wire
    from cardsign.net.guarded import AsyncGuardedTransport as AsyncGuardedTransport
    from cardsign.net.guarded import GuardedTransport as GuardedTransport
    from cardsign.reasons import REASONS as REASONS
    from cardsign.reasons import Reason as Reason
    from cardsign.sign import SignedCard as SignedCard
    from cardsign.sign import SigningOptions as SigningOptions
    from cardsign.sign import sign_card as sign_card
    from cardsign.sign import sign_with_notes as sign_with_notes
    from cardsign.statements.envelope import TYP_KEYSET as TYP_KEYSET
    from cardsign.statements.envelope import TYP_RELEASE as TYP_RELEASE
    from cardsign.statements.envelope import StatementRefused as StatementRefused
    from cardsign.statements.keyset import KeysetId as KeysetId
    from cardsign.statements.keyset import KeysetStatement as KeysetStatement
    from cardsign.statements.keyset import draft_keyset as draft_keyset
    from cardsign.statements.keyset import read_keyset as read_keyset
    from cardsign.statements.release import ReleaseStatement as ReleaseStatement
    from cardsign.statements.release import draft_release as draft_release
    from cardsign.statements.release import read_release as read_release
    from cardsign.statements.signing import sign_statement as sign_statement
    from cardsign.statements.succession import RootPin as RootPin
    from cardsign.trust.policy import AtOrigin as AtOrigin
    from cardsign.trust.policy import CardUrl as CardUrl
    from cardsign.trust.policy import Enrolment as Enrolment
    from cardsign.trust.policy import Extended as Extended
    from cardsign.trust.policy import Holder as Holder
    from cardsign.trust.policy import Issuer as Issuer
    from cardsign.trust.policy import JwksAnchor as JwksAnchor
    from cardsign.trust.policy import KeysAnchor as KeysAnchor
    from cardsign.trust.policy import KeysetAnchor as KeysetAnchor
    from cardsign.trust.policy import Limits as Limits
    from cardsign.trust.policy import Policy as Policy
    from cardsign.trust.policy import TofuAnchor as TofuAnchor
    from cardsign.trust.policyfile import read_policy as read_policy
    from cardsign.trust.state import DirectoryStates as DirectoryStates
    from cardsign.trust.state import IssuerState as IssuerState
    from cardsign.trust.state import IssuerStates as IssuerStates
    from cardsign.trust.state import NoStates as NoStates
    from cardsign.trust.state import TransientStates as TransientStates
    from cardsign.trust.statements import Evidence as Evidence
    from cardsign.urls import Place as Place
    from cardsign.urls import parse_place as parse_place
    from cardsign.verify.cache import VerdictCache as VerdictCache
    from cardsign.verify.extended import examine_extended as examine_extended
    from cardsign.verify.report import Answers as Answers
    from cardsign.verify.report import NotTrusted as NotTrusted
    from cardsign.verify.report import NoVerdict as NoVerdict
    from cardsign.verify.report import Report as Report
    from cardsign.verify.report import SignatureReport as SignatureReport
    from cardsign.verify.report import VerificationError as VerificationError
    from cardsign.verify.report import VerifiedCard as VerifiedCard
    from cardsign.verify.verdict import examine_card as examine_card
    from cardsign.verify.verdict import verify_card as verify_card

__version__ = "0.1.0"

_NAMES = {
    "card.canonical": "DEFAULT_PROFILES FULL_PROFILES OPT_IN_PROFILES Payload canonicalize",
    "card.document": "Card",
    "card.extended": "ExtendedMarker",
    "errors": (
        "CanonicalizationError CardRefused CardsignError InputRefused JsonRefused KeyRefused "
        "LocalFault SignatureRefused SigningRefused"
    ),
    "explain.explanation": "explain_card",
    "explain.report": "Explanation",
    "jose.jwks": "JwkSet",
    "jose.jws": "Signer",
    "jose.keys": "PrivateKey PublicKey",
    "keys.signers.registry": "open_signer",
    "net.asker": "Asker",
    "net.credentials": "CredentialStore read_credentials",
    "net.discovery": "Discoverer adiscover discover",
    "net.endpoints": "endpoints_of",
    "net.extended": "Ground meet_extended",
    "net.fetch": "Wire",
    "net.guarded": "AsyncGuardedTransport GuardedTransport",
    "reasons": "REASONS Reason",
    "sign": "SignedCard SigningOptions sign_card sign_with_notes",
    "statements.envelope": "StatementRefused TYP_KEYSET TYP_RELEASE",
    "statements.keyset": "KeysetId KeysetStatement draft_keyset read_keyset",
    "statements.release": "ReleaseStatement draft_release read_release",
    "statements.signing": "sign_statement",
    "statements.succession": "RootPin",
    "trust.policy": (
        "AtOrigin CardUrl Enrolment Extended Holder Issuer JwksAnchor KeysAnchor KeysetAnchor "
        "Limits Policy TofuAnchor"
    ),
    "trust.policyfile": "read_policy",
    "trust.state": "DirectoryStates IssuerState IssuerStates NoStates TransientStates",
    "trust.statements": "Evidence",
    "urls": "Place parse_place",
    "verify.cache": "VerdictCache",
    "verify.extended": "examine_extended",
    "verify.report": (
        "Answers NoVerdict NotTrusted Report SignatureReport VerificationError VerifiedCard"
    ),
    "verify.verdict": "examine_card verify_card",
}
__all__, __getattr__ = lazy_names(__name__, _NAMES)
__all__ += ["__version__"]
