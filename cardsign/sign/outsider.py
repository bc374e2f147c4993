"""The last step of signing: what was signed is read again as an outsider would read it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from cardsign.card.document import Card
from cardsign.card.extended import find_marker
from cardsign.errors import InputRefused, SigningRefused
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import Signer
from cardsign.trust.policy import Policy
from cardsign.trust.subject import Expectation, Extended, Holder
from cardsign.verify import examine_card

# Pinned keys with freshness waived have no deadlines: the time of the self-check decides nothing.
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)


def check_as_an_outsider(signed: bytes, signers: Sequence[Signer], *, force: bool = False) -> None:
    """Verify what was signed with the public keys alone; also worth doing on the file written.

    Raises:
        SigningRefused: ``sign.self_check``, or the code for which a reader refuses the bytes.
    """
    jwks = JwkSet.of(signer.public for signer in signers)
    policy = Policy.holder_of_keys(jwks, name="the signer")
    report = examine_card(signed, expect=_expectation(signed), policy=policy, now=_ANY_TIME)
    answers = report.answers
    complete = (answers.integrity, answers.complete) == ("yes", "yes")
    if not complete or (report.verdict != "trusted" and not force):
        raise SigningRefused(
            report.reasons[0].code if report.verdict == "invalid" else "sign.self_check",
            f"what was signed is {report.verdict} when read again: {report.reasons[0].message}",
            path=report.reasons[0].path,
        )


def _expectation(signed: bytes) -> Expectation:
    """What a reader who was given this card would ask for: an extended card, if it is marked."""
    try:
        marker = find_marker(Card.from_bytes(signed).document)
    except InputRefused:  # the verdict says why
        return Holder()
    return Holder() if marker is None else Extended(Holder(), marker.audience)
