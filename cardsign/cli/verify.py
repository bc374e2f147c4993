"""``cardsign verify``: one verdict for each card."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from cardsign.batch import Batch, Outcome, heaviest, verify_many
from cardsign.card.profiles import DEFAULT_PROFILES
from cardsign.card.values import jcs
from cardsign.cli.frame import Command, moment
from cardsign.cli.options import (
    STDIO,
    format_option,
    network_option,
    read_input,
    refuse_two_documents,
    take,
    write_output,
)
from cardsign.cli.printer import asked_form, is_quiet, say
from cardsign.cli.verifier import (
    Shown,
    VerifierOptions,
    accept_option,
    check_audience,
    policy_option,
    show_each,
    statements_option,
    summary,
)
from cardsign.errors import EXIT_OK, FileMissing, LocalFault, UsageFault
from cardsign.files import MAX_INPUT_BYTES, read_bytes
from cardsign.findings import counted
from cardsign.inputs import Inputs
from cardsign.urls import is_url
from cardsign.verify.report import first_line, verdict_lines

MAX_JOBS: Final = 64  # processes


def read_time(text: str) -> datetime:
    """Return the moment that ``--at`` names, in UTC."""
    try:
        try:
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        except ValueError:
            stated = datetime.fromisoformat(text)
        if stated.tzinfo is not None:
            return stated.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise UsageFault("usage.invalid", f"--at takes an ISO date or time, not {text!r}") from exc
    raise UsageFault(
        "usage.invalid",
        f"--at {text!r} says no offset from UTC",
        hint="Write it as 2026-01-31T18:00:00Z, for instance.",
    )


@click.command(
    cls=Command,
    advanced=(
        *("--statements", "--at", "--accept", "--profile"),
        *("--extended", "--audience", "--jobs", "--cluster", "--results"),
        *("--serve", "--insecure-loopback-http"),
    ),
    example=(
        "cardsign verify signed.json --jwks jwks.json\n"
        "cardsign verify https://agents.example.com --trust trust.toml"
    ),
)
@click.argument("cards", nargs=-1, metavar="CARD|DIR|URL...")
@click.option("--issuer", metavar="NAME", help="Whose card it must be, by the policy's own name.")
@click.option(
    "--origin",
    metavar="ORIGIN",
    help="Whose card it must be: the issuer trusted for this origin. With --jwks alone: every "
    "interface must be at it.",
)
@click.option(
    "--jwks",
    metavar="FILE|URL",
    help="One of these keys must have signed the card. No policy is read; revocation cannot be "
    "seen.",
)
@policy_option
@statements_option
@click.option(
    "--at",
    metavar="TIME",
    type=read_time,
    help="Judge by another time, which trusts nothing: YYYY-MM-DD (0:00 UTC), or ISO 8601 with an "
    "offset.",
)
@accept_option
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Choice(DEFAULT_PROFILES),
    metavar="PROFILE",
    help="Of the accepted profiles, count only this one; served-as-is is the strictest. May be "
    "repeated.",
)
@network_option
@click.option(
    "--extended",
    metavar="FILE",
    help="Verify this extended card beside its public CARD; with --audience.",
)
@click.option("--audience", metavar="ID", help="The audience that the extended card must be for.")
@click.option(
    "-j",
    "--jobs",
    metavar="N",
    type=click.IntRange(1, MAX_JOBS),
    default=1,
    show_default=True,
    help="Verify cards in N processes at once.",
)
@click.option(
    "--cluster",
    metavar="URL",
    help="Verify cards on the workers of this Dask scheduler, tls://HOST:8786; needs the extra "
    "cluster.",
)
@click.option(
    "--results",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append each verdict to FILE as a line of JSON, in place of printing it.",
)
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    help="If the card is trusted, write its verified payload here; '-' for stdout.",
)
@click.option(
    "--serve",
    metavar="HOST:PORT|PATH",
    help="Answer POST /verify here or at a socket, for programs in other languages.",
)
@format_option("json", "sarif", text="; sarif: for code scanning")
@click.option(
    "-v", "--verbose", is_flag=True, help="Show the four answers, every signature and every reason."
)
def verify(cards: tuple[str, ...], verbose: bool, **options: Any) -> int:
    """Verify each CARD (a file, '-' for stdin), folder or URL, and say why or why not.

    Say whose card it should be: --jwks, --issuer or --origin. A URL needs none of them; without a
    path it means /.well-known/agent-card.json, or else the legacy path. Of a folder each *.json
    below it is verified; s3://BUCKET/CARD and other stores need the extra cluster.

    Exit status: 0 trusted, 1 not trusted, 2 a fault of this machine, 3 no verdict. With several
    cards, the first of 2, 1, 3, 0 that occurs counts; --json then prints JSON Lines.
    """
    named, form = take(VerifierOptions, options), asked_form()
    if options["serve"] is not None:
        return _serve(options["serve"], named, cards, options)
    if not cards:
        raise UsageFault("usage.invalid", "no CARD is named", hint="See cardsign verify --help.")
    inputs = Inputs.of(cards)
    names, output, file = inputs.names, options["output"], options["results"]
    for passed, count in inputs.passed.items():
        if count:
            say(f"{counted(count, passed)} not looked into")
    _check_together(names, form, options)
    batch = named.batch(by_origin=len(names) > 1, audience=options["audience"])
    if STDIO in names:
        inputs.contents[STDIO] = read_input(STDIO, max_bytes=MAX_INPUT_BYTES)
    policy = batch.verifier.policy.unnamed
    if form != "text" and policy:
        say(f"judged {policy}")
    is_many = len(names) > 1 or file is not None
    how: Any = {"read": inputs.read, "jobs": options["jobs"], "cluster": options["cluster"]}
    view = partial(
        _view,
        form="file" if file else form,
        policy=policy,
        keys=named.jwks,
        verbose=verbose,
        is_many=is_many,
        is_quiet=is_quiet(),
    )
    if is_many:
        names = tuple(dict.fromkeys(names)) if file else names
        statuses = show_each(verify_many(names, batch, view=view, **how), len(names), file)
        say(summary(statuses))
        return heaviest(statuses)
    if options["extended"] is None:
        outcomes = list(verify_many(names, batch, view=_whole, **how))
    else:
        outcomes = _beside(batch, names[0], inputs.contents, options["extended"])
    report = outcomes[-1].result
    if output is not None and not isinstance(report, LocalFault) and report.card is not None:
        # The octets of the verified payload: their SHA-256 is `payload_sha256`.
        write_output(output, jcs(report.card), is_exact=True)
    return heaviest(show_each(map(view, outcomes), len(outcomes), err=output == STDIO))


def _serve(where: str, named: VerifierOptions, cards: Sequence[str], options: Any) -> int:
    """Answer the questions of other programs, until it is stopped."""
    others = ("extended", "audience", "output", "results", "cluster")
    is_many = any(options[name] for name in others) or named.at is not None
    if cards or is_many or is_url(named.jwks or ""):
        why = "--serve takes no cards, and none of --results, --cluster, --extended, "
        raise UsageFault("usage.conflict", f"{why}-o and --at; --jwks must be a file")
    from cardsign.server.run import serve_verdicts

    serve_verdicts(named.batch, where, as_json=asked_form() == "json")
    return EXIT_OK


def _view(
    outcome: Outcome,
    *,
    form: str,
    policy: str,
    keys: str | None,
    verbose: bool,
    is_many: bool,
    is_quiet: bool,
) -> Shown:
    """Return what is shown of a card; of many, a trusted one takes a line, or none if quiet."""
    report, name = outcome.result, outcome.name
    if isinstance(report, LocalFault):
        report = _or_a_host(report, name)
    shown = Shown(report.exit_status, fault=report if isinstance(report, LocalFault) else None)
    if form == "sarif":
        return shown._replace(value=outcome.to_scan_result())
    if form == "json":
        return shown._replace(value=outcome.to_json())
    if isinstance(report, LocalFault):
        return shown
    if form == "file":
        sha256 = hashlib.sha256(outcome.untrusted_bytes).hexdigest()
        judged = {"sha256": sha256, "judged_at": moment().isoformat()}
        return shown._replace(value={**outcome.to_json(), **judged})
    if is_many and outcome.verdict == "trusted" and (is_quiet or not verbose):
        return shown._replace(lines=() if is_quiet else (first_line(name, report, policy),))
    lines = verdict_lines(name, report, policy, verbose=verbose, keys=keys)
    return shown._replace(lines=tuple(lines))


def _whole(outcome: Outcome) -> Outcome:
    return outcome


def _check_together(cards: Sequence[str], form: str, options: Mapping[str, Any]) -> None:
    """Check that what is asked for goes together."""
    extended, output, cluster = (options[name] for name in ("extended", "output", "cluster"))
    check_audience(options["audience"], is_extended=extended is not None)
    named = [name for name in (*cards, extended) if name is not None]
    why = hint = ""
    if len(cards) > 1 and (extended is not None or output is not None):
        which = "--extended" if extended is not None else "-o"
        why = f"{which} is about one CARD, and {len(cards)} are named"
    elif named.count(STDIO) > 1:
        why = "standard input can be read once"
    elif output not in (None, STDIO) and any(_is_file(name, output) for name in named):
        why = f"-o {output} would put the payload in place of the signed card"
    elif options["results"] is not None and (form not in ("text", "json") or extended or output):
        why = "--results takes verdicts on many cards, as JSON"
        hint = "Leave out --format, --extended and -o."
    elif cluster is not None and options["jobs"] > 1:
        why = "-j is for processes here, and --cluster for workers elsewhere"
        hint = "Leave one of the two out."
    if why:
        raise UsageFault("usage.conflict", why, hint=hint)
    refuse_two_documents(output)


def _is_file(name: str, output: str) -> bool:
    """Return whether both name one file, however they are spelt."""
    return os.path.exists(name) and os.path.exists(output) and os.path.samefile(name, output)


def _beside(
    batch: Batch, public: str, documents: Mapping[str, bytes], extended: str
) -> list[Outcome]:
    untrusted_public = documents.get(public, b"")
    if not untrusted_public and not is_url(public):
        untrusted_public = read_bytes(Path(public), max_bytes=MAX_INPUT_BYTES)
    untrusted_extended = read_input(extended)
    return [*batch.examine_beside(public, untrusted_public, extended, untrusted_extended)]


_HOST: Final = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,63}(?::[0-9]{1,5})?(?:/.*)?|localhost:[0-9].*")


def _or_a_host(fault: LocalFault, name: str) -> LocalFault:
    """Return the same fault; with the URL to give instead if the missing file looks like a host."""
    is_file_name = name.endswith(".json") and "/" not in name
    if isinstance(fault, FileMissing) and _HOST.fullmatch(name[:300]) and not is_file_name:
        fix = f"For a card on the web give its URL: cardsign verify https://{name}"
        fault.finding = replace(fault.finding, fix=fix)
    return fault
