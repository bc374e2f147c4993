"""The issuer's keys: key stores, their logs, the lifecycle of keys, and signers."""
