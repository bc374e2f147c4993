"""``cardsign keys doctor`` and ``keys audit``."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from cardsign.cli.options import (
    json_option,
    keystore_option,
    open_any_keystore,
    open_keystore,
    project_config,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.errors import EXIT_NOT_TRUSTED, EXIT_OK, UsageFault
from cardsign.keys.audit import AuditLine, verify_chain
from cardsign.keys.doctor import Finding, examine_store
from cardsign.keys.opening import Place
from cardsign.reasons import hint_for

_SPAN = re.compile(r"([0-9]{1,5})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # seconds


@click.command()
@click.option("--fix", is_flag=True, help="Remove leftovers, and close what others can access.")
@click.option(
    "--expires-within",
    metavar="SPAN",
    help="Raise an alarm for what will be due by then, such as 14d, 12h or 30m.",
)
@keystore_option
@json_option
def doctor(fix: bool, expires_within: str | None, keystore: Place | None, as_json: bool) -> int:
    """Look for what ails the key store. Exit status 1 if somebody has to act.

    Looks at leftovers of killed processes, permissions, private halves without a key and keys
    without one, the audit log, the clock, the timeline's settings, and what is due.
    """
    findings = examine_store(
        open_keystore(keystore),
        settings=project_config().timeline,
        now=datetime.now(UTC),
        expires_within=_span(expires_within) if expires_within else timedelta(0),
        fix=fix,
    )
    if as_json:
        print_json([_as_json(finding) for finding in findings])
    else:
        for finding in findings:
            _show(finding)
        if not findings:
            say("the key store is sound")
    return EXIT_NOT_TRUSTED if any(one.level == "alarm" for one in findings) else EXIT_OK


def _span(text: str) -> timedelta:
    match = _SPAN.fullmatch(text)
    if match is None:
        raise UsageFault("usage.invalid", f"--expires-within takes 14d, 12h or 30m, not {text!r}")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def _show(finding: Finding) -> None:
    where = f" ({safe(finding.path)})" if finding.path else ""
    mended = ", mended" if finding.mended else ""
    say(f"{finding.code}: {safe(finding.message, limit=300)}{where}{mended}")
    if finding.level == "alarm" and (hint := hint_for(finding.code)):
        say(f"  {hint}")


def _as_json(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "level": finding.level,
        "message": finding.message,
        "path": finding.path,
        "mended": finding.mended,
    }


@click.group(invoke_without_command=True)
@click.pass_context
def audit(context: click.Context) -> None:
    """Show what happened to the keys: the audit log."""
    if context.invoked_subcommand is None:
        context.invoke(list_)


@audit.command("list")
@keystore_option
@json_option
def list_(keystore: Place | None = None, as_json: bool = False) -> None:
    """List the changes of the key store, oldest first; what keys audit alone does as well."""
    lines, _ = _verified(keystore)
    if as_json:
        print_json([_line_as_json(line) for line in lines])
        return
    for line in lines:
        details = json.dumps(dict(line.details), ensure_ascii=True) if line.details else ""
        who = f"{line.actor}  {line.kid or ''}"
        click.echo(f"{line.seq:>5}  {line.time}  {line.event}  {safe(who)}  {safe(details)}")


@audit.command()
@keystore_option
@json_option
def verify(keystore: Place | None, as_json: bool) -> None:
    """Check that no line of the log was changed or lost since the key store's state was written.

    Whoever can write both can write both anew: keep a copy of the head elsewhere.
    """
    lines, report = _verified(keystore)
    if as_json:
        print_json(report)
    else:
        say(f"{len(lines)} line(s), unbroken; the head is {report['head']}")


def _verified(keystore: Place | None) -> tuple[tuple[AuditLine, ...], dict[str, Any]]:
    store = open_any_keystore(keystore)
    report = verify_chain(store.read_audit(), store.state.audit, where=store.log_place)
    head = store.state.audit.digest
    return report.lines, {"lines": len(report.lines), "aborted": report.aborted, "head": head}


def _line_as_json(line: AuditLine) -> dict[str, Any]:
    return {
        "seq": line.seq,
        "time": line.time,
        "actor": line.actor,
        "event": line.event,
        "kid": line.kid,
        "details": dict(line.details),
    }
