"""Signers by URI: files, tokens, key services and programs that hold private keys."""
