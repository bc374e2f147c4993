"""Verification: one verdict on (bytes, subject, policy, time), and why."""
