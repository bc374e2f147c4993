"""Other people's SDKs, each behind an extra; nothing here is imported by the rest."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.integrations.a2a_sdk import CardNotTrusted as CardNotTrusted
    from cardsign.integrations.a2a_sdk import CardSigner as CardSigner
    from cardsign.integrations.a2a_sdk import TrustedCardResolver as TrustedCardResolver
    from cardsign.integrations.a2a_sdk import signature_verifier as signature_verifier
    from cardsign.integrations.calling import Reply as Reply
    from cardsign.integrations.calling import ask_task as ask_task
    from cardsign.integrations.calling import call_destination as call_destination
    from cardsign.integrations.calling import send_text as send_text
    from cardsign.integrations.calling import trusted_client as trusted_client

__getattr__ = lazy_names(__name__)
