"""``cardsign call``: one message to a peer whose card is trusted, by the official SDK."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Final

import click

from cardsign.cli.arguments import STDIO, json_option
from cardsign.cli.commands import command
from cardsign.cli.inquiry import Visit, VisitOptions, visit_options
from cardsign.cli.talk import complain, print_json, safe, say
from cardsign.cli.views import render_verdict
from cardsign.errors import CallFailed, UsageFault

if TYPE_CHECKING:
    from cardsign.card.strictjson import Json
    from cardsign.integrations.calling import Reply
    from cardsign.net.endpoints import Endpoint

SCHEMA: Final = "cardsign.call/1"
MAX_TEXT: Final = 1024 * 1024  # characters of a message
DEFAULT_TIMEOUT: Final = 60.0  # seconds; agents think


@command(example='cardsign call https://agents.example.com "What is the weather in Bern?"')
@click.argument("url", metavar="URL")
@click.argument("text", metavar="TEXT")
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3600),
    default=DEFAULT_TIMEOUT,
    show_default=True,
    metavar="SECONDS",
    help="For the whole answer, a stream of events included.",
)
@visit_options
@json_option
def call(url: str, text: str, timeout: float, whom: VisitOptions, as_json: bool) -> int:
    """Send TEXT ('-': standard input) to the agent at URL, and print what it answers.

    Nothing is sent before the agent's card is trusted, and then only to an endpoint that the
    verified card names, by the client of a2a-sdk: pip install 'cardsign[a2a]'. Redirects are
    errors, and a credential goes nowhere but where it belongs. What the agent says is escaped,
    and the state of a task that goes on is said on stderr.

    Exit status: 0 answered, 1 not trusted, 2 a fault of this machine, 3 no verdict, or no answer;
    a task that failed or was rejected is none.
    """
    calling = _calling()
    message = _message(text)
    if not message.strip() or len(message) > MAX_TEXT:
        raise UsageFault("usage.invalid", f"TEXT has 1 to {MAX_TEXT} characters")
    if math.isnan(timeout):
        raise UsageFault("usage.invalid", "--timeout is no number of seconds")
    visit = Visit.to(url, whom)
    report = visit.public.report
    if report.card is None:
        if as_json:
            print_json({"input": visit.public.url, **report.to_json()})
        else:
            click.echo(render_verdict(visit.public.url, report), err=True)
        return report.exit_status
    endpoint, reply = _called(calling, visit, report.card, message, timeout)
    if as_json:
        print_json(_as_json(visit, endpoint, reply))
    else:
        click.echo("\n".join(safe(line, limit=len(line)) for line in reply.text.split("\n")))
    if reply.unshown:
        say(f"{reply.unshown} parts that are no text are not shown")
    if reply.is_refusal:
        failure = CallFailed("call.task_failed", f"the agent's task ended as {reply.state}")
        if not as_json:
            raise failure
        complain(failure)  # the object above says the state
        return failure.exit_status
    if reply.state and not reply.state.endswith("_COMPLETED"):
        say(f"task {safe(reply.task)} is {reply.state}")
    if not reply.is_final:
        say("the answer ended before the task did: there may be more of it")
    return report.exit_status


def _message(text: str) -> str:
    """What is sent."""
    try:
        message = sys.stdin.read(MAX_TEXT + 1) if text == STDIO else text
        message.encode()
    except UnicodeError as exc:
        raise UsageFault("usage.invalid", "TEXT is not UTF-8") from exc
    return message


def _calling() -> ModuleType:
    """The module that needs the SDK."""
    try:
        from cardsign.integrations import calling
    except ImportError as exc:
        raise UsageFault("call.not_installed", f"a2a-sdk cannot be loaded: {exc}") from exc
    # Without a handler of its own Python would print what the SDK logs of a peer's words.
    logging.getLogger("a2a").addHandler(logging.NullHandler())
    return calling


def _called(
    calling: ModuleType, visit: Visit, payload: dict[str, Json], message: str, timeout: float
) -> tuple[Endpoint, Reply]:
    from cardsign.net.credentials import demands_credentials
    from cardsign.net.endpoints import endpoints_of, is_outside

    endpoints = endpoints_of(payload, calling.SPOKEN)
    errand = visit.credentials.for_call(visit.owner, endpoints)
    policy, url = visit.inquiry.policy, errand.endpoint.for_messages()
    issuer = policy.find(visit.subject)
    if issuer is not None and is_outside(url, policy, issuer):
        raise CallFailed(
            "call.no_interface", f"{url} lies outside the places of {issuer.name}; nothing was sent"
        )
    if visit.credentials.is_for_extended_alone(visit.owner):
        say(f"what you have for {safe(visit.owner)} is for extended cards; calling without")
    elif errand.credential is None and demands_credentials(payload):
        say("the card demands credentials, and you have none for it; calling without")
    header = visit.credentials.open(errand, payload)
    reply: Reply = asyncio.run(
        calling.send_text(
            payload, errand.endpoint, header, message, wire=visit.wire, total_timeout=timeout
        )
    )
    return errand.endpoint, reply


def _as_json(visit: Visit, endpoint: Endpoint, reply: Reply) -> dict[str, Json]:
    report = visit.public.report
    return {
        "schema": SCHEMA,
        "input": visit.public.url,
        "issuer": report.issuer,
        "endpoint": {
            "url": str(endpoint.url),
            "binding": endpoint.binding,
            "version": endpoint.version,
        },
        "state": reply.state or None,
        "task": reply.task or None,
        "context": reply.context or None,
        "final": reply.is_final,
        "unshown_parts": reply.unshown,
        "text": reply.text,
    }
