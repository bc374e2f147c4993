"""Diff: what changed between two cards, what breaks a caller, and the version it needs. Pure."""
