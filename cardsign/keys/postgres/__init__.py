"""The key store in PostgreSQL; all but :mod:`.address` needs the extra ``postgres``."""
