"""What is seen of a card without trusting it: its words, its signatures, its service."""
