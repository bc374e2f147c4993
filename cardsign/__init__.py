"""Sign, publish and verify A2A Agent Cards.

    >>> from cardsign import Holder, JwkSet, Policy, verify_card
    >>> policy = Policy.holder_of_keys(JwkSet.from_bytes(jwks), name="geo")  # doctest: +SKIP
    >>> verify_card(untrusted_bytes, expect=Holder(), policy=policy, now=now)  # doctest: +SKIP

Names not listed in ``__all__`` are internal and may change in any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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
from cardsign.errors import NoVerdict as NoVerdict
from cardsign.errors import SignatureRefused as SignatureRefused
from cardsign.errors import SigningRefused as SigningRefused
from cardsign.jose.assembly import sign_statement as sign_statement
from cardsign.jose.jwks import JwkSet as JwkSet
from cardsign.jose.jws import Signer as Signer
from cardsign.jose.keys import PrivateKey as PrivateKey
from cardsign.jose.keys import PublicKey as PublicKey
from cardsign.jose.keyset import KeysetStatement as KeysetStatement
from cardsign.jose.keyset import draft_keyset as draft_keyset
from cardsign.jose.keyset import read_keyset as read_keyset
from cardsign.jose.release import ReleaseStatement as ReleaseStatement
from cardsign.jose.release import draft_release as draft_release
from cardsign.jose.release import read_release as read_release
from cardsign.jose.statements import TYP_KEYSET as TYP_KEYSET
from cardsign.jose.statements import TYP_RELEASE as TYP_RELEASE
from cardsign.jose.statements import StatementRefused as StatementRefused
from cardsign.jose.succession import RootPin as RootPin
from cardsign.jose.succession import StatementPin as StatementPin
from cardsign.reasons import REASONS as REASONS
from cardsign.reasons import Reason as Reason
from cardsign.sign import Signing as Signing
from cardsign.sign import SigningOptions as SigningOptions
from cardsign.sign import sign_card as sign_card
from cardsign.sign import sign_with_notes as sign_with_notes
from cardsign.trust.anchors import JwksAnchor as JwksAnchor
from cardsign.trust.anchors import KeysAnchor as KeysAnchor
from cardsign.trust.anchors import KeysetAnchor as KeysetAnchor
from cardsign.trust.anchors import TofuAnchor as TofuAnchor
from cardsign.trust.evidence import Evidence as Evidence
from cardsign.trust.known import Known as Known
from cardsign.trust.known import Memory as Memory
from cardsign.trust.known import TransientMemory as TransientMemory
from cardsign.trust.known import WithoutMemory as WithoutMemory
from cardsign.trust.places import Place as Place
from cardsign.trust.places import parse_place as parse_place
from cardsign.trust.policy import Enrolment as Enrolment
from cardsign.trust.policy import Limits as Limits
from cardsign.trust.policy import Policy as Policy
from cardsign.trust.state import DirectoryMemory as DirectoryMemory
from cardsign.trust.subject import AtOrigin as AtOrigin
from cardsign.trust.subject import CardUrl as CardUrl
from cardsign.trust.subject import Extended as Extended
from cardsign.trust.subject import Holder as Holder
from cardsign.trust.subject import Issuer as Issuer
from cardsign.verdict import Answers as Answers
from cardsign.verdict import NotTrusted as NotTrusted
from cardsign.verdict import Report as Report
from cardsign.verdict import SignatureReport as SignatureReport
from cardsign.verify import VerifiedCard as VerifiedCard
from cardsign.verify import examine_card as examine_card
from cardsign.verify import examine_extended as examine_extended
from cardsign.verify import verify_card as verify_card
from cardsign.verify.cache import VerdictCache as VerdictCache

if TYPE_CHECKING:
    from cardsign.explain import explain_card as explain_card
    from cardsign.explain.report import Explanation as Explanation
    from cardsign.net.asker import Asker as Asker
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
    from cardsign.net.wallet import Wallet as Wallet
    from cardsign.trust.policyfile import read_policy as read_policy

_LAZY = {
    "Asker": "cardsign.net.asker",
    "AsyncGuardedTransport": "cardsign.net.guarded",
    "Discoverer": "cardsign.net.discovery",
    "Explanation": "cardsign.explain.report",
    "Ground": "cardsign.net.extended",
    "GuardedTransport": "cardsign.net.guarded",
    "Wallet": "cardsign.net.wallet",
    "Wire": "cardsign.net.fetch",
    "adiscover": "cardsign.net.discovery",
    "discover": "cardsign.net.discovery",
    "endpoints_of": "cardsign.net.endpoints",
    "explain_card": "cardsign.explain",
    "meet_extended": "cardsign.net.extended",
    "read_credentials": "cardsign.net.credentials",
    "read_policy": "cardsign.trust.policyfile",
}

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_PROFILES",
    "FULL_PROFILES",
    "OPT_IN_PROFILES",
    "REASONS",
    "TYP_KEYSET",
    "TYP_RELEASE",
    "Answers",
    "Asker",
    "AsyncGuardedTransport",
    "AtOrigin",
    "CanonicalizationError",
    "Card",
    "CardRefused",
    "CardUrl",
    "CardsignError",
    "DirectoryMemory",
    "Discoverer",
    "Enrolment",
    "Evidence",
    "Explanation",
    "Extended",
    "ExtendedMarker",
    "Ground",
    "GuardedTransport",
    "Holder",
    "InputRefused",
    "Issuer",
    "JsonRefused",
    "JwkSet",
    "JwksAnchor",
    "KeyRefused",
    "KeysAnchor",
    "KeysetAnchor",
    "KeysetStatement",
    "Known",
    "Limits",
    "LocalFault",
    "Memory",
    "NoVerdict",
    "NotTrusted",
    "Payload",
    "Place",
    "Policy",
    "PrivateKey",
    "PublicKey",
    "Reason",
    "ReleaseStatement",
    "Report",
    "RootPin",
    "SignatureRefused",
    "SignatureReport",
    "Signer",
    "Signing",
    "SigningOptions",
    "SigningRefused",
    "StatementPin",
    "StatementRefused",
    "TofuAnchor",
    "TransientMemory",
    "VerdictCache",
    "VerifiedCard",
    "Wallet",
    "Wire",
    "WithoutMemory",
    "__version__",
    "adiscover",
    "canonicalize",
    "discover",
    "draft_keyset",
    "draft_release",
    "endpoints_of",
    "examine_card",
    "examine_extended",
    "explain_card",
    "meet_extended",
    "parse_place",
    "read_credentials",
    "read_keyset",
    "read_policy",
    "read_release",
    "sign_card",
    "sign_statement",
    "sign_with_notes",
    "verify_card",
]


def __getattr__(name: str) -> object:
    """Names that a verdict does not need and whose modules take long: pydantic, an HTTP client."""
    if name not in _LAZY:
        raise AttributeError(f"module 'cardsign' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
