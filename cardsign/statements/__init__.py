"""Keyset and release statements: what an issuer signs about its keys and its cards.

A verifier reads and checks them by ``envelope``, ``keyset`` and ``release``; a drafter signs them
there. What an issuer puts into a draft is in :mod:`cardsign.issuer`.
"""
