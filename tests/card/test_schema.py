"""The one description of the fields: the facts of the A2A schemas, as the walks see them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cardsign.card.schema import CARD_0_3, CARD_1_0, Message, fold


def messages(root: Message) -> Iterator[Message]:
    """The message and all below it, each once."""
    seen: dict[str, Message] = {}
    pending = [root]
    while pending:
        message = pending.pop()
        if message.name not in seen:
            seen[message.name] = message
            pending.extend(f.message for f in message.fields.values() if f.message is not None)
    yield from seen.values()


def marked(root: Message, mark: str) -> set[str]:
    """`Message.field` of all fields with that mark."""
    return {
        f"{message.name}.{field.name}"
        for message in messages(root)
        for field in message.fields.values()
        if getattr(field, mark)
    }


@pytest.mark.parametrize(
    ("root", "members"),
    [
        (
            CARD_1_0,
            {
                "AgentCard.securitySchemes",
                "AgentCard.securityRequirements",
                "AgentSkill.securityRequirements",
            },
        ),
        (
            CARD_0_3,
            {"AgentCard.securitySchemes", "AgentCard.security", "AgentSkill.security"},
        ),
    ],
    ids=["1.0", "0.3"],
)
def test_the_members_that_say_who_may_call(root: Message, members: set[str]) -> None:
    """Nothing in them is ever passed over as a default."""
    assert marked(root, "security") == members


@pytest.mark.parametrize("root", [CARD_1_0, CARD_0_3], ids=["1.0", "0.3"])
def test_no_two_names_of_a_message_fall_together(root: Message) -> None:
    """Otherwise a good card would be refused for two spellings."""
    for message in messages(root):
        assert len(message.folded) == len(message.fields), message.name
        assert len(message.spelled) >= len(message.fields), message.name


SPELLINGS = {
    "as it is": ("supportedInterfaces", True),
    "snake_case": ("supported_interfaces", True),
    "Go's field name": ("SupportedInterfaces", True),
    "upper case": ("SUPPORTEDINTERFACES", True),
    "leading and doubled underscores": ("__supported__interfaces_", True),
    "a long s, which Go takes for an s": ("\u017fupportedInterfaces", True),
    "another word": ("supportedInterface", False),
    "a hyphen": ("supported-interfaces", False),
    "a full-width letter": ("\uff53upportedInterfaces", False),
    "a Cyrillic letter": ("supportedInterf\u0430ces", False),
}


@pytest.mark.parametrize(("name", "same"), SPELLINGS.values(), ids=SPELLINGS)
def test_how_a_lenient_reader_sees_a_name(name: str, same: bool) -> None:
    """Go folds case as Unicode does (the long s is an s), protobuf readers take snake_case."""
    assert (fold(name) == fold("supportedInterfaces")) is same
