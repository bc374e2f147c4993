"""Build: manifests of agents become cards; nothing of a source is run."""
