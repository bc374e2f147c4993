"""Where a2a-sdk 0.3 and 1.x differ; a part of judge_a2a_sdk.py, which runs under either.

The payload has no public name in 1.x; asking for it tells where two payloads part.
"""

from __future__ import annotations

from typing import Any

import a2a.types
from a2a.types import AgentCard

IS_0_3 = hasattr(a2a.types, "A2A")  # pydantic models; 1.x has protobuf messages

if IS_0_3:
    from a2a.utils.helpers import canonicalize_agent_card as payload_of

    parse = parse_unconverted = AgentCard.model_validate

    def endpoints(card: AgentCard) -> list[str]:
        """Where a client would call."""
        return [card.url, *(one.url for one in card.additional_interfaces or [])]

    def describe_card() -> dict[str, Any]:
        """Only 1.x describes itself."""
        raise NotImplementedError("a2a-sdk 0.3 has no descriptor of a card")

else:
    from a2a.client.card_resolver import parse_agent_card as parse
    from a2a.utils.signing import _canonicalize_agent_card as payload_of
    from descriptor import describe_messages
    from google.protobuf.json_format import ParseDict

    def parse_unconverted(document: dict[str, Any]) -> AgentCard:
        """Without the rewriting of 0.3 members that `parse` does first."""
        return ParseDict(document, AgentCard(), ignore_unknown_fields=True)

    def endpoints(card: AgentCard) -> list[str]:
        """Where a client would call."""
        return [interface.url for interface in card.supported_interfaces]

    def describe_card() -> dict[str, Any]:
        """The SDK's own description of a card."""
        root = AgentCard.DESCRIPTOR
        return {"root": root.name, "messages": describe_messages(root)}


__all__ = [
    "AgentCard",
    "describe_card",
    "endpoints",
    "parse",
    "parse_unconverted",
    "payload_of",
]
