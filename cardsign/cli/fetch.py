"""``cardsign fetch`` and ``call``: the verified card of a live peer, and one call to that peer."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from cardsign.card.values import jcs
from cardsign.cli import frame
from cardsign.cli.frame import Answer, members, safe, say, show
from cardsign.cli.verifier import VerifierOptions, show_refusal, visit_options
from cardsign.errors import CallFailed, UsageFault, require
from cardsign.findings import counted
from cardsign.times import minute

if TYPE_CHECKING:
    from cardsign.card.values import Json
    from cardsign.integrations.calling import Reply
    from cardsign.net.discovery import Discovery
    from cardsign.net.endpoints import Endpoint

SCHEMA: Final = "cardsign.call/1"
MAX_TEXT: Final = 1024 * 1024  # characters of a message
# An id goes into a path (HTTP+JSON), and into a command that a user may copy.
_ID: Final = re.compile(r"(?!-|\.\.?\Z)[A-Za-z0-9._~:@=+-]{1,256}")
DEFAULT_TIMEOUT: Final = 60  # seconds; agents think


@frame.command(example="cardsign fetch https://agents.example.com -o card.json")
@click.argument("url", metavar="URL")
@frame.output_option(help="Where the verified payload goes; not changed if it is not trusted.")
@click.option(
    "--extended", is_flag=True, help="Fetch the extended card, where the trusted public card says."
)
@click.option(
    "--audience", metavar="ID", help="For whom the extended card must be, as the issuer told you."
)
@visit_options
def fetch(url: str, output: str, extended: bool, audience: str | None, **options: Any) -> int:
    """Fetch a card, verify it, and write its verified payload.

    A URL without a path means /.well-known/agent-card.json there, then the legacy path. Only what
    the signature covers is written, never the file that was served. With --extended the public
    card is verified first. Then the credential is sent once, to one of its endpoints. The
    extended card must be of this issuer, for this audience, and current.

    Exit status: 0 trusted, 1 not trusted, 2 a fault of this machine, 3 no verdict.
    """
    named = frame.take(VerifierOptions, options)
    if extended != (audience is not None):
        raise UsageFault("usage.conflict", "--extended and --audience ID need one another")
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
        return show_refusal(name, report)
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
    default=DEFAULT_TIMEOUT,
    help="The time limit for the whole answer.",
)
@visit_options
def call(url: str, text: str | None, **options: Any) -> int:
    """Send TEXT ('-': standard input) to the agent at URL, and print what it answers.

    Nothing is sent before the agent's card is trusted. The message goes to an endpoint of the
    verified card, with the client of a2a-sdk, the extra a2a. Redirects are errors,
    and a credential is sent only to its own origin. The answer is printed escaped. If the task is
    not finished, its state is on stderr, with the options that continue it.

    Exit status: 0 answered, 1 not trusted, 2 a fault of this machine, 3 no verdict or no answer.
    It is also 3 if the agent failed, rejected or canceled the task.
    """
    named = frame.take(VerifierOptions, options)
    _check_call(text, options)
    message = "" if text is None else _read_message(text)
    require("a2a.client", extra="a2a")
    from cardsign.integrations import calling

    # Without a handler of its own Python would print what the SDK logs of a peer's words.
    logging.getLogger("a2a").addHandler(logging.NullHandler())
    batch, public, credential = named.visit(url)
    report = public.report
    if report.card is None:
        return show_refusal(public.url, report)
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
    show(Answer(_to_json(public, agent.endpoint, reply), lines))
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
    if reply.state and not reply.state.endswith("_COMPLETED"):
        if reply.state.endswith("_INPUT_REQUIRED"):
            context = f" --context {_id(reply.context)}" if reply.context else ""
            step = f"; answer it by the same command with {task}{context}"
        say(f"task {safe(reply.task)} is {reply.state}{step}")
    if not reply.is_final and not is_asked_for:
        say(f"the answer ended before the task did: the same command with {task} --get asks again")


def _id(untrusted_id: str) -> str:
    """Return an id of the agent's choice, where a command that is shown may hold it."""
    return untrusted_id if _ID.fullmatch(untrusted_id) else "ID"


def _read_message(text: str) -> str:
    """Return what is sent."""
    try:
        message = sys.stdin.read(MAX_TEXT + 1) if text == frame.STDIO else text
        message.encode()
    except UnicodeError as exc:
        raise UsageFault("usage.invalid", "TEXT is not UTF-8") from exc
    if not message.strip() or len(message) > MAX_TEXT:
        raise UsageFault("usage.invalid", f"TEXT has 1 to {MAX_TEXT} characters")
    return message


def _to_json(public: Discovery, endpoint: Endpoint, reply: Reply) -> dict[str, Json]:
    return {
        "schema": SCHEMA,
        "input": public.url,
        "issuer": public.report.issuer,
        "endpoint": {"url": str(endpoint.url), **members(endpoint, "binding version")},
        "state": reply.state or None,
        "task": reply.task or None,
        "context": reply.context or None,
        "final": reply.is_final,
        "unshown_parts": reply.unshown,
        "text": reply.text,
    }
