"""The security schemes of a card, of either A2A version, in one form; and what they are made of."""

from __future__ import annotations

from typing import Any, Final

import pytest

from cardsign.card.security import (
    AUTHENTICATION,
    PROVIDERS,
    authentication_schemes,
    check_security,
    derive_security,
    flat_requirements,
    requirements_of,
    schemes_of,
    security_problems,
)
from cardsign.errors import CardRefused
from tests.support import PORTABLE, each_case, read_cases, without

CASES = read_cases(__file__)


@each_case(__file__, "schemes", "wrapped", "flat", "carrier")
def test_both_forms_say_one_thing(wrapped: Any, flat: Any, carrier: str | None) -> None:
    """A scheme of 1.0 and its 0.3 form read alike."""
    found = schemes_of({"securitySchemes": {"new": wrapped, "old": flat}})
    new, old = found["new"], found["old"]
    assert (new.type, dict(new.members)) == (old.type, dict(old.members))
    assert new.type == flat["type"]
    assert (new.carrier, old.carrier) == (carrier, carrier)


@each_case(__file__, "no scheme", "scheme")
def test_no_known_scheme(scheme: Any) -> None:
    """Nothing is guessed: it has no type, and no way for a credential to travel."""
    found = schemes_of({"securitySchemes": {"x": scheme}})["x"]
    assert (found.type, found.carrier) == (None, None)


def requirements(card: Any) -> list[tuple[dict[str, tuple[str, ...]], bool]]:
    """The schemes of each requirement of a card, and whether it can be read."""
    found = requirements_of(card, schemes_of(card))
    return [(dict(one.schemes), one.problem is None) for one in found]


def test_requirements() -> None:
    """Alternatives, each with the names that it takes together."""
    schemes = {"securitySchemes": dict(zip("ab", CASES["schemes"]["bearer"], strict=False))}
    new: dict[str, Any] = schemes | {
        "securityRequirements": [{"schemes": {"a": {"list": ["s"]}, "b": {}}}, {}]
    }
    assert requirements(new) == [({"a": ("s",), "b": ()}, True), ({}, True)]
    old = schemes | {"security": [{"a": ["s"], "b": []}]}
    assert requirements(old) == [({"a": ("s",), "b": ()}, True)]
    short = schemes | {"securityRequirements": [{"schemes": {"a": ["s"], "b": []}}]}
    assert requirements(short) == requirements(old), "as a2a-go up to 2.4.0 writes it"
    snake = {"security_schemes": schemes["securitySchemes"]}
    assert requirements(snake | {"security_requirements": new["securityRequirements"]}) == (
        requirements(new)
    )
    assert flat_requirements(
        new | {"securityRequirements": [{"schemes": {"a": {"list": ["s"]}}}]}
    ) == ([{"a": ["s"]}])
    assert flat_requirements(new) == [{"a": ["s"], "b": []}, {}]
    assert flat_requirements(new | {"securityRequirements": [{"b": []}]}) is None
    assert flat_requirements({}) is None


# What a card can say of its callers that nobody can read, beside what can be read.

_BEARER: Final[dict[str, Any]] = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
#: A card with one scheme, which everybody can read, without a requirement or skill.
GUARDED: Final[dict[str, Any]] = {
    **without(without(PORTABLE, "/securityRequirements"), "/skills"),
    "securitySchemes": {"b": _BEARER},
}


@each_case(__file__, "unreadable", "edit")
def test_what_cannot_be_read_is_never_open(edit: dict[str, Any]) -> None:
    """Of the card and of a skill, whatever else the card says, the place is named."""
    problems = list(security_problems({**GUARDED, **edit}))
    assert problems
    assert all(one.message and one.place.tokens for one in problems)
    assert not any(one.is_open for one in requirements_of({**GUARDED, **edit}, schemes_of(GUARDED)))
    if "securitySchemes" not in edit:
        for member in ("skills", "Skills"):  # which a lenient client reads too
            (problem, *_) = security_problems({**GUARDED, member: [{"id": "s", **edit}]})
            assert problem.place.tokens[:2] == (member, "0")
    with pytest.raises(CardRefused) as refused:
        check_security({**GUARDED, **edit})
    assert refused.value.code == "card.security"


@each_case(__file__, "readable", "edit")
def test_what_can_be_read_has_no_problem(edit: dict[str, Any]) -> None:
    """In the form of either A2A version, and in any spelling that some client reads."""
    assert list(security_problems({**GUARDED, **edit})) == []
    check_security({**GUARDED, **edit})


def test_every_provider_has_a_row_here() -> None:
    """So that a new one cannot go untested."""
    assert CASES["providers"].keys() == PROVIDERS.keys()


@pytest.mark.parametrize("kind", CASES["providers"])
def test_a_provider_has_its_scheme(kind: str) -> None:
    """Its settings are all that it needs."""
    settings, scheme = CASES["providers"][kind]
    assert PROVIDERS[kind](settings) == scheme


@pytest.mark.parametrize("kind", ["oidc", "azure_ad", "api_key"])
def test_a_provider_without_its_setting_is_refused(kind: str) -> None:
    """Rather than advertised with half a scheme."""
    with pytest.raises(CardRefused, match="it needs") as caught:
        PROVIDERS[kind]({})
    assert caught.value.code == "card.auth_setting"


@each_case(__file__, "chains", "chain", "hand", "schemes", "names")
def test_each_scheme_of_a_chain_is_one_alternative(
    chain: list[Any], hand: dict[str, Any], schemes: dict[str, Any], names: list[str]
) -> None:
    """An empty one comes last, where callers without a credential are let in."""
    alternatives = [{"schemes": {name: {}}} for name in names]
    assert derive_security(chain, by_hand=hand) == (schemes, alternatives)
    empty = [{"schemes": {}}] if names else []
    assert derive_security(chain, by_hand=hand, required=False) == (schemes, alternatives + empty)


@each_case(__file__, "authentication", "given", "schemes")
def test_an_authentication_has_its_schemes(given: Any, schemes: dict[str, Any]) -> None:
    """Each is one alternative."""
    derived, requirements = authentication_schemes(given)
    assert derived == schemes
    assert len(requirements) == len(schemes)


def test_every_word_is_known_in_lower_case() -> None:
    """They are looked up so."""
    assert all(word == word.lower() for word in AUTHENTICATION)


@each_case(__file__, "no authentication", "given")
def test_an_unknown_authentication_is_never_open(given: Any) -> None:
    """It is refused by its own code."""
    with pytest.raises(CardRefused) as caught:
        authentication_schemes(given)
    assert caught.value.code == "card.auth_type"
