"""Serving a publication: the only part of cardsign that imports Flask, werkzeug and granian.

A server holds final bytes and the digests of tokens: no private key, and nothing to sign with.
"""
