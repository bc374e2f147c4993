"""A card with an issuer's statements, for the tests of publishing and serving them."""

from __future__ import annotations

from typing import Final

from cardsign.issuer.keyset import write_draft
from cardsign.issuer.release import ReleasePlan, card_digest
from cardsign.publish.publication import Issued
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement
from tests.keys.issuing import URL, first, key, released
from tests.support import PORTABLE, dump
from tests.support import signed as signed_card

KEYSET: Final = "/.well-known/cardsign/keyset/1.1.json"
RELEASE: Final = "/.well-known/cardsign/release.json"


def document(statement: KeysetStatement | ReleaseStatement) -> bytes:
    """A statement as it is published."""
    return write_draft(statement)  # type: ignore[arg-type]


CARD: Final = dump(signed_card(PORTABLE, key("card")))
ONE: Final = first()
LISTED: Final = ReleasePlan(((URL, card_digest(CARD)),))
R1: Final = released(ONE, None, LISTED)
ISSUED: Final = Issued((document(ONE),), document(R1))
