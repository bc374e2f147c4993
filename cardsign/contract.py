"""Tasks and responses held against the skills of a verified card (rows B14, B15, B35).

A schema counts only from a card whose signature was verified: the author of the schema decides
what passes. A schema may still be hostile, so no reference leaves it, and a pattern that could
take long is not tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast

from cardsign.card.extensions import skill_schemas
from cardsign.card.strictjson import Json, parse_object
from cardsign.errors import JsonRefused
from cardsign.lint.rules import Finding, Rule, Tokens
from cardsign.verify.report import VerifiedCard

#: Bytes of a task or response.
MAX_ENVELOPE_BYTES: Final = 1024 * 1024
#: Problems of one value that are listed.
MAX_PROBLEMS: Final = 50
#: Characters of a text that a pattern is held against.
MAX_MATCHED: Final = 4096
STATUSES: Final = ("ok", "error", "partial", "skipped")
_TASK: Final = ("skill_id", "source_agent", "target_agent", "input")
_RESPONSE: Final = ("skill_id", "source_agent", "target_agent", "status")
#: Steps of one comparison: one for each keyword of a schema that is applied to a value. A schema
#: can refer to itself, and a task can be a megabyte, so the work is bounded, not only the sizes.
MAX_STEPS: Final = 100_000
# Of a pattern without its escapes and classes: a repeated group or a back reference, and each
# repetition whose length is free. Two of these cost the square of the text, three its cube.
_NO_REPETITION: Final = re.compile(r"\\[^1-9]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_SLOW: Final = re.compile(r"\)[*+{]|\\[1-9]|\(\?P=")
_FREE: Final = re.compile(r"[*+]|\{\d*,\d*\}")

# fmt: off
RULES: Final[dict[str, Rule]] = {one.id: one for one in (
    Rule("envelope.form", "error", "It is no task and no response.",
         "The agent cannot tell what is wanted.",
         "A task has skill_id, source_agent, target_agent and input; a response has a status, too. "
         "A message of A2A is no envelope: docs/guides/check.md has an example.", "row B14"),
    Rule("envelope.unsupported-skill", "error", "The card has no such skill.",
         "The agent answers unsupported_skill.", "Name one of the skills that are listed.",
         "row B15"),
    Rule("envelope.target", "error", "It is for another agent than the card's.",
         "The schemas of this card say nothing about it.",
         "Name the card's agent, or check against the other card.", "row B35"),
    Rule("envelope.input", "error", "The input does not fit the skill's schema.",
         "The agent refuses the task, or misreads it.", "Correct it at the place named.",
         "row B14"),
    Rule("envelope.output", "warning", "The output does not fit the skill's schema.",
         "The caller may misread it.", "Correct the agent, or its schema.", "row B35"),
    Rule("envelope.status", "error", "The status is none of ok, error, partial, skipped.",
         "The caller does not know how it ended.", "Use one of the four.", "row B35"),
    Rule("envelope.untraced", "warning", "There is no trace_id and no pipeline_run_id.",
         "Nobody finds the task again in the logs.", "Add /metadata/trace_id.", "row B35"),
    Rule("envelope.unclear", "warning", "It cannot be told whether a schema is met.",
         "The schema is missing, refers elsewhere, or has a pattern that could take long.",
         "Simplify the schema.", "row B14"),
)}
# fmt: on


def check_envelope(untrusted_envelope: bytes, card: VerifiedCard) -> tuple[Finding, ...]:
    """Hold a task or a response against the card of the agent that it is for.

    Args:
        untrusted_envelope: One JSON object. It is a response if it has a `status`.
        card: As verification returned it; its schemas are those that the signature covers.

    Returns:
        The findings; none of an error if the envelope keeps the contract.
    """
    try:
        envelope = parse_object(untrusted_envelope, max_bytes=MAX_ENVELOPE_BYTES)
    except JsonRefused as refusal:
        return (_found("envelope.form", (), refusal.message),)
    return tuple(_findings(envelope, cast("Mapping[str, Json]", card.document)))


def known_skills(card: Mapping[str, Json]) -> tuple[str, ...]:
    """The ids of a card's skills, in its order."""
    skills = card.get("skills")
    names = (
        one.get("skill_id") or one.get("id")
        for one in (skills if isinstance(skills, list) else ())
        if isinstance(one, dict)
    )
    return tuple(name for name in names if isinstance(name, str) and name)


def _found(rule: str, tokens: Tokens, message: str) -> Finding:
    return Finding(RULES[rule], tokens, message)


def _findings(envelope: Mapping[str, Json], card: Mapping[str, Json]) -> Iterator[Finding]:
    is_response = "status" in envelope
    for name in _RESPONSE if is_response else _TASK:
        if name not in envelope:
            yield _found("envelope.form", (name,), "it is missing")
    skill, target = envelope.get("skill_id"), envelope.get("target_agent")
    if "target_agent" in envelope and target != card.get("name"):
        message = f"it is for {target!r:.60}, the card is of {card.get('name')!r:.60}"
        yield _found("envelope.target", ("target_agent",), message)
    if not any(_traced(envelope.get(owner)) for owner in ("metadata", "context")):
        message = "no trace_id or pipeline_run_id in /metadata or /context"
        yield _found("envelope.untraced", ("metadata", "trace_id"), message)
    if is_response and envelope["status"] not in STATUSES:
        yield _found("envelope.status", ("status",), f"{envelope['status']!r:.40}")
    known = known_skills(card)
    if "skill_id" not in envelope:
        return
    if skill not in known:
        message = f"unsupported_skill: {skill!r:.60}; supported_skills: {', '.join(known)[:2000]}"
        yield _found("envelope.unsupported-skill", ("skill_id",), message)
        return
    member, kind = ("output", "output_schema") if is_response else ("input", "input_schema")
    if member in envelope:
        schemas = [
            one.schema for one in skill_schemas(card) if (one.skill, one.kind) == (skill, kind)
        ]
        if not schemas:
            yield _found("envelope.unclear", (member,), f"the skill has no {kind}")
        for schema in schemas:
            yield from _held_against(schema, envelope[member], member)


def _traced(owner: Json) -> bool:
    return isinstance(owner, dict) and any(owner.get(n) for n in ("trace_id", "pipeline_run_id"))


class _Costly(Exception):
    """More steps than one comparison may take."""


class _Steps:
    """Counts what a comparison does, and ends it."""

    def __init__(self) -> None:
        self.left = MAX_STEPS

    def counted(self, keyword: str, apply: Any) -> Any:
        """The function of a keyword, which pays for what it is going to do."""

        def counting(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            size = len(instance) if isinstance(instance, dict | list) else 0
            if keyword == "uniqueItems":
                self.left -= size * size // 10  # values of several kinds are compared in pairs
            elif keyword in ("patternProperties", "additionalProperties"):
                self.left -= size * (1 + len(schema.get("patternProperties", ())))
            self.left -= 1
            if self.left < 0:
                raise _Costly
            return apply(validator, value, instance, schema)

        return counting


def _held_against(schema: Json, value: Json, member: str) -> Iterator[Finding]:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import extend
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    if not isinstance(schema, dict):
        yield _found("envelope.unclear", (member,), "its schema is no object")
        return
    if why := _why_slow(schema, value):
        yield _found("envelope.unclear", (member,), f"{why} could take long to try")
        return
    schema_of: Any = schema
    steps = _Steps()
    keywords = {n: steps.counted(n, f) for n, f in Draft202012Validator.VALIDATORS.items()}
    try:
        Draft202012Validator.check_schema(schema_of)
        # With a registry of its own no reference is ever fetched.
        bounded: Any = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
        validator = bounded(schema_of, registry=Registry())
        for error in islice(validator.iter_errors(value), MAX_PROBLEMS):
            where = (member, *(str(token) for token in error.absolute_path))
            yield _found(f"envelope.{member}", where, error.message[:200])
    except _Costly:
        yield _found("envelope.unclear", (member,), "it would take long to hold it to its schema")
    # A reference may lead to what is no schema, of which the library says nothing of its own.
    except (SchemaError, Unresolvable, RecursionError, re.error, OverflowError) as fault:
        yield _found("envelope.unclear", (member,), _unusable(fault))
    except (AttributeError, LookupError, TypeError, ValueError) as fault:
        yield _found("envelope.unclear", (member,), _unusable(fault))


def _unusable(fault: Exception) -> str:
    return f"its schema cannot be used: {type(fault).__name__}"


def _why_slow(schema: Json, value: Json) -> str | None:
    """What could take long in a way that no count of steps can end; None if nothing could."""
    patterns = _patterns(schema)
    if pattern := next((one for one in patterns if _is_slow(one)), None):
        return f"the pattern {pattern[:60]!r}"
    if patterns and _is_long(value):
        return "a text is too long, and a pattern"
    if _has_name(schema, ("unevaluatedProperties", "unevaluatedItems")):
        return "unevaluatedProperties or unevaluatedItems"
    return None


def _is_slow(pattern: str) -> bool:
    """Whether a search could cost more than the square of the text."""
    bare = _NO_REPETITION.sub("x", pattern)
    anchored = pattern.startswith("^")  # else the search begins again at each character
    return bool(_SLOW.search(bare)) or len(_FREE.findall(bare)) > 1 + anchored


def _has_name(schema: Json, names: tuple[str, ...]) -> bool:
    pending = [schema]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            if any(name in one for name in names):
                return True
            pending += one.values()
        elif isinstance(one, list):
            pending += one
    return False


def _patterns(schema: Json) -> list[str]:
    """Every regular expression of a schema."""
    found: list[str] = []
    pending: list[Json] = [schema]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending += one
        elif isinstance(one, dict):
            if isinstance(one.get("pattern"), str):
                found.append(str(one["pattern"]))
            named = one.get("patternProperties")
            found += list(named) if isinstance(named, dict) else []
            pending += one.values()
    return found


def _is_long(value: Json) -> bool:
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str) and len(one) > MAX_MATCHED:
            return True
        if isinstance(one, dict):
            pending += [*one, *one.values()]
        elif isinstance(one, list):
            pending += one
    return False
