"""Keys, key sets and signatures (JOSE): RFC 7515, 7517, 7518, 7638 and 8037."""
