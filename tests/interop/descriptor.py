"""What the protobuf descriptor of a2a-sdk says of a card; a part of judge_a2a_sdk.py."""

from __future__ import annotations

from typing import Any, Final

from google.api.field_behavior_pb2 import REQUIRED, field_behavior
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.struct_pb2 import Struct

TYPES: Final = {FieldDescriptor.TYPE_STRING: "string", FieldDescriptor.TYPE_BOOL: "bool"}


def describe_messages(root: Descriptor) -> dict[str, Any]:
    """The fields of a message type and of all below it, each by name, down to Structs."""
    found: dict[str, Any] = {}
    pending = [root]
    while pending:
        message = pending.pop()
        if message.name not in found:
            found[message.name] = {field.json_name: facts(field) for field in message.fields}
            below = [value_of(field).message_type for field in message.fields]
            pending.extend(one for one in below if one not in (None, Struct.DESCRIPTOR))
    return found


def facts(field: FieldDescriptor) -> dict[str, Any]:
    """What is said of one field; the type of a map is that of its values."""
    value, oneof = value_of(field), field.containing_oneof
    return {
        "name": field.name,
        "shape": "one" if not field.is_repeated else "list" if value is field else "map",
        "type": value.message_type.name if value.message_type else TYPES[value.type],
        "required": REQUIRED in field.GetOptions().Extensions[field_behavior],
        "presence": field.has_presence,
        # proto3 `optional` is written as a oneof of one, whose name begins with "_"
        "oneof": oneof is not None and not oneof.name.startswith("_"),
    }


def value_of(field: FieldDescriptor) -> FieldDescriptor:
    """The field itself, or the values' field of the entry message that a map consists of."""
    message = field.message_type
    is_map = message is not None and message.GetOptions().map_entry
    return message.fields_by_name["value"] if is_map else field
