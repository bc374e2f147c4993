"""Our tables of A2A 1.0 say what the protobuf descriptor of a2a-sdk says, member by member."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.card.schema import CARD_1_0, Field
from tests.card.test_schema import messages
from tests.interop.judges import Judge


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


@pytest.mark.needs_judges("py")
def test_both_know_the_same_messages_and_fields(sdk: Judge) -> None:
    """JSON and protobuf name, list or map, type, REQUIRED, presence, oneof."""
    schema = sdk.ask("schema")
    ours = {
        schema["root"] if message is CARD_1_0 else message.name: {
            field.name: facts(field) for field in message.fields.values()
        }
        for message in messages(CARD_1_0)
    }
    assert ours == schema["messages"]
