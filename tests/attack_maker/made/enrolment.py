"""Attack 514: an issuer is enrolled before anybody compared it."""

from __future__ import annotations

from tests.attack_maker.attack import Attack


def attack() -> Attack:
    """It is a command that writes, not a verdict."""
    attack = Attack(
        514,
        "enrolment",
        "An issuer is enrolled before a person has compared its digest",
        "An attacker between a user and the issuer at first contact is believed from "
        "then on, unless the digest is compared with what the issuer says elsewhere.",
        source="decision E14",
    )
    attack.tests(
        "tests/cli/test_trust_binding.py::test_enrolment_compares_before_it_writes",
        "tests/cli/test_trust_comparison.py::test_a_difference_refuses_before_anything_is_written",
        "tests/cli/test_trust_comparison.py::test_what_is_no_whole_digest_is_asked_for_again",
        "tests/cli/test_trust_comparison.py::test_without_a_terminal_somebody_has_to_say_yes",
    )
    return attack
