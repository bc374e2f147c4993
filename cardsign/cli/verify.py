"""``cardsign verify``, ``peers``, ``fetch``, ``call`` and ``contract``: what rests on a verdict."""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from cardsign import errors
from cardsign.batch import Batch, Data, Outcome, attempt, list_cards, read_card, verify_many
from cardsign.card.profiles import FULL_PROFILES
from cardsign.card.values import jcs
from cardsign.cli import frame, verifier
from cardsign.cli.frame import STDIO, Answer, Group, is_json, members, safe, say, show
from cardsign.errors import CallFailed, LocalFault, UsageFault, require
from cardsign.findings import Finding, counted
from cardsign.times import minute, read_stamp, utc
from cardsign.trust.policy import Policy, Subject, TrustedIssuer
from cardsign.trust.walk import NO_STATEMENTS
from cardsign.urls import Url, is_url
from cardsign.verify.report import Report, first_line, list_reasons, trusted_card, verdict_lines
from cardsign.verify.verifier import Verifier

if TYPE_CHECKING:
    from cardsign.integrations.calling import Reply


@frame.command(
    advanced=(
        *("--statements", "--at", "--accept", "--profile", "--audience", "--jobs", "--cluster"),
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
    type=read_stamp,
    help="Judge as of another time, such as 2026-01-31T18:00:00Z; nothing is trusted then.",
)
@click.option(
    "--profile",
    "only",
    type=click.Choice(FULL_PROFILES),
    multiple=True,
    help="Count only signatures of this profile; served-as-is is the strictest.",
)
@click.option("--audience", metavar="ID", help="CARD must be the extended card for this audience.")
@click.option(
    "-j", "--jobs", metavar="N", type=click.IntRange(1, 64), default=1, help="Processes to use."
)
@click.option(
    "--cluster",
    metavar="URL",
    help="Verify cards on the workers of this Dask scheduler instead, tls://HOST:8786; needs the "
    "extra cluster.",
)
@frame.file_option(help="If the card is trusted, write its verified payload here; '-' for stdout.")
@click.option("--serve", metavar="HOST:PORT|PATH", help="Answer POST /verify, for other languages.")
@click.option("-v", "--verbose", is_flag=True, help="Show every answer, signature and reason.")
def verify(cards: tuple[str, ...], verbose: bool, **options: Any) -> int:
    """Verify each CARD (a file, '-' for stdin), folder or URL, and say why or why not.

    Say whose card it should be: --jwks, --issuer or --origin. A URL needs none of them; without a
    path it means /.well-known/agent-card.json, or else the legacy path. In a folder, every *.json
    at any depth is verified, except statements and hidden files.

    Exit status: 0 trusted, 1 not trusted, 2 a fault of this machine, 3 no verdict. With several
    cards, the first of 2, 1, 3, 0 that occurs counts; --json then prints JSON Lines.
    """
    named = frame.take(verifier.VerifierOptions, options)
    if options["serve"] is not None:
        return _serve(named, options["serve"], cards)
    if not cards:
        raise UsageFault("usage.invalid", "no CARD is named", hint="See cardsign verify --help.")
    card_files, output = list_cards(cards), options["output"]
    is_many = len(card_files) > 1
    if output is not None and is_many:
        raise UsageFault("usage.conflict", f"-o is about one CARD, and {len(card_files)} are named")
    batch = named.batch(by_origin=is_many, audience=options["audience"])
    policy = batch.verifier.policy.unnamed
    if is_json() and policy:
        say(f"judged {policy}")
    is_verbose = verbose and not frame.is_quiet()
    lines = partial(verdict_lines, policy=policy, verbose=is_verbose)
    if is_many and not is_verbose:
        lines = partial(_brief_lines, policy, frame.is_quiet())
    view = partial(_view, None if is_json() else lines, None if is_many else 2)
    if output is None:
        jobs, cluster = options["jobs"], options["cluster"]
        views = verify_many(card_files, partial(_judge, batch, view), jobs=jobs, cluster=cluster)
    else:
        (outcome,) = verify_many(card_files, partial(attempt, batch))
        if isinstance(outcome.result, Report) and outcome.result.card is not None:
            # The octets that the signatures cover: their SHA-256 is in the verdict.
            frame.write_output(output, jcs(outcome.result.card), is_exact=True)
        views = iter([view(outcome)])
    statuses = _show_each(views, err=output == STDIO)
    if is_many:
        say(_summarize(statuses))
    return _heaviest(statuses)


def _serve(named: verifier.VerifierOptions, place: str, cards: Sequence[str]) -> int:
    """Answer requests for verdicts at HOST:PORT or at the path of a socket, until it is stopped."""
    if cards or is_url(named.jwks or ""):
        raise UsageFault("usage.conflict", "with --serve name no cards, and give --jwks as a file")
    from cardsign.server.run import serve_verdicts

    serve_verdicts(named.batch, place, as_json=is_json())
    return errors.EXIT_OK


#: What is printed of one card: the exit status of its verdict, why there is none, and finished
#: lines or a JSON value. A worker of ``-j`` makes it, and sends no report.
View: TypeAlias = tuple[int, LocalFault | None, str]
#: Makes the lines for a person of a name and a verdict.
Lines: TypeAlias = Callable[[str, Report], Iterable[str]]


def _judge(batch: Batch, view: Callable[[Outcome], View], name: str, untrusted: Data) -> View:
    return view(attempt(batch, name, untrusted))


def _view(lines: Lines | None, indent: int | None, outcome: Outcome) -> View:
    """Return what is printed of a card: JSON where there are no lines for a person."""
    name, result = outcome
    fault, text = (result if isinstance(result, LocalFault) else None), ""
    if lines is None:
        text = frame.json_text(outcome.to_json(), indent=indent)
    elif not isinstance(result, LocalFault):
        text = "\n".join(map(frame.escape, lines(name, result)))
    return result.exit_status, fault, text


def _brief_lines(policy: str, is_quiet: bool, name: str, report: Report) -> Iterator[str]:
    """Yield the lines of a verdict among many: one line where the card is trusted."""
    if report.verdict != "trusted":
        yield from verdict_lines(name, report, policy)
    elif not is_quiet:
        yield first_line(name, report, policy)


def _show_each(views: Iterable[View], *, err: bool = False) -> list[int]:
    """Print cards as they are judged, and return their exit statuses; a fault of several, once."""
    statuses, faults = list[int](), set[str]()
    for status, fault, text in views:
        if fault is not None and str(fault) not in faults:
            frame.print_error(fault)
            faults.add(str(fault))
        if text:
            click.echo(text, err=err)
        statuses.append(status)
    return statuses


#: What exit statuses mean of a card. Of several cards the last of these that occurs counts.
_OUTCOMES: Final = {
    errors.EXIT_OK: "trusted",
    errors.EXIT_NO_VERDICT: "without a verdict",
    errors.EXIT_NOT_TRUSTED: "not trusted",
    errors.EXIT_LOCAL_FAULT: "not verified because of a fault here",
}


def _heaviest(statuses: Iterable[int]) -> int:
    return max(statuses, key=list(_OUTCOMES).index, default=errors.EXIT_OK)


def _summarize(statuses: Sequence[int], of: str = "") -> str:
    """Return how many cards came to what, in one line."""
    counts = ((statuses.count(status), words) for status, words in _OUTCOMES.items())
    summary = ", ".join(f"{count:,} {words}" for count, words in counts if count)
    return f"{counted(len(statuses), 'card')}{of}: {summary}"


# ``cardsign peers``: the cards of all issuers of the policy.


@click.group(cls=Group)
def peers() -> None:
    """Verify the cards of the issuers in the policy, and show their state.

    `cards` in trust.toml lists the cards of an issuer.
    """


@peers.command("status", example="cardsign peers status")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@verifier.policy_option
def peers_status(names: tuple[str, ...], trust_file: Path | None) -> int:
    """Show what is known about issuers, without any request.

    For all issuers, or those named, it shows the newest statements that trust.lock and this
    user's cache lead to, and when they expire.

    Exit status: 0 no required peer needs action; 1 something needs action now; 2 a fault
    of this machine. Optional peers do not change it.
    """
    policy = verifier.needed_policy(trust_file)
    by_policy, shown, lines, status = Verifier(policy), [], list[str](), errors.EXIT_OK
    for issuer in verifier.chosen_issuers(policy, names):
        try:
            state, alarms = _state_of(by_policy, issuer)
        except UsageFault as fault:  # the lock lacks this one; the others are shown
            frame.print_error(fault)
            status = fault.exit_status
            continue
        shown.append({**state, "alarms": [alarm.to_json() for alarm in alarms]})
        for name in ("keyset", "release"):
            if end := state[f"{name}_until"]:
                until = minute(datetime.fromisoformat(end))
                state = {**state, name: f"{state[name]}, until {until}", f"{name}_until": None}
        lines += verifier.view_lines(state)
        lines += list_reasons(alarms, len(alarms), "--json")
        if alarms and issuer.peer == "required":
            status = max(status, errors.EXIT_NOT_TRUSTED)
    return show(Answer(shown, lines, exit_status=status))


def _state_of(
    by_policy: Verifier, issuer: TrustedIssuer
) -> tuple[dict[str, Any], Sequence[Finding]]:
    """Return what is known of one issuer here, and what needs action."""
    session, now = by_policy.session(issuer), by_policy.clock()
    trust = session.resolve(NO_STATEMENTS, now)
    alarms = [*trust.blocks, *(trust.hindrances if issuer.freshness == "required" else ())]
    if isinstance(issuer.anchor, Url):  # its keys are asked for with each card
        alarms = []
    keyset, release = session.keyset, session.release
    verifier.say_if_old(keyset, now)
    state = {
        "name": issuer.name,
        "peer": issuer.peer,
        "anchor": verifier.kind_of(issuer.anchor),
        "cards": list(issuer.cards),
        "keyset": keyset and keyset.label,
        "keyset_until": keyset and utc(keyset.exp).isoformat(),
        "release": release and release.seq,
        "release_until": release and utc(release.exp).isoformat(),
    }
    return state, alarms


#: What needs a person though the card is trusted: the issuer's roots may be stolen, or a
#: statement that was seen is withheld, and what is remembered ends.
_ALARMS: Final = frozenset({"statement.fork", "statement.vanished"})


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
    card does not stop the others. Results go to stdout, with --json as one object a line; --quiet
    leaves out trusted cards. The summary goes to stderr.

    Exit status: 0 all required cards are trusted; 1 one is not, or a statement of its issuer has
    vanished or was replaced by another with the same number; 2 a fault of this machine; 3 none of
    these, but one card got no verdict. Optional peers do not change it.
    """
    policy = verifier.needed_policy(trust_file)
    tasks = _cards_to_check(policy, names)
    by_policy = Verifier(policy, net=frame.fetch_settings(insecure))

    def check(task: tuple[TrustedIssuer, str]) -> tuple[TrustedIssuer, Outcome]:
        issuer, url = task
        outcome = attempt(Batch(by_policy, Subject(issuer=issuer.name)), url, None)
        if update and isinstance(outcome.result, Report):  # below, the lock is brought up to date
            reasons = (why for why in outcome.result.reasons if why.code != "lock.behind")
            outcome = outcome._replace(result=replace(outcome.result, reasons=tuple(reasons)))
        return issuer, outcome

    checked: list[tuple[TrustedIssuer, Outcome]] = []

    def results() -> Iterator[View]:  # each as soon as those before it are there
        with ThreadPoolExecutor(verifier.CONCURRENCY) as pool:
            for issuer, outcome in pool.map(check, tasks):
                checked.append((issuer, outcome))
                yield _view(None if is_json() else partial(_peer_lines, issuer), None, outcome)

    statuses = _show_each(results())
    if update:
        for name in by_policy.raise_lock():
            say(f"{policy.lock} has newer statements of {name} now; commit it")
    issuers = len({issuer.name for issuer, _ in tasks})
    line = _summarize(statuses, f" of {counted(issuers, 'issuer')}")
    alarmed = [issuer.peer for issuer, outcome in checked if _has_alarm(outcome.result)]
    say(f"{line}, {len(alarmed)} with an alarm" if alarmed else line)
    required = (outcome for issuer, outcome in checked if issuer.peer == "required")
    status = _heaviest(outcome.result.exit_status for outcome in required)
    needs_action = "required" in alarmed and status != errors.EXIT_LOCAL_FAULT
    return errors.EXIT_NOT_TRUSTED if needs_action else status


def _has_alarm(result: Report | LocalFault) -> bool:
    reasons = () if isinstance(result, LocalFault) else result.reasons
    return any(reason.code in _ALARMS for reason in reasons)


def _peer_lines(issuer: TrustedIssuer, name: str, report: Report) -> Iterator[str]:
    """Yield what is shown of one card; under ``--quiet`` a trusted one is left out."""
    if frame.is_quiet() and report.verdict == "trusted" and not _has_alarm(report):
        return
    yield from verdict_lines(f"{name}{'' if issuer.peer == 'required' else ' (optional)'}", report)
    skills = report.card and report.card.get("skills")
    if isinstance(skills, list):
        yield f"  {counted(len(skills), 'skill')}"


def _cards_to_check(policy: Policy, names: tuple[str, ...]) -> list[tuple[TrustedIssuer, str]]:
    """Return the cards to check; none at all would be a check that cannot fail."""
    issuers = verifier.chosen_issuers(policy, names)
    checks = [(issuer, url) for issuer in issuers for url in dict.fromkeys(issuer.cards)]
    without = ", ".join(issuer.name for issuer in issuers if not issuer.cards)
    message, hint = f"the policy lists no card of {without}", ""
    if not issuers:
        message = "the policy has no issuer yet"
        hint = f"Trust one: cardsign trust add URL --trust {shlex.quote(str(policy.path))}"
    if not checks or (names and without):
        raise UsageFault("policy.no_cards", message, path=str(policy.path), hint=hint)
    if without:
        say(message)
    return checks


# ``cardsign fetch`` and ``call``: the verified card of a live peer, and one call to that peer.

MAX_TEXT: Final = 1024 * 1024  # characters of a message
# An id goes into a path (HTTP+JSON), and into a command that a user may copy.
_ID: Final = re.compile(r"(?!-|\.\.?\Z)[A-Za-z0-9._~:@=+-]{1,256}")


@frame.command(example="cardsign fetch https://agents.example.com -o card.json")
@click.argument("url", metavar="URL")
@frame.output_option(help="Where the verified payload goes; not changed if it is not trusted.")
@click.option(
    "--extended", is_flag=True, help="Fetch the extended card, where the trusted public card says."
)
@click.option(
    "--audience", metavar="ID", help="For whom the extended card must be, as the issuer told you."
)
@verifier.visit_options
def fetch(url: str, output: str, extended: bool, audience: str | None, **options: Any) -> int:
    """Fetch a card, verify it, and write its verified payload.

    A URL without a path means /.well-known/agent-card.json there, then the legacy path. Only what
    the signature covers is written, never the file that was served. With --extended the public
    card is verified first. Then the credential is sent once, to one of its endpoints. The
    extended card must be of this issuer, for this audience, and current.

    Exit status: 0 trusted, 1 not trusted, 2 a fault of this machine, 3 no verdict.
    """
    named = frame.take(verifier.VerifierOptions, options)
    if extended != (audience is not None) or (named.credential is not None and not extended):
        why = "--extended and --audience go together, --credential with them"
        raise UsageFault("usage.conflict", why)
    batch, public, credential = named.visit(url)
    name, report = public.url, public.report
    if audience is not None and report.verdict == "trusted":
        from cardsign.net.endpoints import look_up_extended

        if credential is None:
            message = f"there is no credential for {safe(report.issuer or '')}; nothing was sent"
            raise UsageFault("credential.none", message)
        answer = look_up_extended(
            batch.verifier, public, credential, audience=audience, subject=batch.subject
        )
        name, report = answer.url, answer.report
    if report.card is None:
        return verifier.show_refusal(name, report)
    frame.write_output(output, jcs(report.card), is_exact=True)
    until = f", until {minute(report.valid_until)}" if report.valid_until else ""
    note = f"trusted: {safe(name)}, {safe(report.subject or '')}{until}"
    return show(Answer({"input": name, **report.to_json()}, notes=[note]))


def _check_call(text: str | None, options: Mapping[str, Any]) -> None:
    """Refuse what contradicts itself."""
    task, context = options["task"], options["context"]
    count = (text is not None) + options["get"] + options["cancel"]
    if count != 1 or (text is None and (context or not task)):
        why = "name the TEXT to send, or --task ID with --get or --cancel"
        raise UsageFault("usage.conflict", why)
    for option, value in (("--task", task), ("--context", context)):
        if value and not _ID.fullmatch(value):
            raise UsageFault("usage.invalid", f"{option} takes an id as the agent gave it")


@frame.command(example='cardsign call https://agents.example.com "What is the weather in Bern?"')
@click.argument("url", metavar="URL")
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--task", metavar="ID", help="Continue this task, or --get or --cancel it.")
@click.option("--context", metavar="ID", help="Continue this conversation with a new message.")
@click.option("--get", is_flag=True, help="Print the state and result of the task.")
@click.option("--cancel", is_flag=True, help="Cancel the task.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.IntRange(1, 3600),
    default=60,
    help="The time limit for the whole answer.",
)
@verifier.visit_options
def call(url: str, text: str | None, **options: Any) -> int:
    """Send TEXT ('-': standard input) to the agent at URL, and print what it answers.

    Nothing is sent before the agent's card is trusted. The message goes to an endpoint of the
    verified card, with the client of a2a-sdk, the extra a2a. Redirects are errors,
    and a credential is sent only to its own origin. The answer is printed escaped. If the task is
    not finished, its state is on stderr, with the options that continue it.

    Exit status: 0 answered, 1 not trusted, 2 a fault of this machine, 3 no verdict or no answer.
    It is also 3 if the agent failed, rejected or canceled the task.
    """
    named = frame.take(verifier.VerifierOptions, options)
    _check_call(text, options)
    message = "" if text is None else _read_message(text)
    require("a2a.client", extra="a2a")
    from cardsign.integrations import calling

    # Without a handler of its own Python would print what the SDK logs of a peer's words.
    logging.getLogger("a2a").addHandler(logging.NullHandler())
    batch, public, credential = named.visit(url)
    report = public.report
    if report.card is None:
        return verifier.show_refusal(public.url, report)
    import asyncio

    from cardsign.net.endpoints import Peer

    peer = Peer.of(batch.verifier, public.url, report.card, batch.subject)
    agent = calling.open_call(peer, credential, seconds=options["timeout"])
    if message:
        ids = {name: options[name] or "" for name in ("task", "context")}
        work = agent.send_text(message, **ids)
    else:
        work = agent.ask_task(options["task"], cancel=options["cancel"])
    reply: Reply = asyncio.run(work)
    lines = reply.text.split("\n") if reply.text or message else []
    view = {
        "schema": "cardsign.call/1",
        "input": public.url,
        "issuer": report.issuer,
        "endpoint": {"url": str(agent.endpoint.url), **members(agent.endpoint, "binding version")},
        "state": reply.state or None,
        "task": reply.task or None,
        "context": reply.context or None,
        "final": reply.is_final,
        "unshown_parts": reply.unshown,
        "text": reply.text,
    }
    show(Answer(view, lines))
    if reply.unshown:
        say(f"{counted(reply.unshown, 'part')} without text not shown")
    if reply.is_refusal and not (options["cancel"] and reply.state.endswith("_CANCELED")):
        failure = CallFailed("call.task_failed", f"the agent's task ended as {reply.state}")
        frame.print_error(failure)
        return failure.exit_status
    _say_next_step(reply, is_asked_for=options["get"])
    return report.exit_status


def _say_next_step(reply: Reply, *, is_asked_for: bool) -> None:
    """Say in which state a task is that goes on, and with which options it is continued."""
    task, step = f"--task {_id(reply.task)}", ""
    waits_for_input = reply.state.endswith("_INPUT_REQUIRED")
    if waits_for_input:
        context = f" --context {_id(reply.context)}" if reply.context else ""
        step = f"; answer it by the same command with {task}{context}"
    if reply.state and not reply.state.endswith("_COMPLETED"):
        say(f"task {safe(reply.task)} is {reply.state}{step}")
    if not reply.is_final and not waits_for_input and not is_asked_for:
        say(f"the answer ended before the task did: the same command with {task} --get asks again")


def _id(untrusted_id: str) -> str:
    """Return an id of the agent's choice, where a command that is shown may hold it."""
    return untrusted_id if _ID.fullmatch(untrusted_id) else "ID"


def _read_message(text: str) -> str:
    """Return what is sent."""
    try:
        message = sys.stdin.read(MAX_TEXT + 1) if text == STDIO else text
        message.encode()
    except UnicodeError as exc:
        raise UsageFault("usage.invalid", "TEXT is not UTF-8") from exc
    if not message.strip() or len(message) > MAX_TEXT:
        raise UsageFault("usage.invalid", f"TEXT has 1 to {MAX_TEXT} characters")
    return message


# ``cardsign contract``.


@click.group(cls=Group)
def contract() -> None:
    """Check tasks and responses against the schemas of a verified card."""


@contract.command(
    "check", example="cardsign contract check task.json --card card.json --jwks jwks.json"
)
@click.argument("envelope")
@click.option("--card", metavar="CARD|URL", required=True, help="The agent's card.")
@verifier.subject_options
@verifier.statements_option
def contract_check(envelope: str, card: str, **options: Any) -> int:
    """Check a task or response, ENVELOPE ('-' for stdin), against CARD.

    The card is verified first. If it is not trusted, nothing is checked. No `pattern` of a schema
    is tried. Exit status 0: it keeps the contract. 1: it does not, or the card is not trusted.
    3: nothing breaks it, but part of a schema could not be checked; or there is no verdict.
    """
    from cardsign.contract import check_envelope

    named = frame.take(verifier.VerifierOptions, options)
    name, report = named.batch().examine(card, read_card(card))
    if report.verdict != "trusted":
        return verifier.show_refusal(name, report)
    return show(check_envelope(frame.read_input(envelope), trusted_card(report)))
