"""What an issuer does, as a library: it returns data and prints nothing."""
