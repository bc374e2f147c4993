"""Contracts between agents: check messages against the schemas of a card, and begin a new agent.

Schemas are only taken from a card whose signature was verified, because whoever writes a schema
decides what passes. A schema may still be hostile: :mod:`cardsign.lint.contract` bounds the work.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cardsign import errors, files
from cardsign.card.extensions import skill_schemas
from cardsign.card.strictjson import parse_object
from cardsign.card.values import Json, finding_at, members_of, objects_in
from cardsign.findings import Finding, cap_findings, list_findings
from cardsign.lint.contract import find_problems
from cardsign.verify.report import VerifiedCard

#: Bytes of a task or response.
MAX_ENVELOPE_BYTES: Final = 1024 * 1024
STATUSES: Final = ("ok", "error", "partial", "skipped")
_HEAD: Final = ("skill_id", "source_agent", "target_agent")


@dataclass(frozen=True, slots=True)
class EnvelopeReport:
    """The result of :func:`check_envelope`.

    Attributes:
        findings: What breaks the contract, and what could not be decided; capped.
    """

    findings: tuple[Finding, ...]

    @property
    def is_kept(self) -> bool | None:
        """Whether the envelope keeps the contract; None where that cannot be decided.

        An output that does not fit breaks it, although it is a warning: the caller has it already.
        """
        codes = {finding.code for finding in self.findings} - {"envelope.untraced"}
        return False if codes - {"envelope.unclear"} else None if codes else True

    @property
    def exit_status(self) -> int:
        """0 if the contract is kept, 1 if it is broken, 3 if that cannot be decided."""
        statuses: dict[bool | None, int] = {True: errors.EXIT_OK, False: errors.EXIT_NOT_TRUSTED}
        return statuses.get(self.is_kept, errors.EXIT_NO_VERDICT)

    def to_json(self) -> dict[str, Any]:
        """Return the report as ``cardsign contract check --json`` prints it."""
        findings = [finding.to_json() for finding in self.findings]
        return {"schema": "cardsign.contract/1", "kept": self.is_kept, "findings": findings}

    def lines(self) -> Iterator[str]:
        """Yield the report for a person."""
        yield from list_findings(self.findings, "the envelope")
        words = {True: "kept", False: "broken", None: "not broken, as far as can be told"}
        yield f"the contract is {words[self.is_kept]}"


def check_envelope(untrusted_envelope: bytes, card: VerifiedCard) -> EnvelopeReport:
    """Check a task or a response against the card of the agent that it is for.

    Args:
        untrusted_envelope: One JSON object. It is a response if it has a `status`.
        card: As verification returned it; its schemas are those that the signature covers.

    Returns:
        The report; nothing in the envelope makes this function raise.
    """
    try:
        envelope = parse_object(untrusted_envelope, max_bytes=MAX_ENVELOPE_BYTES)
    except errors.JsonRefused as refusal:
        return EnvelopeReport((finding_at("envelope.form", (), refusal.message),))
    findings = [*_check_head(envelope, card.document)]
    if "skill_id" in envelope:
        findings += _check_skill(envelope, card.document)
    return EnvelopeReport(cap_findings(findings))


def _check_head(envelope: Mapping[str, Json], card: Mapping[str, Json]) -> Iterator[Finding]:
    """Yield what is wrong with the members of every envelope, such as its target and trace."""
    for name in (*_HEAD, "status" if "status" in envelope else "input"):
        if name not in envelope:
            yield finding_at("envelope.form", (name,), "it is missing")
    target = envelope.get("target_agent", card.get("name"))
    if target != card.get("name"):
        message = f"it is for {target!r:.60}, the card is of {card.get('name')!r:.60}"
        yield finding_at("envelope.target", ("target_agent",), message)
    owners = (members_of(envelope.get(name)) for name in ("metadata", "context"))
    if not any(owner.get("trace_id") or owner.get("pipeline_run_id") for owner in owners):
        message = "no trace_id or pipeline_run_id in /metadata or /context"
        yield finding_at("envelope.untraced", ("metadata", "trace_id"), message)
    if (status := envelope.get("status", "ok")) not in STATUSES:
        yield finding_at("envelope.status", ("status",), f"the status is {status!r:.40}")


def _check_skill(envelope: Mapping[str, Json], card: Mapping[str, Json]) -> Iterator[Finding]:
    """Yield where the input or output breaks the schema of its skill."""
    skill = envelope.get("skill_id")
    skills = objects_in(card.get("skills"))
    names = [entry.get("skill_id") or entry.get("id") for _, entry in skills]
    if skill not in names:
        listed = ", ".join(name for name in names if isinstance(name, str))[:2000]
        message = f"unsupported_skill: {skill!r:.60}; supported_skills: {listed}"
        yield finding_at("envelope.unsupported-skill", ("skill_id",), message)
        return
    is_response = "status" in envelope
    member, code = ("output", "envelope.output") if is_response else ("input", "envelope.input")
    if member not in envelope:
        return
    key = skill, f"{member}_schema"
    schemas = [schema for *named, _, schema in skill_schemas(card) if tuple(named) == key]
    for schema in schemas or [None]:
        problems, unclear = find_problems(schema, envelope[member])
        for tokens, message in problems:
            yield finding_at(code, (member, *tokens), message)
        if unclear:
            yield finding_at("envelope.unclear", (member,), unclear)


# A new agent: its card, code that refers to the card, a test, and make targets.

_AGENT: Final = re.compile(r"(?=.{3,64}\Z)[a-z][a-z0-9]*-[a-z0-9]+(?:-[a-z0-9]+)*")
_TEMPLATES: Final = Path(__file__).parent / "templates/agent"
#: The destination of each template in the project; what names no agent is for all of them.
_FILES: Final = {
    "agent-card.json": "agents/AGENT_NAME/.well-known/agent-card.json",
    "agent.py.txt": "agents/AGENT_NAME/agent.py",
    "test_card.py.txt": "tests/test_AGENT_MODULE_card.py",
    "agent-cards.mk": "agent-cards.mk",
    "agent-cards.yml": ".github/workflows/agent-cards.yml",
}
#: The makefile is the first of these that exists, else the last is written.
_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")


def init_agent(folder: Path, name: str) -> tuple[Path, ...]:
    """Write the files of a new agent; make targets and the workflow only where there are none.

    The project's makefile includes the targets, from its end on.

    Args:
        folder: Of the project.
        name: department-agent, such as ``iam-tides``.

    Returns:
        The files that were written.

    Raises:
        UsageFault: ``usage.invalid``: the name has another form.
        UsageFault: ``config.not_allowed``: a link leads out of the folder.
        FileFault: ``file.exists``: the agent is there already; nothing was written.
    """
    if _AGENT.fullmatch(name) is None:
        hint = "Name the department too, as in: cardsign init --agent iam-tides"
        message = f"{name!r:.60} is not department-agent in lower case, of at most 64 characters"
        raise errors.UsageFault("usage.invalid", message, hint=hint)
    agent = folder / "agents" / name
    if agent.exists() or agent.is_symlink():
        raise errors.FileFault("file.exists", "the agent is there already", path=str(agent))
    texts: dict[Path, bytes] = {}
    for template, place in _FILES.items():
        destination, content = (
            text.replace("AGENT_NAME", name)
            .replace("AGENT_MODULE", name.replace("-", "_"))
            .replace("DEPARTMENT", name.partition("-")[0])
            for text in (place, (_TEMPLATES / template).read_text("utf-8"))
        )
        if destination != place or not (folder / destination).exists():
            texts[folder / destination] = content.encode()
    makefiles = [folder / name for name in _MAKEFILES]
    makefile = next(filter(os.path.lexists, makefiles), makefiles[-1])
    for path in (makefile, *texts):  # a cloned folder's links must not choose where we write
        if files.leads_outside(folder, path):
            raise files.outside(path, "a link leads", folder)
    limit = files.MAX_INPUT_BYTES
    rules = files.read_bytes(makefile, max_bytes=limit, is_found=True) if makefile.exists() else b""
    if b"agent-cards.mk" not in rules:
        texts[makefile] = rules + (b"\n" if rules else b"") + b"include agent-cards.mk\n"
    for path, data in texts.items():
        files.make_directory(path.parent)
        files.write_atomic(path, data)
    return tuple(texts)
