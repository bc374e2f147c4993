"""The profiles: rules that make a payload from a card, each frozen as its SDK applies it."""

from typing import TYPE_CHECKING

from cardsign.facade import lazy_names

if TYPE_CHECKING:
    from cardsign.card.profiles.prune import upgrade as upgrade
    from cardsign.card.profiles.verifiers import VERIFIERS as VERIFIERS
    from cardsign.card.profiles.verifiers import Verifier as Verifier

__getattr__ = lazy_names(__name__)
