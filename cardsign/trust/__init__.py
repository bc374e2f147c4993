"""The verifier's side: whom to believe about which card. Pure: bytes in, findings out.

This version knows pinned keys only. Policies in `trust.toml`, keyset and release statements,
revocation and rollback protection are to come; until then `current` is never "yes".
"""
