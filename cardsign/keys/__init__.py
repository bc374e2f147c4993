"""The signer's side: private halves, their states, and the directory that holds them.

Nothing here is needed to verify a card, and :mod:`cardsign.trust` never imports it.
"""
