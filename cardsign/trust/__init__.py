"""The verifier's side: policy, lock and cache, and who may speak for an issuer now."""

from cardsign.trust.lock import Memory
from cardsign.trust.policy import Policy, Subject

__all__ = ["Memory", "Policy", "Subject"]
