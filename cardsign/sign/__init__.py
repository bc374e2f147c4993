"""Signing: one card in, the same card with our signatures out."""
