"""Partners who sign with an SDK are trusted by one word, or get the one sentence they need."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from partners import PAGE, Answer, judge, make_keys, page, public_keys, signed_cards

Answers = Mapping[tuple[str, str, str, str], Answer]


@pytest.fixture(scope="module")
def answers() -> Answers:
    """What is said of the card of each partner."""
    keys = make_keys()
    public = public_keys(keys)
    return {(one.by, one.how, one.alg, one.name): judge(one, public) for one in signed_cards(keys)}


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.needs_judges
def test_the_table_is_true(answers: Answers) -> None:
    """Each row is what its library signs today; `python tests/interop/partners.py` writes it."""
    assert page(answers) == PAGE.read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.needs_judges
def test_nobody_is_refused_without_a_sentence(answers: Answers) -> None:
    """And no word leaves a member open that it does not name."""
    assert len(answers) > 60
    for answer in answers.values():
        assert answer.says if answer.word != "full" else not answer.says


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
def test_a_changed_card_is_trusted_by_no_word() -> None:
    """The negative twin: whoever signed it, no word trusts what was changed afterwards."""
    keys = make_keys()
    public = public_keys(keys)
    for partner in signed_cards(keys):
        partner.card["version"] = "9.9.9"
        assert judge(partner, public).word is None
