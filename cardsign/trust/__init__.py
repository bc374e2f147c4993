"""The verifier's side: whom to believe about which card. Bytes in, findings out.

Pure, but for the files that a verifier owns: the policy (`policyfile`, `policyedit`), the lock
(`lock`) and what is remembered on this machine (`state`).
"""
