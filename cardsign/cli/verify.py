"""``cardsign verify``: one verdict for each card."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from cardsign.card.canonical import DEFAULT_PROFILES, FULL_PROFILES
from cardsign.cli.failures import complain
from cardsign.cli.options import STDIO, json_option, of_the_user, read_input
from cardsign.cli.render import render_verdict
from cardsign.cli.talk import print_json
from cardsign.errors import (
    EXIT_LOCAL_FAULT,
    EXIT_NO_VERDICT,
    EXIT_NOT_TRUSTED,
    EXIT_OK,
    LocalFault,
    NoVerdict,
)
from cardsign.files import read_bytes
from cardsign.jose.jwks import MAX_JWKS_BYTES, JwkSet
from cardsign.reasons import Reason
from cardsign.trust.origins import parse_origin
from cardsign.trust.policy import Policy
from cardsign.trust.subject import AtOrigin, CardUrl, Expectation, Holder
from cardsign.verdict import Answers, Report
from cardsign.verify import examine_card

# Several cards, one exit status: the weightiest of theirs.
_WEIGHT: Final = (EXIT_OK, EXIT_NO_VERDICT, EXIT_NOT_TRUSTED, EXIT_LOCAL_FAULT)


@click.command()
@click.argument("cards", nargs=-1, required=True, metavar="CARD|URL...")
@click.option(
    "--jwks",
    metavar="FILE",
    help="The keys that you trust: the verdict is about the holder of these keys, at any "
    "origin, and revocation is not seen.",
)
@click.option("--origin", metavar="ORIGIN", help="Every interface must stand at this origin.")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Choice(DEFAULT_PROFILES),
    help="The profiles that count, instead of the two full ones. May be repeated; "
    "--profile served-as-is is the strictest choice.",
)
@click.option(
    "--insecure-loopback-http",
    is_flag=True,
    help="Ask URLs of this machine, over plain HTTP too; for trying things out.",
)
@json_option
def verify(
    cards: tuple[str, ...],
    jwks: str | None,
    origin: str | None,
    profiles: tuple[str, ...],
    insecure_loopback_http: bool,
    as_json: bool,
) -> int:
    """Verify each CARD (a file, '-' for stdin) or URL, and say why or why not.

    A URL without a path is asked for /.well-known/agent-card.json, then for the legacy path.
    With --json one object is printed for each card, with the card's name as `input`; several
    are JSON Lines. Where a fault of this machine kept a card from being read, the object has an
    `error` instead of a verdict. Exit status: 0 trusted, 1 not trusted, 2 a fault of this
    machine, 3 no verdict; the weightiest of several.
    """
    if origin is not None:
        with of_the_user("--origin"):
            parse_origin(origin)
    policy = _policy(jwks, origin, profiles or FULL_PROFILES)
    statuses = [EXIT_OK]
    for name, untrusted_bytes, failure in _inputs(cards, insecure_loopback_http):
        indent = None if len(cards) > 1 else 2
        if isinstance(failure, LocalFault):
            complain(failure)
            statuses.append(failure.exit_status)
            if as_json:
                print_json({"input": name, "error": _reason(failure).to_json()}, indent=indent)
            continue
        expect = _expectation(name, jwks, origin)
        if failure is not None:
            enrolled = policy.find(expect) if jwks is not None else None
            subject = enrolled.name if enrolled else origin or name
            report = Report("indeterminate", subject, Answers(), (_reason(failure),))
        else:
            now = datetime.now(UTC)
            report = examine_card(untrusted_bytes, expect=expect, policy=policy, now=now)
        statuses.append(report.exit_status)
        if as_json:
            print_json({"input": name, **report.to_json()}, indent=indent)
        else:
            click.echo(render_verdict(name, report))
    return max(statuses, key=_WEIGHT.index)


def _reason(failure: LocalFault | NoVerdict) -> Reason:
    return Reason.of(failure.code, failure.message, failure.path, failure.hint)


def _policy(jwks: str | None, origin: str | None, profiles: tuple[str, ...]) -> Policy:
    if jwks is None:
        return Policy()
    with of_the_user(jwks):
        keys = JwkSet.from_bytes(read_bytes(Path(jwks), max_bytes=MAX_JWKS_BYTES))
    holder = f"the holder of the keys in {Path(jwks).name}"
    name = holder if origin is None else f"{holder}, at {origin}"
    return Policy.holder_of_keys(keys, name=name, origin=origin, profiles=profiles)


def _expectation(name: str, jwks: str | None, origin: str | None) -> Expectation | None:
    if jwks is not None:
        return Holder()
    if origin is not None:
        return AtOrigin(origin)
    return CardUrl(name) if _is_url(name) else None


def _is_url(name: str) -> bool:
    return name.startswith(("https://", "http://"))


def _inputs(
    cards: tuple[str, ...], insecure_loopback_http: bool
) -> Iterator[tuple[str, bytes, LocalFault | NoVerdict | None]]:
    """Each card's bytes, or why they could not be had; one failure hides no other card."""
    for name in cards:
        try:
            if _is_url(name):
                from cardsign.net.fetch import FetchPolicy, fetch_card

                allowed = FetchPolicy(insecure_loopback_http=insecure_loopback_http)
                fetched = fetch_card(name, policy=allowed)
                yield fetched.url, fetched.body, None
            else:
                yield name if name != STDIO else "(stdin)", read_input(name), None
        except (LocalFault, NoVerdict) as failure:
            yield name, b"", failure
