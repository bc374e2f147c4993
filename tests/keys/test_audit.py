"""The audit log: a line that counts cannot be changed unseen, and an attempt is no damage."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardsign.errors import StoreFault
from cardsign.keys.audit import AuditEvent, extend, verify_chain
from cardsign.keys.model import AuditHead, StoreState
from tests.keys.states import NOON, after

EVENTS = [AuditEvent("key-entered", "one", {"alg": "ES256"}), AuditEvent("key-activated", "one")]


def log_of(*batches: list[AuditEvent]) -> tuple[AuditHead, bytes]:
    """A log, and its head."""
    state, log = StoreState(0, ()), b""
    for number, events in enumerate(batches):
        state, lines = further(replace(state, generation=number + 1), events, after(number))
        log += lines
    return state.audit, log


def further(state: StoreState, events: list[AuditEvent], now: datetime) -> tuple[Any, bytes]:
    """A state with its new head, and the lines that tell of it."""
    return extend(state, events, now=now, actor="ann@host")


def test_every_line_says_what_happened_when_and_by_whom():
    """And which line it follows."""
    head, log = log_of(EVENTS, [AuditEvent("key-retired", "one")])

    lines, _, aborted = verify_chain(log, head, where="log")

    assert [(line.seq, line.event) for line in lines] == [
        (1, "key-entered"),
        (2, "key-activated"),
        (3, "key-retired"),
    ]
    assert lines[0].details == {"alg": "ES256"}
    assert (lines[2].time, lines[2].actor) == ("2026-11-21T12:00:01Z", "ann@host")
    assert (head.seq, aborted) == (3, 0)


def test_an_empty_log_is_whole():
    """A new store has none."""
    assert verify_chain(b"", AuditHead(), where="log") == ((), b"", 0)


@pytest.mark.parametrize(
    "beside",
    [b"half of a li", b"{}\n", b"\xff\n", b"\n\n"],
    ids=["a torn line", "an object", "no UTF-8", "empty lines"],
)
def test_what_the_head_does_not_reach_does_not_count(beside):
    """It is of an attempt that was killed, whether it stands at the end or in between."""
    head, log = log_of(EVENTS)
    state, more = further(StoreState(9, (), head), EVENTS[:1], NOON)

    torn = beside if beside.endswith(b"\n") else beside + b"\n"
    between = verify_chain(log + torn + more, state.audit, where="log")
    at_the_end = verify_chain(log + beside, head, where="log")

    assert len(between[0]) == 3
    assert between[2] == at_the_end[2] == (0 if beside == b"\n\n" else 1)


def test_a_whole_line_beyond_the_head_does_not_count():
    """The state was not committed: nothing happened."""
    head, log = log_of(EVENTS)
    _, more = further(StoreState(9, (), head), EVENTS[:1], NOON)

    assert verify_chain(log + more, head, where="log")[2] == 1


@given(st.data())
def test_whatever_is_changed_in_a_line_that_counts_is_seen(data):
    """Each bit of it."""
    head, log = log_of(EVENTS, EVENTS)
    place = data.draw(st.integers(0, len(log) - 1))
    changed = bytearray(log)
    changed[place] ^= data.draw(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]))

    if place == len(log) - 1:  # the newline at the end belongs to no line
        changed[place] = ord(" ")
    with pytest.raises(StoreFault) as caught:
        verify_chain(bytes(changed), head, where="log")

    assert (caught.value.code, caught.value.path) == ("keystore.audit_broken", "log")


@pytest.mark.parametrize("line", range(4))
def test_a_line_that_is_cut_out_is_missed(line):
    """Wherever it stood; the error says which."""
    head, log = log_of(EVENTS, EVENTS)
    lines = log.splitlines(keepends=True)
    del lines[line]

    with pytest.raises(StoreFault, match=f"line {line + 1} is missing"):
        verify_chain(b"".join(lines), head, where="log")


def test_a_head_of_another_length_is_seen():
    """The state was edited, or is older than the log says."""
    head, log = log_of(EVENTS)

    for seq in (1, 3):
        with pytest.raises(StoreFault):
            verify_chain(log, AuditHead(seq, head.digest), where="log")
