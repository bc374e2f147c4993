"""Sign, publish and verify A2A Agent Cards.

    >>> from cardsign import Holder, JwkSet, Policy, verify_card
    >>> policy = Policy.holder_of_keys(JwkSet.from_bytes(jwks), name="geo")  # doctest: +SKIP
    >>> verify_card(untrusted_bytes, expect=Holder(), policy=policy, now=now)  # doctest: +SKIP

Names not listed in ``__all__`` are internal and may change in any release.
"""

from cardsign.card.canonical import DEFAULT_PROFILES as DEFAULT_PROFILES
from cardsign.card.canonical import FULL_PROFILES as FULL_PROFILES
from cardsign.card.canonical import OPT_IN_PROFILES as OPT_IN_PROFILES
from cardsign.card.canonical import Payload as Payload
from cardsign.card.canonical import canonicalize as canonicalize
from cardsign.card.document import Card as Card
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
from cardsign.explain import explain_card as explain_card
from cardsign.explain.report import Explanation as Explanation
from cardsign.jose.jwks import JwkSet as JwkSet
from cardsign.jose.jws import Signer as Signer
from cardsign.jose.keys import PrivateKey as PrivateKey
from cardsign.jose.keys import PublicKey as PublicKey
from cardsign.reasons import REASONS as REASONS
from cardsign.reasons import Reason as Reason
from cardsign.sign import Signing as Signing
from cardsign.sign import SigningOptions as SigningOptions
from cardsign.sign import sign_card as sign_card
from cardsign.sign import sign_with_notes as sign_with_notes
from cardsign.trust.policy import Enrolment as Enrolment
from cardsign.trust.policy import Policy as Policy
from cardsign.trust.subject import AtOrigin as AtOrigin
from cardsign.trust.subject import CardUrl as CardUrl
from cardsign.trust.subject import Holder as Holder
from cardsign.trust.subject import Issuer as Issuer
from cardsign.verdict import Answers as Answers
from cardsign.verdict import NotTrusted as NotTrusted
from cardsign.verdict import Report as Report
from cardsign.verdict import SignatureReport as SignatureReport
from cardsign.verify import VerifiedCard as VerifiedCard
from cardsign.verify import examine_card as examine_card
from cardsign.verify import verify_card as verify_card

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_PROFILES",
    "FULL_PROFILES",
    "OPT_IN_PROFILES",
    "REASONS",
    "Answers",
    "AtOrigin",
    "CanonicalizationError",
    "Card",
    "CardRefused",
    "CardUrl",
    "CardsignError",
    "Enrolment",
    "Explanation",
    "Holder",
    "InputRefused",
    "Issuer",
    "JsonRefused",
    "JwkSet",
    "KeyRefused",
    "LocalFault",
    "NoVerdict",
    "NotTrusted",
    "Payload",
    "Policy",
    "PrivateKey",
    "PublicKey",
    "Reason",
    "Report",
    "SignatureRefused",
    "SignatureReport",
    "Signer",
    "Signing",
    "SigningOptions",
    "SigningRefused",
    "VerifiedCard",
    "__version__",
    "canonicalize",
    "examine_card",
    "explain_card",
    "sign_card",
    "sign_with_notes",
    "verify_card",
]
