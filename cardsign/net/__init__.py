"""Fetching from hosts that nobody vouches for; no other room opens a connection to one."""
