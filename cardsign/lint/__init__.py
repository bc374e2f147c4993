"""Lint: what makes a card unfit for some of its readers, why, and how to fix it. Pure."""
