"""``cardsign verify`` and ``peers``: one verdict for each card."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import click

from cardsign import errors
from cardsign.batch import Outcome, heaviest, in_threads, verify_many
from cardsign.card.values import jcs
from cardsign.cli import frame, verifier
from cardsign.cli.frame import STDIO, Answer, Group, is_json, moment, safe, say, show
from cardsign.errors import LocalFault, UsageFault
from cardsign.files import MAX_INPUT_BYTES, file_faults
from cardsign.findings import Finding, counted
from cardsign.inputs import Inputs
from cardsign.times import minute, utc
from cardsign.trust.policy import Policy, Subject, TrustedIssuer
from cardsign.trust.session import look_ahead
from cardsign.urls import is_url
from cardsign.verify.report import first_line, verdict_lines
from cardsign.verify.verifier import Verifier

MAX_JOBS: Final = 64  # processes


def read_time(text: str) -> datetime:
    """Return the moment that ``--at`` names, in UTC; a date alone means its beginning."""
    try:
        stated = datetime.fromisoformat(text if len(text) > len("2026-01-31") else f"{text}T00Z")
        if stated.tzinfo is not None:
            return stated.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    message = f"--at takes a date, or a time with its offset from UTC, not {text!r}"
    hint = "Write it as 2026-01-31 or 2026-01-31T18:00:00Z, for instance."
    raise UsageFault("usage.invalid", message, hint=hint)


@frame.command(
    advanced=(
        *("--statements", "--at", "--accept"),
        *("--extended", "--audience", "--jobs", "--cluster", "--results"),
        *("--serve", "--insecure-loopback-http"),
    ),
    example=(
        "cardsign verify signed.json --jwks jwks.json\n"
        "cardsign verify https://agents.example.com --trust trust.toml"
    ),
)
@click.argument("cards", nargs=-1, metavar="CARD|DIR|URL...")
@click.option(
    "--origin",
    metavar="ORIGIN",
    help="Whose card it must be: the issuer trusted for this origin. With --jwks alone: every "
    "interface must be at it.",
)
@verifier.subject_options
@verifier.statements_option
@click.option(
    "--at",
    metavar="TIME",
    type=read_time,
    help="Judge as of another time; the verdict is then never trusted: YYYY-MM-DD (0:00 UTC), or "
    "ISO 8601 with an offset.",
)
@click.option(
    "--extended", metavar="FILE", help="Verify this extended card beside CARD; with --audience."
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
@frame.output_option(
    default=None, help="If the card is trusted, write its verified payload here; '-' for stdout."
)
@click.option(
    "--serve", metavar="HOST:PORT|PATH", help="Answer POST /verify here, for other languages."
)
@frame.format_option("json", "sarif", text="; sarif: for code scanning")
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
    named, form = frame.take(verifier.VerifierOptions, options), frame.asked_form()
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
        inputs.contents[STDIO] = frame.read_input(STDIO, max_bytes=MAX_INPUT_BYTES)
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
        is_quiet=frame.is_quiet(),
    )
    if is_many:
        names = tuple(dict.fromkeys(names)) if file else names
        statuses = _show_each(verify_many(names, batch, view=view, **how), len(names), file)
        say(_summary(statuses))
        return heaviest(statuses)
    if options["extended"] is None:
        outcomes = list(verify_many(names, batch, view=_whole, **how))
    else:
        public, extended = inputs.read(names[0]) or b"", frame.read_input(options["extended"])
        outcomes = [*batch.examine_beside(names[0], public, options["extended"], extended)]
    report = outcomes[-1].result
    if output is not None and not isinstance(report, LocalFault) and report.card is not None:
        # The octets of the verified payload: their SHA-256 is `payload_sha256`.
        frame.write_output(output, jcs(report.card), is_exact=True)
    return heaviest(_show_each(map(view, outcomes), len(outcomes), err=output == STDIO))


def _serve(where: str, named: verifier.VerifierOptions, cards: Sequence[str], options: Any) -> int:
    """Answer the questions of other programs, until it is stopped."""
    others = ("extended", "audience", "output", "results", "cluster")
    has_others = any(options[name] for name in others) or named.at is not None
    if cards or has_others or is_url(named.jwks or ""):
        why = "--serve takes no cards, and none of --results, --cluster, --extended, "
        raise UsageFault("usage.conflict", f"{why}-o and --at; --jwks must be a file")
    from cardsign.server.run import serve_verdicts

    serve_verdicts(named.batch, where, as_json=frame.asked_form() == "json")
    return errors.EXIT_OK


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
    verifier.check_audience(options["audience"], is_extended=extended is not None)
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


def _is_file(name: str, output: str) -> bool:
    """Return whether both name one file, however they are spelt."""
    return os.path.exists(name) and os.path.exists(output) and os.path.samefile(name, output)


# A run over many cards.

_OUTCOMES: Final = {
    errors.EXIT_OK: "trusted",
    errors.EXIT_NOT_TRUSTED: "not trusted",
    errors.EXIT_NO_VERDICT: "without a verdict",
    errors.EXIT_LOCAL_FAULT: "not verified because of a fault here",
}


class Shown(NamedTuple):
    """What is shown of one card: all that a worker process sends back.

    Attributes:
        status: The exit status.
        lines: The text.
        value: The JSON value, or a `ScanResult` for code scanning.
        fault: What kept the card from a verdict.
    """

    status: int
    lines: Sequence[str] = ()
    value: Any = None
    fault: LocalFault | None = None


def _show_each(
    cards: Iterable[Shown],
    count: int,
    file: Path | None = None,
    *,
    is_lines: bool = False,
    err: bool = False,
) -> list[int]:
    """Show cards as they are judged, and return their exit statuses.

    A terminal's stderr has a counter meanwhile, but under ``--quiet``. What keeps many cards from a
    verdict is said once, and at the end for how many more it holds.

    Args:
        cards: What is shown of each.
        count: How many there are.
        file: Append the JSON values to this file, which is never read.
        is_lines: Each JSON value is one line, though there be one alone.
        err: Text goes to stderr.
    """
    indent = None if is_lines or count > 1 or file is not None else 2
    statuses, results, faults = list[int](), [], Counter[str]()
    with contextlib.ExitStack() as stack:
        lines, write_counter = None, stack.enter_context(_counter(count))
        if file is not None:  # whole lines, if several runs append
            with file_faults(file, "file.unwritable"):
                lines = stack.enter_context(file.open("a", encoding="ascii", buffering=1))
        for shown in cards:
            write_counter("")
            if shown.fault is not None:
                fault = f"{shown.fault}\n{shown.fault.finding.fix}"
                if fault not in faults:
                    frame.print_error(shown.fault)
                faults[fault] += 1
            for line in shown.lines:
                frame.write_line(line, err=err)
            if frame.asked_form() == "sarif":
                results.append(shown.value)
            elif shown.value is not None:
                frame.print_json(shown.value, indent=indent, file=lines)
            statuses.append(shown.status)
            write_counter(f"{len(statuses)}/{count} cards")
    if more := faults.total() - len(faults):
        noun = "fault" if len(faults) == 1 else "faults"
        say(f"the same {noun} for {counted(more, 'more card')}")
    if frame.asked_form() == "sarif":
        from cardsign.cli.sarif import sarif_log

        frame.print_json(sarif_log(results, heaviest(statuses)))
    return statuses


@contextlib.contextmanager
def _counter(count: int) -> Iterator[Callable[[str], None]]:
    """Yield what writes a counter to a terminal's stderr, which is taken away at the end."""
    can_take_back = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def write(text: str) -> None:
        if count > 1 and can_take_back and not frame.is_quiet():
            with contextlib.suppress(OSError):
                click.echo(f"\r{text}\033[K", nl=False, err=True)

    write(f"0/{count} cards")
    try:
        yield write
    finally:
        write("")


def _summary(statuses: Sequence[int], of: str = "") -> str:
    """Return how many cards came to what, in one line."""
    counts = ((statuses.count(status), words) for status, words in _OUTCOMES.items())
    summary = ", ".join(f"{count:,} {words}" for count, words in counts if count)
    return f"{counted(len(statuses), 'card')}{of}: {summary}"


# ``cardsign peers``: the cards of all issuers of the policy.


@click.group(cls=Group)
def peers() -> None:
    """Verify the cards of the issuers in the policy, and show their state.

    `cards` in trust.toml lists the cards of an issuer; see cardsign trust add --card.
    """


# What is known about issuers, without any request.


@peers.command("status", example="cardsign peers status")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@verifier.policy_option
def peers_status(names: tuple[str, ...], trust_file: Path | None) -> int:
    """Show what is known about issuers, without any request.

    Of all issuers, or those with NAME, it shows the newest statements that trust.lock and this
    user's cache lead to, and when they expire.

    Exit status: 0 no required peer needs action; 1 something needs action now or soon; 2 a fault
    of this machine. Optional peers do not change it.
    """
    policy = verifier.needed_policy(trust_file)
    by_policy, shown, lines, statuses = Verifier(policy), [], list[str](), list[int]()
    for issuer in verifier.chosen_issuers(policy, names):
        shown.append(state := _known(by_policy, issuer))
        optional = "" if issuer.peer == "required" else ", optional"
        lines.append(f"{issuer.name}: by {state['anchor']}{optional}")
        rest = {name: value for name, value in state.items() if name not in _FIRST_LINE}
        lines += verifier.view_lines(rest, "  ")
        for alarm in state["alarms"]:
            lines.append(f"  {alarm['code']}: {safe(alarm['message'], limit=300)}")
            lines.append(f"      {safe(alarm['hint'], limit=300)}")
            is_missing = alarm["code"] == "lock.missing"
            if is_missing or issuer.peer == "required":
                statuses.append(errors.EXIT_LOCAL_FAULT if is_missing else errors.EXIT_NOT_TRUSTED)
    notes = () if shown else [f"{policy.path} trusts no issuer"]
    return show(Answer(shown, lines, notes, heaviest(statuses)))


_FIRST_LINE: Final = ("name", "peer", "anchor", "alarms")


def _known(by_policy: Verifier, issuer: TrustedIssuer) -> dict[str, Any]:
    """Return what is known of one issuer here."""
    state: dict[str, Any] = {"name": issuer.name, "peer": issuer.peer}
    state["anchor"] = verifier.kind_of(issuer.anchor)
    state["cards"] = list(issuer.cards)
    try:
        session, now = by_policy.session(issuer), by_policy.clock()
    except UsageFault as fault:
        return {**state, "alarms": [fault.finding.to_json()]}
    trust, alarms = look_ahead(session, now)
    keyset, release = session.keyset, session.release
    ends = [end for end in trust.deadlines if end > now.timestamp()]
    return {
        **state,
        "keyset": keyset and keyset.label,
        "keyset_until": keyset and utc(keyset.exp).isoformat(),
        "release": release and release.seq,
        "release_until": release and utc(release.exp).isoformat(),
        "last_signed": utc(session.newest_iat).isoformat() if session.newest_iat else None,
        "until": utc(min(ends)).isoformat() if ends else None,
        "alarms": [alarm.to_json() for alarm in alarms],
    }


# What the cards are worth now.

#: What needs a person though the card is trusted: the issuer's roots may be stolen, or a
#: statement that was seen is withheld, and what is remembered ends.
_ALARMS: Final = frozenset({"statement.fork", "statement.vanished"})
#: What only says that something is missing; why it is, another reason may say.
_MISSING: Final = frozenset({"trust.freshness_unknown", "trust.no_keys"})

_Check: TypeAlias = tuple[TrustedIssuer, str]  # and the URL of one of its cards


@peers.command("verify", example="cardsign peers verify --update --trust trust.toml")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--update",
    is_flag=True,
    help="Record newer statements in trust.lock, as `cardsign trust update` does. A policy that is "
    "only found here must be named: --trust trust.toml.",
)
@frame.network_option
@verifier.policy_option
def verify_peers(
    names: tuple[str, ...], update: bool, insecure: bool, trust_file: Path | None
) -> int:
    """Verify all cards of all issuers, or of those named.

    Each card is fetched with the statements that its issuer's anchor needs. An error with one
    card does not stop the others. Each result is one line on stdout, or an object with --json;
    --quiet leaves out trusted cards. Summary and progress go to stderr.

    Exit status: 0 all required cards are trusted; 1 one is not, or a statement of its issuer has
    vanished or was replaced by another with the same number; 2 a fault of this machine; 3 none of
    these, but one card got no verdict. Optional peers do not change it.
    """
    policy = verifier.needed_policy(trust_file)
    checks = _cards_to_check(policy, names)
    by_policy = Verifier(policy, net=frame.fetch_settings(insecure))

    def check(task: _Check) -> Outcome:
        issuer, url = task
        discovery = by_policy.look_up(url, Subject(issuer=issuer.name))
        return Outcome(discovery.url, discovery.report, discovery.untrusted_card)

    checked: list[tuple[TrustedIssuer, Outcome]] = []

    def results() -> Iterator[Shown]:
        for (issuer, url), result in in_threads(check, checks, verifier.CONCURRENCY):
            outcome = result if isinstance(result, Outcome) else Outcome(url, result)
            checked.append((issuer, outcome))
            yield _peer_view(issuer, outcome)

    statuses = _show_each(results(), len(checks), is_lines=True)
    if update:
        for name in by_policy.raise_lock():
            say(f"{policy.lock} has newer statements of {name} now; commit it")
    issuers = len({issuer.name for issuer, _ in checks})
    line = _summary(statuses, f" of {counted(issuers, 'issuer')}")
    alarmed = [issuer.peer for issuer, outcome in checked if _alarms(outcome)]
    say(f"{line}, {len(alarmed)} with an alarm" if alarmed else line)
    required = (outcome for issuer, outcome in checked if issuer.peer == "required")
    status = heaviest(outcome.result.exit_status for outcome in required)
    needs_action = "required" in alarmed and status != errors.EXIT_LOCAL_FAULT
    return errors.EXIT_NOT_TRUSTED if needs_action else status


def _alarms(outcome: Outcome) -> list[Finding]:
    return [reason for reason in outcome.reasons if reason.code in _ALARMS]


def _peer_view(issuer: TrustedIssuer, outcome: Outcome) -> Shown:
    """Return what is shown of one card; under ``--quiet`` a trusted one is left out."""
    fault = outcome.result if isinstance(outcome.result, LocalFault) else None
    shown, alarms = Shown(outcome.result.exit_status, fault=fault), _alarms(outcome)
    if is_json():
        return shown._replace(value=_checked_json(issuer, outcome))
    if outcome.verdict == "trusted" and frame.is_quiet() and not alarms:
        return shown
    return shown._replace(lines=(_checked_line(issuer, outcome, alarms),))


def _card_of(outcome: Outcome) -> tuple[str | None, int | None]:
    """Return the name in the verified card, and how many skills it has; None without one."""
    if isinstance(outcome.result, LocalFault) or outcome.result.card is None:
        return None, None
    name, skills = outcome.result.card.get("name"), outcome.result.card.get("skills")
    return str(name), len(skills) if isinstance(skills, list) else 0


def _checked_json(issuer: TrustedIssuer, outcome: Outcome) -> dict[str, Any]:
    card, skills = _card_of(outcome)
    members = {"name": issuer.name, "peer": issuer.peer, "card_name": card, "skills": skills}
    return {**members, **outcome.to_json()}


def _checked_line(issuer: TrustedIssuer, outcome: Outcome, alarms: Sequence[Finding]) -> str:
    result, why = outcome.result, []
    card, skills = _card_of(outcome)
    if card is not None:
        why.append(f'"{safe(card)}", {counted(skills or 0, "skill")}')
    if not isinstance(result, LocalFault) and result.valid_until is not None:
        why.append(f"until {minute(result.valid_until)}")
    reasons: Sequence[Finding] = outcome.reasons
    if outcome.verdict != "trusted" and reasons:  # why it is not, and the alarms
        first = reasons[0]
        if first.code in _MISSING:
            behind = ("statement.", "refresh.")
            causes = (cause for cause in reasons if cause.code.startswith(behind))
            first = next(causes, first)
        reasons = tuple(dict.fromkeys((first, *alarms)))
    why += [f"{reason.code}: {safe(reason.worded)}" for reason in reasons]
    optional = "" if issuer.peer == "required" else " (optional)"
    begin = f"{outcome.verdict:<13}  {issuer.name}{optional}  {safe(outcome.name)}"
    return f"{begin}  {'; '.join(why)}".rstrip()


def _cards_to_check(policy: Policy, names: tuple[str, ...]) -> list[_Check]:
    """Return the cards to check; none at all would be a check that cannot fail."""
    issuers = verifier.chosen_issuers(policy, names)
    checks = [(issuer, url) for issuer in issuers for url in dict.fromkeys(issuer.cards)]
    without = [issuer.name for issuer in issuers if not issuer.cards]
    if not checks or (names and without):
        raise UsageFault(
            "policy.no_cards",
            f"trust.toml lists no card of {', '.join(without) or 'any issuer'}",
            path=str(policy.path),
        )
    if without:
        say(f"trust.toml lists no card of {', '.join(without)}")
    return checks
