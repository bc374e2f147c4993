"""What an issuer does, as a library: it returns data and prints nothing."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.issuer.cards import prepare_cards as prepare_cards
    from cardsign.issuer.cards import sign_cards as sign_cards
    from cardsign.issuer.init import IssuerPassphrases as IssuerPassphrases
    from cardsign.issuer.init import NewIssuer as NewIssuer
    from cardsign.issuer.init import init_issuer as init_issuer
    from cardsign.issuer.init import init_keys as init_keys
    from cardsign.issuer.keyset import KeysetChanges as KeysetChanges
    from cardsign.issuer.keyset import KeysetDraft as KeysetDraft
    from cardsign.issuer.keyset import draft_keyset as draft_keyset
    from cardsign.issuer.keyset import find_public as find_public
    from cardsign.issuer.keyset import publish_keyset as publish_keyset
    from cardsign.issuer.keyset import review_keyset as review_keyset
    from cardsign.issuer.keyset import show_keyset as show_keyset
    from cardsign.issuer.keyset import sign_keyset as sign_keyset
    from cardsign.issuer.publishing import Published as Published
    from cardsign.issuer.publishing import publish_cards as publish_cards
    from cardsign.issuer.recovery import make_recovery_key as make_recovery_key
    from cardsign.issuer.recovery import open_recovery_key as open_recovery_key
    from cardsign.issuer.recovery import recover as recover
    from cardsign.issuer.release import ReleaseChanges as ReleaseChanges
    from cardsign.issuer.release import TakenUp as TakenUp
    from cardsign.issuer.release import is_release_due as is_release_due
    from cardsign.issuer.release import needed_keyset as needed_keyset
    from cardsign.issuer.release import renew_release as renew_release
    from cardsign.issuer.revocation import revoke_and_replace as revoke_and_replace
    from cardsign.issuer.rotation import make_successor as make_successor
    from cardsign.issuer.rotation import rotate_keys as rotate_keys
    from cardsign.issuer.rotation import successors_due as successors_due
    from cardsign.issuer.signers import CardSigners as CardSigners
    from cardsign.issuer.signers import card_signers as card_signers
    from cardsign.issuer.signers import named_signers as named_signers
    from cardsign.issuer.tasks import Progress as Progress
    from cardsign.issuer.tasks import Task as Task
    from cardsign.issuer.tasks import Work as Work

__getattr__ = lazy_names(__name__)
