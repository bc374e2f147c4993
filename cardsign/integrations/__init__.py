"""Other people's SDKs, each behind an extra of its own; nothing here is imported by the rest."""
