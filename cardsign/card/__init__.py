"""What a card is: bytes in, values out, without network, clock or state."""
