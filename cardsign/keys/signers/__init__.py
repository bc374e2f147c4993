"""Signers by URI: files, tokens, key services and programs that hold private keys."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.keys.signers.access import Access as Access
    from cardsign.keys.signers.access import read_signer_policy as read_signer_policy
    from cardsign.keys.signers.access import user_file as user_file
    from cardsign.keys.signers.access import user_secrets as user_secrets
    from cardsign.keys.signers.base import BoundSigner as BoundSigner
    from cardsign.keys.signers.base import RemoteKey as RemoteKey
    from cardsign.keys.signers.registry import check_possession as check_possession
    from cardsign.keys.signers.registry import custody_of as custody_of
    from cardsign.keys.signers.registry import fetch_public as fetch_public
    from cardsign.keys.signers.registry import open_signer as open_signer

__getattr__ = lazy_names(__name__)
