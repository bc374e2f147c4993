"""What verifiers of other make would say: predicted from measured behaviour, nobody is asked.

Where a card has something that an SDK treats in an odd way, the outcome is ``unknown``, never a
guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from cardsign.card.canonical import VERIFIERS, Payload, Payloads, SdkVerifier
from cardsign.card.values import levels, members_of
from cardsign.inspect.report import InspectedSignature, PredictedOutcome, Prediction

_USUAL: Final = frozenset({"alg", "kid", "typ", "jku"})  # what A2A 1.0 8.4.2 names
#: Member names that protobuf or JavaScript treats in a way of its own.
_ODD: Final = re.compile(r"\[.*\]|__proto__")


def predict_clients(
    payloads: Payloads, signatures: Sequence[InspectedSignature]
) -> Iterator[Prediction]:
    """Yield what each verifier would say, if it accepts the keys that `signatures` was judged by.

    Args:
        payloads: The card's.
        signatures: All that it has, as they were judged.
    """
    below = (value for level in levels(payloads.members) for value in level)
    odd = next((name for value in below for name in members_of(value) if _ODD.fullmatch(name)), "")
    for verifier in VERIFIERS:
        outcome, because = _predict(verifier, payloads, signatures)
        if odd:
            outcome, because = "unknown", f"SDKs treat a member called {odd} in their own ways"
        yield Prediction(verifier.name, verifier.profile, outcome, because)


def _predict(
    verifier: SdkVerifier, payloads: Payloads, signatures: Sequence[InspectedSignature]
) -> tuple[PredictedOutcome, str]:
    payload = payloads.payload_or_refusal(verifier.profile)
    if not isinstance(payload, Payload):
        return "unknown" if verifier.converts else "refused", payload.message
    if not payload.value:
        return "unknown", "nothing of the card is left to sign"
    refused = [entry for entry in signatures if entry.report.verdict == "refused"]
    unread = [entry for entry in refused if not entry.profiles]
    if "sig.shape" in {reason.code for entry in unread for reason in entry.report.reasons}:
        shape = "an entry of `signatures` has the wrong shape, and the rest may go with it"
        return "unknown", shape
    return _find_acceptable(verifier, unread, signatures)


def _find_acceptable(
    verifier: SdkVerifier,
    unread: Sequence[InspectedSignature],
    signatures: Sequence[InspectedSignature],
) -> tuple[PredictedOutcome, str]:
    """Return what a verifier says by the headers of those that fit its payload."""
    fitting = [entry for entry in signatures if verifier.profile in entry.profiles]
    typed = [entry for entry in fitting if not verifier.wants_typ or "typ" in (entry.header or {})]
    for entry in typed:
        if _USUAL.issuperset(entry.header or {}):
            return "accepted", f"signature {entry.report.index} fits {verifier.profile}"
    for entry in (*unread, *typed):
        return "unknown", f"signature {entry.report.index} has a header that it may refuse"
    for entry in fitting:
        return "refused", f"the header of signature {entry.report.index} has no typ"
    return "refused", f"no signature by a known key fits {verifier.profile}"
