"""Attack 403: a stranger's lock raises the floor of everybody."""

from __future__ import annotations

from tests.attack_maker.attack import Attack


def attack() -> Attack:
    """It takes two folders and one memory, which no case of one lock can say."""
    attack = Attack(
        403,
        "foreign-locks",
        "A lock of a stranger's folder enters the user's memory",
        "A lock with the highest epoch there is makes the genuine issuer a rollback. It may do "
        "so in the folder where it lies, and must not be remembered or written elsewhere.",
    )
    attack.tests(
        "tests/cli/test_trust_binding.py::test_a_strangers_lock_stays_with_the_stranger",
        "tests/cli/test_trust_binding.py::test_a_clone_that_links_its_lock_to_the_users_own_cannot_raise_it",
    )
    return attack
