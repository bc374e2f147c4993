"""For tests of programs that use cardsign: an issuer with everything that it signs."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.testing.fake_issuer import FakeIssuer as FakeIssuer
    from cardsign.testing.plugin import assert_card_valid as assert_card_valid

__getattr__ = lazy_names(__name__)
