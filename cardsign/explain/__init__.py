"""Explanation: what a card's signatures cover, and why one does not fit. It gives no verdict."""
