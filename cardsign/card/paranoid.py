"""The switch of ``--paranoid``, and all shortcuts: here a reviewer finds what to doubt.

A shortcut gives the answer of a definition without doing its work. The switch turns these off, each
of which asks :func:`is_paranoid`. Below each stands the test that holds it against its definition.
That the switch does so is in ``tests/test_paranoid.py``; ``batch.py`` tells its workers.

``card/strictjson.py``: the standard library parses cards and statements, not the scanner.
    ``tests/card/test_strictjson.py::test_both_paths_agree``
``card/portable.py``: one walk proves that a card is portable. Then no name is searched for in two
spellings. No profile that keeps it is run, and all of it is covered. `sign` asks only which
REQUIRED members are missing. Numbers are looked for only in what the schema leaves free.
    ``tests/test_random_cards.py::test_a_portable_card_never_has_two_spellings``
    ``tests/card/test_canonical.py::test_a_portable_card_is_kept_by_the_rules_that_say_so``
    ``tests/card/test_members.py::test_a_portable_card_lacks_what_is_required_or_nothing``
    ``tests/test_paranoid.py::test_payloads_of_random_cards``
``card/document.py``: the values of a card are not counted where its bytes are too few.
    ``tests/test_paranoid.py::test_payloads_of_random_cards``
``card/extensions.py``: bytes that cannot spell our UUID are not searched for a marker.
    ``tests/card/test_extended_marker.py::test_a_card_whose_bytes_cannot_name_us_has_no_marker``
``card/serialize.py``: orjson or json writes what rfc8785 would write.
    ``tests/card/test_serialize.py::test_random_cards``
``jose/keys.py``: cryptography alone checks a signature; else joserfc checks each that it accepts.
    ``tests/jose/test_explicit_algorithms.py::test_joserfc_and_we_accept_the_same``
``sign/signing.py``: what was signed is not parsed again where its signatures were put in at the
end, or nothing was changed.
    ``tests/test_random_cards.py::test_what_is_known_of_a_signed_card_is_what_a_reader_reads``

The switch does not turn off memories: what the paths above found is found again for the same input.
Each is kept by all that its answer hangs on, in this process.

* ``card/canonical.py``: what the profiles of one card share.
* ``jose/jws.py``, ``statements``, ``trust/state.py``: what bytes were read as.
* ``statements/envelope.py``: signatures of statements that fitted.
* ``trust/resolve.py`` and ``sign/signing.py``: for whom which keys speak.
    ``tests/trust/test_resolved_before.py::test_what_is_remembered_is_not_read_again``
* ``verify/verdict.py``: a :class:`~cardsign.verify.VerdictCache`, where the caller gives one.
    ``tests/verify/test_cache.py::test_the_same_matter_gets_the_same_verdict``

Nor what the definitions leave out themselves: `sign` checks a signature once, when it verifies the
whole card; `verify_card` examines no signature before the last one that makes a card trusted;
compat signatures are tried only where none counts; and statements older than the one that is held
are passed over unread.
    ``tests/verify/test_stop_early.py::test_the_verdict_is_that_of_all_signatures``
"""

from __future__ import annotations

_is_paranoid = False


def be_paranoid(paranoid: bool = True) -> None:
    """From now on, let the definitions alone read, write and check in this process.

    The answers are the same, unless a shortcut of ours is wrong. It is a setting of the process, so
    that no reader, thread or forked worker can miss it; what is remembered from before stays.
    """
    global _is_paranoid
    _is_paranoid = paranoid


def is_paranoid() -> bool:
    """Whether no shortcut of this module's list is to be taken."""
    return _is_paranoid
