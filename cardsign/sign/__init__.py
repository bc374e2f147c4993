"""Signing: one card in, the same card with our signatures out."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.sign.notes import SignedPayload as SignedPayload
    from cardsign.sign.plan import COMPAT as COMPAT
    from cardsign.sign.plan import is_safe as is_safe
    from cardsign.sign.signing import SignedCard as SignedCard
    from cardsign.sign.signing import SigningOptions as SigningOptions
    from cardsign.sign.signing import self_check as self_check
    from cardsign.sign.signing import sign_document as sign_document
    from cardsign.sign.signing import sign_with_notes as sign_with_notes

__getattr__ = lazy_names(__name__)
