"""Sign, publish and verify A2A Agent Cards.

    >>> import cardsign
    >>> card = cardsign.verify_card(data, jwks=jwks)  # doctest: +SKIP
    >>> card["skills"][0]["id"]  # doctest: +SKIP

These are the names that most programs need; the others are in the rooms, such as
:mod:`cardsign.trust`. Names that no ``__all__`` lists are internal and may change in any release.
"""

import logging
from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.api import adiscover as adiscover
    from cardsign.api import build_card as build_card
    from cardsign.api import discover as discover
    from cardsign.api import examine_card as examine_card
    from cardsign.api import explain_card as explain_card
    from cardsign.api import lint_card as lint_card
    from cardsign.api import sign_card as sign_card
    from cardsign.api import verify_card as verify_card
    from cardsign.card.canonical import ProfileName as ProfileName
    from cardsign.card.canonical import canonicalize as canonicalize
    from cardsign.card.schema import AgentCard as AgentCard
    from cardsign.errors import CardRefused as CardRefused
    from cardsign.errors import CardsignError as CardsignError
    from cardsign.errors import FetchFailed as FetchFailed
    from cardsign.errors import InputRefused as InputRefused
    from cardsign.errors import KeyRefused as KeyRefused
    from cardsign.errors import LocalFault as LocalFault
    from cardsign.jose.jwks import JwkSet as JwkSet
    from cardsign.jose.jws import Signer as Signer
    from cardsign.jose.keys import PrivateKey as PrivateKey
    from cardsign.jose.keys import PublicKey as PublicKey
    from cardsign.keys.signers.registry import open_signer as open_signer
    from cardsign.lint.rules import Finding as Finding
    from cardsign.net.discovery import Discoverer as Discoverer
    from cardsign.reasons import REASONS as REASONS
    from cardsign.reasons import Reason as Reason
    from cardsign.trust.policy import Policy as Policy
    from cardsign.trust.state import IssuerStates as IssuerStates
    from cardsign.verify.report import NotTrusted as NotTrusted
    from cardsign.verify.report import NoVerdict as NoVerdict
    from cardsign.verify.report import Report as Report
    from cardsign.verify.report import VerificationError as VerificationError
    from cardsign.verify.report import VerifiedCard as VerifiedCard

__version__ = "1.0.0rc1"
__getattr__ = lazy_names(__name__)

# Quiet, unless the program that uses the package listens.
logging.getLogger(__name__).addHandler(logging.NullHandler())
