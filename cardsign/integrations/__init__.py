"""Other people's SDKs, each behind an extra; nothing here is imported by the rest."""
