"""Explanation: what a card's signatures cover, and why one does not fit. It gives no verdict."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.explain.explanation import MAX_LISTED as MAX_LISTED
    from cardsign.explain.explanation import MAX_PARTINGS as MAX_PARTINGS
    from cardsign.explain.explanation import explain_card as explain_card
    from cardsign.explain.page import Published as Published
    from cardsign.explain.page import card_page as card_page
    from cardsign.explain.repairs import MAX_CHANGES as MAX_CHANGES
    from cardsign.explain.repairs import Suspect as Suspect
    from cardsign.explain.repairs import differences as differences
    from cardsign.explain.repairs import search as search
    from cardsign.explain.report import Edit as Edit
    from cardsign.explain.report import Explanation as Explanation
    from cardsign.explain.report import HeldAt as HeldAt
    from cardsign.explain.report import Parting as Parting
    from cardsign.explain.report import Problem as Problem
    from cardsign.explain.report import ProfilePayload as ProfilePayload
    from cardsign.explain.report import SignatureExplanation as SignatureExplanation
    from cardsign.explain.report import Signed as Signed

__getattr__ = lazy_names(__name__)
