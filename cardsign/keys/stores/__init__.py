"""Key stores: a directory or PostgreSQL behind one interface."""
