"""``cardsign verify``: one verdict for each card."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from functools import partial
from pathlib import Path
from typing import Final

import click

from cardsign.batch import in_processes
from cardsign.card.canonical import DEFAULT_PROFILES
from cardsign.card.extended import AUDIENCE
from cardsign.card.serialize import jcs
from cardsign.cli.arguments import STDIO, json_option, option_group, read_input, write_output
from cardsign.cli.commands import command
from cardsign.cli.inquiry import (
    Inquiry,
    Named,
    Outcome,
    Received,
    heaviest,
    is_url,
    loopback_option,
    summary,
    weightiest,
)
from cardsign.cli.policy import accept_option, raise_lock, statements_option, trust_options
from cardsign.cli.progress import Progress
from cardsign.cli.talk import complain, counted, is_quiet, print_json, say
from cardsign.cli.views import render_verdict
from cardsign.errors import BundleRefused, FileFault, FileMissing, LocalFault, UsageFault
from cardsign.reasons import Reason
from cardsign.records import dataclass
from cardsign.verify.report import Report

MAX_JOBS: Final = 64  # processes
FORMATS: Final = ("text", "json", "sarif", "junit")


def read_time(text: str) -> datetime:
    """The moment that ``--at`` names, in UTC."""
    try:
        try:
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        except ValueError:
            moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise UsageFault("usage.invalid", f"--at takes an ISO date or time, not {text!r}") from exc
    raise UsageFault(
        "usage.invalid",
        f"--at {text!r} says no offset from UTC",
        hint="Write it as 2026-01-31T18:00:00Z, for instance.",
    )


#: Of what ``cardsign verify`` asks, as `named`.
named_options: Final = option_group(
    Named,
    "named",
    click.option(
        "--issuer", metavar="NAME", help="The card must be one of this issuer of the policy."
    ),
    click.option(
        "--origin",
        metavar="ORIGIN",
        help="The card must be one of the issuer that the policy trusts for this origin. With "
        "--jwks alone: every interface must be at this origin.",
    ),
    click.option(
        "--jwks",
        metavar="FILE|URL",
        help="Alone: one of these keys must have signed the card, at any origin. No policy is read "
        "and revocation cannot be seen. With --issuer or --trust: use this instead of asking the "
        "URL of the issuer's `jwks` anchor.",
    ),
    trust_options,
    statements_option,
    click.option(
        "--at",
        type=read_time,
        metavar="TIME",
        help="Ask about another time than now: YYYY-MM-DD, its first second in UTC, or ISO 8601 "
        "with an offset. Nothing is trusted by such a verdict, and nothing remembered.",
    ),
    accept_option,
    click.option(
        "--profile",
        "profiles",
        multiple=True,
        type=click.Choice(DEFAULT_PROFILES),
        help="For experts: count signatures only under this one of the accepted profiles. May be "
        "repeated; --profile served-as-is is the strictest choice.",
    ),
    loopback_option,
)


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How verdicts are printed, and what else is written.

    Attributes:
        output: ``-o``: where the verified payload goes.
        form: ``--format``; None where it is not named.
        as_json: ``--json``.
        verbose: ``--verbose``.
    """

    output: str | None
    form: str | None
    as_json: bool
    verbose: bool

    @property
    def format(self) -> str:
        """One of :data:`FORMATS`.

        Raises:
            UsageFault: ``usage.conflict``: two are named.
        """
        if self.as_json and self.form not in (None, "json"):
            both = f"--json and --format {self.form} ask for two formats"
            raise UsageFault("usage.conflict", both)
        return "json" if self.as_json else self.form or "text"


output_options: Final = option_group(
    OutputOptions,
    "to",
    click.option(
        "-o",
        "--output",
        metavar="OUT",
        help="Write the verified payload of CARD, or with --extended of the extended card, only if "
        "it is trusted; '-' for stdout.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help="How verdicts are printed [default: text]; SARIF 2.1.0 and JUnit XML are one document "
        "for all cards.",
    ),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Show the four answers, the statements, every signature and every reason.",
    ),
    json_option,
)


@command(
    example=(
        "cardsign verify signed.json --jwks jwks.json\n"
        "cardsign verify https://agents.example.com --trust trust.toml"
    )
)
@click.argument("cards", nargs=-1, required=True, metavar="CARD|DIR|URL...")
@named_options
@click.option(
    "--extended",
    metavar="FILE",
    help="Verify this extended card beside its public CARD; with --audience.",
)
@click.option("--audience", metavar="ID", help="The audience that the extended card must be for.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, MAX_JOBS),
    default=1,
    show_default=True,
    metavar="N",
    help="Verify cards in N processes at once.",
)
@output_options
def verify(
    cards: tuple[str, ...],
    named: Named,
    extended: str | None,
    audience: str | None,
    jobs: int,
    to: OutputOptions,
) -> int:
    """Verify each CARD (a file, '-' for stdin), URL, or *.json of a DIR, and say why or why not.

    Say whose card it should be: --issuer, --origin or --jwks. A URL needs none of them. A URL
    without a path means /.well-known/agent-card.json there, then the legacy path. The statements
    that the issuer's anchor needs are fetched too, and remembered. A file may be a bundle: it is
    judged with the statements in it, which are not trusted for being there.

    With --json one object is printed for each card, with the card's name as `input`; several are
    JSON Lines. If a fault of this machine kept a card from being read, the object has `error`
    instead of a verdict. Exit status: 0 trusted, 1 not trusted, 2 a fault of this machine, 3 no
    verdict. Of several cards, 2 counts before 1, 1 before 3, and 3 before 0.

    Several files may be of different issuers. If you name none, each card is judged as one of the
    issuer that the policy trusts for its first interface, and the verdict names that issuer.
    Results are printed as they come, and a summary follows on stderr. A trusted card takes one
    line, or none with --quiet. An error in one card does not stop the others.
    """
    cards, folders = _expanded(cards)
    _check_together(cards, extended, audience, to)
    inquiry = Inquiry.prepare(named)
    if len(cards) > 1:
        return _verify_many(inquiry, cards, folders, jobs, to)
    if extended is not None and audience is not None:
        outcomes = list(_beside(inquiry, cards[0], extended, audience))
    else:
        outcomes = [_judged(inquiry, folders, name) for name in cards]
    if inquiry.loaded is not None and named.at is None:
        raise_lock(inquiry.loaded, inquiry.states)
    if to.output is not None:
        _write_verified(to.output, outcomes[-1])
    for one in outcomes:
        if isinstance(one.result, LocalFault):
            complain(one.result)
    if to.format != "text" and inquiry.unnamed_policy:
        say(f"judged {inquiry.unnamed_policy}")
    if to.format == "text":
        _print_text(outcomes, to, inquiry.unnamed_policy)
    else:
        _PRINTERS[to.format](outcomes)
    return weightiest(outcomes)


def _verify_many(
    inquiry: Inquiry,
    cards: tuple[str, ...],
    folders: Mapping[str, str],
    jobs: int,
    to: OutputOptions,
) -> int:
    """Verify several cards, each printed as it is done where the format allows that."""
    policy, streams = inquiry.unnamed_policy, to.format in ("text", "json")
    if to.format != "text" and policy:
        say(f"judged {policy}")
    statuses: list[int] = []
    kept: list[Outcome] = []
    said: set[Reason] = set()
    results = in_processes(
        partial(_judged, inquiry, folders, by_origin=True), cards, 1 if STDIO in cards else jobs
    )
    with Progress(len(cards), "cards") as progress:
        for name, result in zip(cards, results, strict=True):
            one = result if isinstance(result, Outcome) else Outcome(name, result)
            statuses.append(one.exit_status)
            with progress.paused():
                if isinstance(one.result, LocalFault):
                    one.result.path = one.result.path or name
                    if one.reasons[0] not in said:  # the same fault keeps many cards from a verdict
                        complain(one.result)
                    said.add(one.reasons[0])
                if not streams:
                    kept.append(one)
                elif to.format == "json":
                    print_json(one.to_json(), indent=None)
                elif not isinstance(one.result, LocalFault):
                    _print_one_of_many(one.name, one.result, policy, to)
    if inquiry.loaded is not None and inquiry.named.at is None:
        raise_lock(inquiry.loaded, inquiry.states)
    if kept:
        _PRINTERS[to.format](kept)
    say(summary(statuses))
    return heaviest(statuses)


def _print_one_of_many(name: str, report: Report, policy: str, to: OutputOptions) -> None:
    """A trusted card in one line, and none with ``--quiet``; any other in full."""
    text = render_verdict(name, report, policy, verbose=to.verbose)
    if report.verdict != "trusted":
        click.echo(text)
    elif not is_quiet():
        click.echo(text if to.verbose else text.partition("\n")[0])


# ------------------------------------------------------------------ options


def _expanded(cards: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The cards, with the *.json of a folder and below in its place.

    Folders that are links are not looked into; it is said how many those are.

    Returns:
        The cards; and of those that were found in a folder, that folder.
    """
    names: list[str] = []
    folders: dict[str, str] = {}
    linked = 0
    for name in cards:
        if name == STDIO or is_url(name) or not Path(name).is_dir():
            names.append(name)
            continue
        found: list[str] = []
        for place, below, files in os.walk(name, onerror=_unreadable):
            linked += sum(os.path.islink(os.path.join(place, one)) for one in below)
            found += (os.path.join(place, one) for one in files if one.lower().endswith(".json"))
        if not found:
            raise UsageFault("usage.invalid", "the folder holds no *.json", path=name)
        found = sorted(str(Path(one)) for one in found)
        names += found
        folders |= dict.fromkeys(set(found).difference(cards), name)
    if linked:
        say(f"{counted(linked, 'linked folder')} not looked into")
    return tuple(names), folders


def _unreadable(exc: OSError) -> None:
    why = f"the operating system says: {exc.strerror}"
    raise FileFault("file.unreadable", why, path=str(exc.filename)) from exc


def _check_within(name: str, folder: str) -> None:
    """Check that what a folder holds under this name is a plain file, or a link to one in it.

    A stranger's folder may link to the user's own files, of which messages would show a piece.

    Raises:
        FileFault: ``file.not_plain``, ``file.not_found``, ``file.unreadable``.
    """
    try:
        target = os.path.realpath(name, strict=True)
        is_plain = stat.S_ISREG(os.stat(target).st_mode)
    except FileNotFoundError as exc:
        raise FileMissing("file.not_found", "this link leads nowhere", path=name) from exc
    except OSError as exc:
        why = f"the operating system says: {exc.strerror}"
        raise FileFault("file.unreadable", why, path=name) from exc
    if not Path(target).is_relative_to(os.path.realpath(folder)):
        raise FileFault("file.not_plain", "this link leads out of the folder", path=name)
    if not is_plain:
        raise FileFault("file.not_plain", "this is a device or pipe", path=name)


def _check_together(
    cards: tuple[str, ...],
    extended: str | None,
    audience: str | None,
    to: OutputOptions,
) -> None:
    output, form = to.output, to.format
    if (extended is None) != (audience is None):
        raise UsageFault("usage.conflict", "--extended FILE and --audience ID need one another")
    if audience is not None and not AUDIENCE.fullmatch(audience):
        raise UsageFault("usage.invalid", f"--audience {audience!r} is not {AUDIENCE.pattern}")
    if len(cards) > 1 and (extended is not None or output is not None):
        which = "--extended" if extended is not None else "-o"
        raise UsageFault("usage.conflict", f"{which} is about one CARD, and {len(cards)} are named")
    if [*cards, extended].count(STDIO) > 1:
        raise UsageFault("usage.conflict", "standard input can be read once")
    if output not in (None, STDIO) and any(_is_file(name, output) for name in (*cards, extended)):
        raise UsageFault(
            "usage.conflict", f"-o {output} would put the payload in place of the signed card"
        )
    if output == STDIO and form != "text":
        raise UsageFault("usage.conflict", f"-o - and --format {form} would both print on stdout")


def _is_file(name: str | None, output: str) -> bool:
    """Whether both name one file, however they are spelt."""
    try:
        return name is not None and os.path.samefile(name, output)
    except OSError:  # one of them is not there
        return name == output


# ------------------------------------------------------------------ cards


def _judged(
    inquiry: Inquiry, folders: Mapping[str, str], name: str, *, by_origin: bool = False
) -> Outcome:
    """What came of one card; a card that cannot be read hides no other one."""
    if name in folders:
        try:
            _check_within(name, folders[name])
        except FileFault as fault:
            return Outcome(name, fault)
    if is_url(name):
        met = inquiry.look_up(name)
        return Outcome(met.url, met.report, met.untrusted_card)
    return inquiry.examine_file(name, by_origin=by_origin)


def _beside(inquiry: Inquiry, public: str, extended: str, audience: str) -> Iterator[Outcome]:
    """What came of a public card, then of the extended one, which is worth nothing without it."""
    subject = inquiry.subject(public if is_url(public) else None)
    if subject is None:
        raise UsageFault(
            "usage.conflict",
            "--extended asks whether two cards are of one subject, and nobody is named",
            hint="Name the subject with --issuer, --origin or --jwks.",
        )
    untrusted_extended = read_input(extended)
    if is_url(public):
        met = inquiry.look_up(public)
        if not met.untrusted_card:
            yield Outcome(met.url, met.report)
            return
        received = Received(met.url, met.untrusted_card, met.supplied, met.untrusted_card)
        subject = inquiry.subject(met.url) or subject
    else:
        try:
            received = Received.of_file(public)
        except BundleRefused as refusal:
            yield Outcome(public, inquiry.without_card(refusal, public, subject))
            return
    reports = inquiry.examine_beside(received, untrusted_extended, subject, audience)
    yield Outcome(received.name, reports[0], received.untrusted_file)
    yield Outcome(extended, reports[1], untrusted_extended)


# ------------------------------------------------------------------ output


def _write_verified(output: str, outcome: Outcome) -> None:
    """The octets of the verified payload: their SHA-256 is the signature's `payload_sha256`."""
    if not isinstance(outcome.result, LocalFault) and outcome.result.card is not None:
        write_output(output, jcs(outcome.result.card))


def _print_text(outcomes: list[Outcome], to: OutputOptions, policy: str) -> None:
    for one in outcomes:
        if not isinstance(one.result, LocalFault):
            text = render_verdict(one.name, one.result, policy, verbose=to.verbose)
            click.echo(text, err=to.output == STDIO)


def _print_json(outcomes: list[Outcome]) -> None:
    for one in outcomes:
        print_json(one.to_json(), indent=None if len(outcomes) > 1 else 2)


def _print_sarif(outcomes: list[Outcome]) -> None:
    from cardsign.cli.sarif import sarif_log

    print_json(sarif_log(outcomes))


def _print_junit(outcomes: list[Outcome]) -> None:
    from cardsign.cli.sarif import junit_xml

    click.echo(junit_xml(outcomes))


_PRINTERS: Final[dict[str, Callable[[list[Outcome]], None]]] = {
    "json": _print_json,
    "sarif": _print_sarif,
    "junit": _print_junit,
}
