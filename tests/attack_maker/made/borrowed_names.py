"""Attack 401: a stranger's policy calls an issuer as the user's own does."""

from __future__ import annotations

from tests.attack_maker.attack import Attack


def attack() -> Attack:
    """It takes two policies and one memory, which no case of one policy can say."""
    attack = Attack(
        401,
        "borrowed-names",
        "A folder of a stranger uses the user's name for an issuer",
        "A first contact that is remembered by a nickname alone is carried from a cloned "
        "folder into the user's own policy, where a forged card is then trusted.",
    )
    attack.tests(
        "tests/cli/test_trust_binding.py::test_a_folder_of_a_stranger_cannot_say_whom_a_name_means",
        "tests/cli/test_trust_binding.py::test_a_first_contact_is_not_carried_to_other_origins",
        "tests/cli/test_trust_binding.py::test_a_policy_that_lies_here_begins_no_first_contact_by_itself",
        "tests/cli/test_trust_binding.py::test_two_folders_may_call_two_issuers_alike",
    )
    return attack
