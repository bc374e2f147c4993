"""Makes attacks for the corpus; tests/attacks/README.md says how to add one.

The files of tests/attacks are the source: those below 400 were made once, with keys that nobody
has any more. What is made here has keys that are computed from their names, so that it comes out
the same each time, and a test holds that it does. Nothing here checks anything: an attacker is not
bound by what our signer refuses to make.
"""
