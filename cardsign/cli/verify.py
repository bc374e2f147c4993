"""``cardsign verify``: one verdict for each card."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import click

from cardsign.batch import Batch, Outcome, heaviest, verify_many
from cardsign.card.canonical import DEFAULT_PROFILES
from cardsign.card.values import jcs
from cardsign.cli.frame import Command
from cardsign.cli.options import (
    accept_option,
    format_option,
    network_option,
    policy_option,
    statements_option,
    take,
)
from cardsign.cli.printer import (
    asked_form,
    counted,
    is_quiet,
    print_json,
    say,
    write_line,
)
from cardsign.cli.progress import Progress
from cardsign.cli.streams import STDIO, read_input, refuse_two_documents, write_output
from cardsign.cli.verifier import VerifierOptions, check_audience, summary
from cardsign.errors import (
    EXIT_OK,
    FileMissing,
    LocalFault,
    UsageFault,
)
from cardsign.files import MAX_INPUT_BYTES, file_fault, read_bytes
from cardsign.inputs import Inputs, is_object, read_object
from cardsign.urls import is_url
from cardsign.verify.text import first_line, verdict_lines

MAX_JOBS: Final = 64  # processes
MAX_LIST_BYTES: Final = 64 * 1024**2  # a million names


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


@dataclass(frozen=True, slots=True)
class ManyOptions:
    """How many cards are verified: each field is the option of its name."""

    jobs: int = 1
    cluster: str | None = None
    lists: tuple[str, ...] = ()
    results: Path | None = None

    def named(self, cards: Sequence[str]) -> list[str]:
        """The cards of the command line and of the lists."""
        names = [*cards, *(name for list_file in self.lists for name in _listed(list_file))]
        if not names:
            raise UsageFault(
                "usage.invalid", "no CARD is named", hint="See cardsign verify --help."
            )
        return names

    def check(self, form: str, about_one: str | None) -> None:
        """Check that what is asked for goes together."""
        if self.results is not None and (form not in ("text", "json") or about_one is not None):
            why = "--results takes verdicts on many cards, as JSON"
            raise UsageFault("usage.conflict", why, hint="Leave out --format, --extended and -o.")
        if self.cluster is not None and self.jobs > 1:
            why = "-j is for processes here, and --cluster for workers elsewhere"
            raise UsageFault("usage.conflict", why, hint="Leave one of the two out.")


@click.command(
    cls=Command,
    advanced=(
        *("--statements", "--at", "--accept", "--profile"),
        *("--extended", "--audience", "--jobs", "--cluster", "--list", "--results"),
        *("--serve", "--insecure-loopback-http"),
    ),
    example=(
        "cardsign verify signed.json --jwks jwks.json\n"
        "cardsign verify https://agents.example.com --trust trust.toml"
    ),
)
@click.argument("cards", nargs=-1, metavar="CARD|DIR|URL...")
@click.option("--issuer", metavar="NAME", help="The card must be one of this issuer of the policy.")
@click.option(
    "--origin",
    metavar="ORIGIN",
    help="The card must be one of the issuer that the policy trusts for this origin. With --jwks "
    "alone: every interface must be at this origin.",
)
@click.option(
    "--jwks",
    metavar="FILE|URL",
    help="Alone: one of these keys must have signed the card, at any origin. No policy is read and "
    "revocation cannot be seen. With --issuer or --trust: use this instead of asking the URL "
    "of the issuer's `jwks` anchor.",
)
@policy_option
@statements_option
@click.option(
    "--at",
    metavar="TIME",
    type=read_time,
    help="Judge the card at another time: YYYY-MM-DD (0:00 UTC), or ISO 8601 with an offset. "
    "Such a verdict trusts nothing.",
)
@accept_option
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Choice(DEFAULT_PROFILES),
    help="For experts: of the accepted profiles, count only this one. May be repeated; --profile "
    "served-as-is is the strictest choice.",
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
    "cluster. Workers read objects and URLs, and are sent everything else.",
)
@click.option(
    "--list",
    "lists",
    metavar="FILE",
    multiple=True,
    help="Verify the cards that this file or object names too, one a line; '-' for stdin. May be "
    "repeated.",
)
@click.option(
    "--results",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append each verdict to FILE as a line of JSON, in place of printing it. FILE is not "
    "read.",
)
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    help="Write the verified payload of CARD, or with --extended of the extended card, only if it "
    "is "
    "trusted; '-' for stdout.",
)
@click.option(
    "--serve",
    metavar="HOST:PORT|PATH",
    help="Answer POST /verify at an address of this machine, or at a socket, for programs in other "
    "languages. Nothing is fetched.",
)
@format_option("json", "sarif", text="; SARIF 2.1.0 is one document for all cards")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show the four answers, the statements, every signature and every reason.",
)
def verify(
    cards: tuple[str, ...],
    extended: str | None,
    audience: str | None,
    output: str | None,
    verbose: bool,
    **options: Any,
) -> int:
    """Verify each CARD (a file, '-' for stdin), folder or URL, and say why or why not.

    Say whose card it should be: --jwks, --issuer or --origin. A URL needs none of them; without a
    path it means /.well-known/agent-card.json, or else the legacy path. In a folder, each
    *.json is verified; s3://BUCKET/CARD and other stores need the extra cluster.

    With --json one object is printed for each card, with its name as `input`; several are JSON
    Lines. Several trusted cards take one line each, or none with --quiet.

    Exit status: 0 trusted, 1 not trusted, 2 a fault of this machine, 3 no verdict. With several
    cards, the first of 2, 1, 3, 0 that occurs counts.
    """
    where, named = options.pop("serve"), VerifierOptions.take(options)
    many = take(ManyOptions, options)
    if where is not None:
        return _serve(where, named, cards, extended, audience, output)
    form = asked_form()
    inputs = Inputs.of(many.named(cards))
    names: Sequence[str] = inputs.names
    _say_passed(inputs)
    _check_together(names, extended, audience, output)
    many.check(form, extended or output)
    batch = named.batch(by_origin=len(names) > 1, audience=audience)
    if STDIO in names:
        inputs.given[STDIO] = read_input(STDIO, max_bytes=MAX_INPUT_BYTES)
    how: Any = {"read": inputs.read, "jobs": many.jobs, "cluster": many.cluster}
    policy = batch.verifier.policy.unnamed
    if form != "text" and policy:
        say(f"judged {policy}")
    style = _Style(form, policy, named.jwks, verbose, is_quiet())
    if many.results is not None:
        names, style = [*dict.fromkeys(names)], style._replace(form="file")
    if len(names) > 1 or many.results is not None:
        verdicts = verify_many(names, batch, view=style.of_many, **how)
        statuses = _show_each(
            verdicts, style, len(names), file=many.results, now=batch.verifier.clock
        )
        say(summary(statuses))
        return heaviest(statuses)
    if extended is None or audience is None:
        outcomes = list(verify_many(names, batch, view=_whole, **how))
    else:
        outcomes = _beside(batch, names[0], inputs.given, extended)
    if output is not None:
        _write_payload(output, outcomes[-1])
    return heaviest(
        _show_each(map(style.of_one, outcomes), style, len(outcomes), err=output == STDIO)
    )


def _say_passed(inputs: Inputs) -> None:
    """Say what of the folders is no card."""
    for passed, count in inputs.passed.items():
        if count:
            say(f"{counted(count, passed)} not looked into")


def _write_payload(output: str, outcome: Outcome) -> None:
    """Write the octets of the verified payload: their SHA-256 is `payload_sha256`."""
    if not isinstance(outcome.result, LocalFault) and outcome.result.card is not None:
        write_output(output, jcs(outcome.result.card), is_exact=True)


def _serve(where: str, named: VerifierOptions, *others: object) -> int:
    """Answer the questions of other programs, until it is stopped."""
    if any(others) or named.at is not None or is_url(named.jwks or ""):
        why = "--serve goes without cards, -o, --extended and --at, and with keys in a file"
        raise UsageFault("usage.conflict", why)
    from cardsign.server.sidecar import serve_verdicts

    serve_verdicts(named.batch, where, as_json=asked_form() == "json")
    return EXIT_OK


class _Verdict(NamedTuple):
    """What is shown of one card: all that a worker process sends back.

    Attributes:
        status: The exit status.
        lines: The text.
        value: The JSON value, or of SARIF the subject.
        fault: What kept the card from a verdict.
    """

    status: int
    lines: Sequence[str] = ()
    value: Any = None
    fault: LocalFault | None = None


class _Style(NamedTuple):
    """How verdicts are shown: their form, which policy decided, and how much of each is said."""

    form: str
    policy: str
    keys: str | None
    verbose: bool
    is_quiet: bool

    def of_one(self, outcome: Outcome) -> _Verdict:
        """Return a verdict with all that decided it."""
        report = outcome.result
        fault = _or_a_host(report, outcome.name) if isinstance(report, LocalFault) else None
        status = report.exit_status
        if self.form == "sarif":
            return _Verdict(status, value=outcome.to_scan_result(), fault=fault)
        if self.form != "text":
            return _Verdict(status, value=outcome.to_json(), fault=fault)
        if isinstance(report, LocalFault):
            return _Verdict(status, fault=fault)
        lines = verdict_lines(
            outcome.name, report, self.policy, verbose=self.verbose, keys=self.keys
        )
        return _Verdict(status, [*lines])

    def of_many(self, outcome: Outcome) -> _Verdict:
        """Return it as one of many: a trusted card takes one line, or none with --quiet."""
        report = outcome.result
        if self.form == "file" and not isinstance(report, LocalFault):
            sha256 = hashlib.sha256(outcome.untrusted_bytes).hexdigest()
            return _Verdict(report.exit_status, value={**outcome.to_json(), "sha256": sha256})
        is_brief = self.form == "text" and outcome.verdict == "trusted"
        if isinstance(report, LocalFault) or not is_brief or (self.verbose and not self.is_quiet):
            return self.of_one(outcome)
        line = first_line(outcome.name, report, self.policy)
        return _Verdict(report.exit_status, [] if self.is_quiet else [line])


def _show_each(
    verdicts: Iterable[_Verdict],
    style: _Style,
    count: int,
    *,
    file: Path | None = None,
    now: Callable[[], datetime] | None = None,
    err: bool = False,
) -> list[int]:
    """Show verdicts as they are reached, and return their exit statuses.

    Args:
        verdicts: In the order of the cards.
        style: How they are shown.
        count: How many there are.
        file: Append them to this file, which is never read.
        now: The time of a verdict in the file.
        err: Text goes to stderr.
    """
    statuses, subjects, indent = list[int](), [], 2 if count == 1 else None
    with _appended(file) as lines, Progress(count) as progress:
        for verdict in verdicts:
            statuses.append(verdict.status)
            with progress.paused():
                if verdict.fault is not None:
                    progress.print_error(verdict.fault)
                for line in verdict.lines:
                    write_line(line, err=err)
                if style.form == "sarif":
                    subjects.append(verdict.value)
                elif style.form == "json":
                    print_json(verdict.value, indent=indent)
                elif verdict.value is not None and now is not None and verdict.fault is None:
                    judged_at = now().isoformat()
                    print_json({**verdict.value, "judged_at": judged_at}, indent=None, file=lines)
    if style.form == "sarif":
        from cardsign.cli.sarif import sarif_log

        print_json(sarif_log(subjects, heaviest(statuses)))
    return statuses


def _whole(outcome: Outcome) -> Outcome:
    return outcome


@contextmanager
def _appended(file: Path | None) -> Iterator[IO[str] | None]:
    """Open a file to append lines to, if one is named."""
    if file is None:
        yield None
        return
    try:  # whole lines, if several runs append
        lines = file.open("a", encoding="ascii", buffering=1)
    except OSError as exc:
        raise file_fault(exc, file, "file.unwritable") from exc
    with lines:
        yield lines


def _listed(name: str) -> list[str]:
    """The names that a list holds, one a line; ``#`` begins a remark.

    A list from a store is a stranger's word, so it names nothing of this machine.
    """
    is_far = is_object(name)
    read = read_object if is_far else read_input
    data = read(name, max_bytes=MAX_LIST_BYTES)
    if len(data) > MAX_LIST_BYTES:
        raise UsageFault("usage.invalid", f"a list has {MAX_LIST_BYTES:,} bytes at most", path=name)
    lines = (line.strip() for line in os.fsdecode(data).splitlines())
    names = [line for line in lines if line and not line.startswith("#")]
    near = [entry for entry in names if is_far and not is_url(entry) and not is_object(entry)]
    if near:
        why = f"a list from a store names objects and URLs, not {near[0][:80]!r}"
        hint = "Copy the list to this machine first, and read it there."
        raise UsageFault("usage.invalid", why, path=name, hint=hint)
    return names


def _check_together(
    cards: Sequence[str], extended: str | None, audience: str | None, output: str | None
) -> None:
    check_audience(audience, is_extended=extended is not None)
    if len(cards) > 1 and (extended is not None or output is not None):
        which = "--extended" if extended is not None else "-o"
        raise UsageFault("usage.conflict", f"{which} is about one CARD, and {len(cards)} are named")
    named = [name for name in (*cards, extended) if name is not None]
    if named.count(STDIO) > 1:
        raise UsageFault("usage.conflict", "standard input can be read once")
    if output not in (None, STDIO) and any(_is_file(name, output) for name in named):
        raise UsageFault(
            "usage.conflict", f"-o {output} would put the payload in place of the signed card"
        )
    refuse_two_documents(output)


def _is_file(name: str, output: str) -> bool:
    """Whether both name one file, however they are spelt."""
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
    """The same fault; where the missing file looks like a host, with the URL to give instead."""
    is_file_name = name.endswith(".json") and "/" not in name
    if isinstance(fault, FileMissing) and _HOST.fullmatch(name[:300]) and not is_file_name:
        fix = f"For a card on the web give its URL: cardsign verify https://{name}"
        fault.finding = replace(fault.finding, fix=fix)
    return fault
