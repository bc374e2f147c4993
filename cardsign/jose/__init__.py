"""Strict keys, JWK Sets and detached signatures (RFC 7515, 7517, 7518, 7638).

The only room that knows joserfc; no exception of another library leaves it. Here a key is
sound or refused, and a signature fits its bytes or is refused; whose key it is, and whether
it may speak for a card, is decided in :mod:`cardsign.trust`.
"""
