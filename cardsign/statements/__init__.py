"""Keyset and release statements: what an issuer signs about its keys and its cards."""
