"""The issuer's side: key stores, the lifecycle of keys, and what is drafted from them."""
