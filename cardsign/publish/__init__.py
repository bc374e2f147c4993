"""Publishing: cards and a key set become the next generation."""
