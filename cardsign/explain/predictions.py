"""What verifiers of other make would say: predicted from measured behaviour, nobody is asked.

The table of :mod:`cardsign.card.profiles.verifiers` says by which profile each verifies and what
it wants of a header. Where a card has something that an SDK treats in an unknown or odd way, the
outcome is ``unknown`` rather than a guess.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cardsign.card.canonical import PROFILES, Payload, ProfileName, Unsigned
from cardsign.card.profiles.verifiers import VERIFIERS, Verifier
from cardsign.card.strictjson import Json
from cardsign.card.tree import read
from cardsign.errors import CanonicalizationError
from cardsign.explain.report import PredictedOutcome, Prediction, SignatureExplanation

_USUAL: Final = frozenset({"alg", "kid", "typ", "jku"})  # what A2A 1.0 8.4.2 names


def predict(
    document: Mapping[str, Json],
    payloads: Mapping[ProfileName, Payload | CanonicalizationError],
    signatures: Sequence[SignatureExplanation],
    *,
    all_listed: bool,
) -> Iterator[Prediction]:
    """Predict each verifier's outcome, if it accepts the keys by which `signatures` was examined.

    Args:
        document: The card, read strictly and unambiguous.
        payloads: By profile, or why there is none.
        signatures: As explained with those keys.
        all_listed: Whether these are all that the card has.
    """
    for verifier in VERIFIERS:
        payload = payloads[verifier.profile]
        outcome, because = _outcome(verifier, document, payload, signatures)
        if outcome == "refused" and not all_listed:
            outcome, because = "unknown", "not all signatures were looked at"
        yield Prediction(verifier.name, verifier.profile, outcome, because)


def _outcome(
    verifier: Verifier,
    document: Mapping[str, Json],
    payload: Payload | CanonicalizationError,
    signatures: Sequence[SignatureExplanation],
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
    unread = [one for one in signatures if one.verdict == "refused" and not one.profiles]
    if any(reason.code == "sig.shape" for one in unread for reason in one.reasons):
        return (
            "unknown",
            "an entry of `signatures` has the wrong shape, and the rest may go with it",
        )
    return _of_signatures(verifier, signatures, unread)


def _of_signatures(
    verifier: Verifier,
    signatures: Sequence[SignatureExplanation],
    unread: Sequence[SignatureExplanation],
) -> tuple[PredictedOutcome, str]:
    fitting = [one for one in signatures if verifier.profile in one.profiles]
    typed = [one for one in fitting if not verifier.wants_typ or "typ" in (one.header or {})]
    sure = [one for one in typed if not verifier.any_library or _USUAL.issuperset(one.header or {})]
    doubtful = [
        one for one in unread if all(reason.code != "key.alg_mismatch" for reason in one.reasons)
    ]
    if sure and not (doubtful and verifier.stumbles):
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
    rewrite = PROFILES[profile].rewrite
    try:
        if rewrite is not None:
            received = Unsigned(document)
            received.tree = read(dict(document))  # an SDK reads the signatures, too
            rewrite(received)
    except CanonicalizationError:
        return False
    return True


def _names(document: Mapping[str, Json]) -> Iterator[str]:
    """Every member name, at any depth; those in `signatures` are not the card's."""
    pending: list[Json] = [{name: one for name, one in document.items() if name != "signatures"}]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield from value
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
