"""Sign, publish and verify A2A Agent Cards.

    >>> import cardsign
    >>> card = cardsign.verify_card(data, jwks=jwks)  # doctest: +SKIP
    >>> card["skills"][0]["id"]  # doctest: +SKIP

These are the names that most programs need; the others are in the rooms, such as
:mod:`cardsign.trust`. Names that no ``__all__`` lists are internal and may change in any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cardsign.api import adiscover as adiscover
    from cardsign.api import build_card as build_card
    from cardsign.api import discover as discover
    from cardsign.api import examine_card as examine_card
    from cardsign.api import inspect_card as inspect_card
    from cardsign.api import lint_card as lint_card
    from cardsign.api import sign_card as sign_card
    from cardsign.api import verify_card as verify_card
    from cardsign.card.profiles import ProfileName as ProfileName
    from cardsign.card.profiles import canonicalize as canonicalize
    from cardsign.diff import diff_cards as diff_cards
    from cardsign.errors import CardRefused as CardRefused
    from cardsign.errors import CardsignError as CardsignError
    from cardsign.errors import FetchFailed as FetchFailed
    from cardsign.errors import InputRefused as InputRefused
    from cardsign.errors import KeyRefused as KeyRefused
    from cardsign.errors import LocalFault as LocalFault
    from cardsign.findings import Finding as Finding
    from cardsign.findings import describe_code as describe_code
    from cardsign.jose.jws import Signer as Signer
    from cardsign.jose.keys import JwkSet as JwkSet
    from cardsign.jose.keys import PrivateKey as PrivateKey
    from cardsign.jose.keys import PublicKey as PublicKey
    from cardsign.keys.signers import open_signer as open_signer
    from cardsign.trust.policy import Policy as Policy
    from cardsign.verify.report import NotTrusted as NotTrusted
    from cardsign.verify.report import NoVerdict as NoVerdict
    from cardsign.verify.report import Report as Report
    from cardsign.verify.report import VerificationError as VerificationError
    from cardsign.verify.report import VerifiedCard as VerifiedCard
    from cardsign.verify.verifier import Verifier as Verifier

#: The names of each module, which is loaded when a name is asked for (PEP 562).
_NAMES: Final = {
    "cardsign.api": "adiscover build_card discover examine_card inspect_card lint_card sign_card "
    "verify_card",
    "cardsign.card.profiles": "ProfileName canonicalize",
    "cardsign.diff": "diff_cards",
    "cardsign.errors": "CardRefused CardsignError FetchFailed InputRefused KeyRefused LocalFault",
    "cardsign.findings": "Finding describe_code",
    "cardsign.jose.jws": "Signer",
    "cardsign.jose.keys": "JwkSet PrivateKey PublicKey",
    "cardsign.keys.signers": "open_signer",
    "cardsign.trust.policy": "Policy",
    "cardsign.verify.report": "NoVerdict NotTrusted Report VerificationError VerifiedCard",
    "cardsign.verify.verifier": "Verifier",
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


__version__ = "1.0.0rc1"
