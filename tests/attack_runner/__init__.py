"""Reads the attack corpus and puts it to a verifier; tests/attacks/README.md is the format.

`corpus` reads, `outcome` compares, `world` is what surrounds a verifier in a transcript; of these
nothing knows cardsign. `verifier` puts cases to cardsign; another implementation needs its own.
"""
