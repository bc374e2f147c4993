"""The profiles: rules that make a payload from a card, each frozen as its SDK applies it."""

from typing import TYPE_CHECKING

from cardsign.facade import lazy_names

if TYPE_CHECKING:
    from cardsign.card.profiles.js_instance import as_js_client as as_js_client
    from cardsign.card.profiles.prune import prune_empty as prune_empty
    from cardsign.card.profiles.prune import upgrade as upgrade
    from cardsign.card.profiles.sdk03 import as_sdk_0_3 as as_sdk_0_3

_NAMES = {
    "cardsign.card.profiles.js_instance": ("as_js_client",),
    "cardsign.card.profiles.prune": (
        "prune_empty",
        "upgrade",
    ),
    "cardsign.card.profiles.sdk03": ("as_sdk_0_3",),
}
__all__, __getattr__ = lazy_names(__name__, _NAMES)
