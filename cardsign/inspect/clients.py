"""What verifiers of other make would say: predicted from measured behaviour, nobody is asked.

Where a card has something that an SDK treats in an odd way, the outcome is ``unknown``, never a
guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cardsign.card.canonical import PROFILES, Payload, Payloads, ProfileName
from cardsign.card.document import unsigned
from cardsign.card.profiles.verifiers import VERIFIERS, SdkVerifier
from cardsign.card.tree import read
from cardsign.card.values import Json, children_of, members_of
from cardsign.errors import CanonicalizationError
from cardsign.inspect.report import InspectedSignature, PredictedOutcome, Prediction

_USUAL: Final = frozenset({"alg", "kid", "typ", "jku"})  # what A2A 1.0 8.4.2 names


def predict_clients(
    document: Mapping[str, Json],
    payloads: Mapping[ProfileName, Payload | CanonicalizationError],
    signatures: Sequence[InspectedSignature],
    *,
    all_listed: bool,
) -> Iterator[Prediction]:
    """Yield what each verifier would say, if it accepts the keys that `signatures` was judged by.

    Args:
        document: The card.
        payloads: Under each profile.
        signatures: As they were judged.
        all_listed: They are all that the card has.
    """
    for verifier in VERIFIERS:
        outcome, because = _outcome(verifier, document, payloads[verifier.profile], signatures)
        if outcome == "refused" and not all_listed:
            outcome, because = "unknown", "not all signatures were looked at"
        yield Prediction(verifier.name, verifier.profile, outcome, because)


def _outcome(
    verifier: SdkVerifier,
    document: Mapping[str, Json],
    payload: Payload | CanonicalizationError,
    signatures: Sequence[InspectedSignature],
) -> tuple[PredictedOutcome, str]:
    odd = next((name for name in _names(document) if verifier.trips_over.fullmatch(name)), None)
    if odd is not None:
        return "unknown", f"the card has a member called {odd}, which it treats in its own way"
    if isinstance(payload, CanonicalizationError):
        if verifier.converts:
            return "unknown", f"it converts what is of a wrong type; {payload.message}"
        parses = _parses(document, verifier.profile)
        return ("refused" if parses else "cannot-parse"), payload.message
    if verifier.wants_content and not payload.value:
        return "refused", "nothing of the card is left to sign"
    unread = [
        signature
        for signature in signatures
        if signature.verdict == "refused" and not signature.profiles
    ]
    if any(reason.code == "sig.shape" for signature in unread for reason in signature.reasons):
        shape = "an entry of `signatures` has the wrong shape, and the rest may go with it"
        return "unknown", shape
    return _of_signatures(verifier, signatures, unread)


def _of_signatures(
    verifier: SdkVerifier,
    signatures: Sequence[InspectedSignature],
    unread: Sequence[InspectedSignature],
) -> tuple[PredictedOutcome, str]:
    fitting = [signature for signature in signatures if verifier.profile in signature.profiles]
    typed = [
        signature
        for signature in fitting
        if not verifier.wants_typ or "typ" in (signature.header or {})
    ]
    sure = [
        signature
        for signature in typed
        if not verifier.any_library or _USUAL.issuperset(signature.header or {})
    ]
    doubtful = [
        signature
        for signature in unread
        if all(reason.code != "key.alg_mismatch" for reason in signature.reasons)
    ]
    if sure:
        return "accepted", f"signature {sure[0].index} fits {verifier.profile}"
    if doubtful:
        return "unknown", f"signature {doubtful[0].index} is one that we refuse to read"
    if typed:
        return "unknown", f"the header of signature {typed[0].index} has unusual members"
    if fitting:
        return "refused", f"the header of signature {fitting[0].index} has no typ"
    if not signatures:
        return "refused", "the card is not signed"
    return "refused", f"no signature by a known key fits {verifier.profile}"


def _parses(document: Mapping[str, Json], profile: ProfileName) -> bool:
    """Whether a profile reads the card, so that it is only the bytes that it does not have."""
    received, rewrite = Payloads(document), PROFILES[profile]
    received.tree = read(dict(document))  # an SDK reads the signatures, too
    try:
        if rewrite is not None:
            rewrite(received)
    except CanonicalizationError:
        return False
    return True


def _names(document: Mapping[str, Json]) -> Iterator[str]:
    """Every member name, at any depth; those in `signatures` are not the card's."""
    pending: list[Json] = [unsigned(document)]
    while pending:
        value = pending.pop()
        yield from members_of(value)
        pending.extend(child for _, child in children_of(value))
