"""Our tables of A2A 1.0 say what the protobuf descriptor of a2a-sdk says, member by member."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cardsign.card.schema import CARD_1_0, Field, Message
from tests.interop.judges import Judge

ROOT = "AgentCard"


def messages_below(root: Message) -> Iterator[Message]:
    """A message and all that its fields lead to, each once."""
    found: dict[str, Message] = {}
    pending = [root]
    while pending:
        message = pending.pop()
        if message.name not in found:
            found[message.name] = message
            pending.extend(f.message for f in message.fields.values() if f.message)
    return iter(found.values())


MESSAGES = {ROOT if one is CARD_1_0 else one.name: one for one in messages_below(CARD_1_0)}


def facts(field: Field) -> dict[str, Any]:
    """Our table's field in the words of the judge."""
    kind = "Struct" if field.kind == "free" else field.kind
    return {
        "name": field.snake_name,
        "shape": field.shape,
        "type": field.message.name if field.message else kind,
        "required": field.required,
        "presence": field.presence,
        "oneof": field.oneof,
    }


@pytest.fixture(scope="module")
def theirs(sdk: Judge) -> dict[str, Any]:
    """The descriptor: messages by name, fields by JSON name."""
    schema = sdk.schema()
    assert schema["root"] == ROOT
    messages: dict[str, Any] = schema["messages"]
    return messages


@pytest.mark.needs_judges("py")
def test_both_know_the_same_messages(theirs: dict[str, Any]) -> None:
    """No message is missing, none is ours alone."""
    assert set(MESSAGES) == set(theirs)


@pytest.mark.needs_judges("py")
@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_same_fields(name: str, theirs: dict[str, Any]) -> None:
    """JSON and protobuf name, list or map, type, REQUIRED, presence, oneof."""
    ours = {field.name: facts(field) for field in MESSAGES[name].fields.values()}
    assert ours == theirs[name]
