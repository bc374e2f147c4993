"""``cardsign resign``: the copy of a card that a gateway serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from cardsign.batch import Batch
from cardsign.card.strictjson import MAX_CARD_BYTES
from cardsign.cli.frame import Command, moment
from cardsign.cli.keystore import UnlockOptions
from cardsign.cli.options import (
    PATH,
    WatchOptions,
    accept_option,
    network_option,
    policy_option,
    statements_option,
    take,
    unlock_options,
)
from cardsign.cli.printer import Answer, is_json, safe, say, say_notes, show, write_line
from cardsign.cli.sign import CardOptions
from cardsign.cli.streams import STDIO, write_output
from cardsign.cli.verifier import VerifierOptions
from cardsign.cli.views import say_updated
from cardsign.config import ProjectConfig
from cardsign.errors import (
    EXIT_OK,
    CardRefused,
    CardsignError,
    FileMissing,
    InputRefused,
    LocalFault,
    UsageFault,
)
from cardsign.files import read_bytes
from cardsign.findings import Finding
from cardsign.gateway import is_copy, is_over, is_past, resign_card
from cardsign.inputs import Inputs
from cardsign.issuer.publishing import newest_generation, publish_cards
from cardsign.issuer.signers import CardSigners
from cardsign.issuer.work import Work
from cardsign.publish.generation import CURRENT_FILE, tell_servers
from cardsign.sign.signing import SigningOptions
from cardsign.verify.report import Report
from cardsign.verify.text import verdict_lines


@click.command(
    cls=Command,
    example="cardsign resign https://agent.example --url https://gw.example/a -o copy.json",
)
@click.argument("card", metavar="URL|FILE")
@click.option(
    "--url",
    metavar="NEW",
    required=True,
    help="The gateway's endpoint. {path} stands for the path of each endpoint of the card.",
)
@click.option("-o", "--output", metavar="OUT", default=STDIO, help="'-' for stdout, the default.")
@click.option(
    "--publish",
    "publication",
    metavar="DIR",
    type=PATH,
    help="Publish the copy in DIR too, and take it down with OUT; needs -o. Where DIR is one of "
    "the agents of `cardsign serve`, a copy that was taken down is gone in two seconds.",
)
@click.option("--watch", is_flag=True, help="Go on, and follow the card; needs -o.")
@click.option(
    "--every",
    type=click.IntRange(1, 86_400),
    default=300,
    show_default=True,
    metavar="SECONDS",
    help="How often --watch looks.",
)
@click.option("--key", "uris", metavar="URI", multiple=True, help="As for `cardsign sign`.")
@click.option(
    "--issuer",
    metavar="NAME",
    help="Whose card it must be, by the policy's own name [default: the issuer that the policy "
    "trusts for the URL]. A file needs it.",
)
@click.option(
    "--jwks",
    metavar="FILE|URL",
    help="Whose card it must be: the holder of these keys. Revocation cannot be seen.",
)
@accept_option
@policy_option
@statements_option
@network_option
@unlock_options
def resign(
    card: str,
    url: str,
    output: str,
    publication: Path | None,
    uris: tuple[str, ...],
    **options: Any,
) -> int:
    """Verify a card, point it at your gateway, and sign the copy with your keys.

    The copy names the issuer and the payload that it came from. It carries none of the
    issuer's signatures. OUT is removed if a statement of the issuer withdraws the card or revokes
    its key, or if your policy no longer has the issuer. It is also removed after its
    `valid_until`.
    Errors and other answers never remove it: anyone on the network could forge them.

    Exit status: 0 signed or unchanged, 1 not trusted, 2 a fault of this machine, 3 no verdict.
    """
    watching = take(WatchOptions, options)
    named = VerifierOptions.take(options)
    keystore = take(UnlockOptions, options)
    if output == STDIO and (watching.watch or is_json() or publication):
        raise UsageFault("usage.conflict", "--watch, --publish and --json need -o OUT")
    keys, copies = CardOptions(uris=uris), _Copies(output, publication)

    def look() -> int:
        now = moment()
        # Policy, keys and card are read anew each time: what was trusted may not be any more.
        try:
            batch = named.batch()
        except UsageFault as fault:
            if fault.code == "policy.unknown_issuer":
                copies.remove(fault.message)
            raise
        name, report = _examined(batch, card)
        if report.verdict != "trusted":
            return _refuse(name, report, copies, has_policy=batch.file is not None)
        signers = keys.signers(keystore, now=now)
        before = copies.before()
        with _replacing(copies, report):
            signed, names = resign_card(
                report,
                signers.signers,
                url=url,
                now=now,
                options=SigningOptions(own_kids=signers.own_kids, file=output),
                previous=before,
            )
        if changed := signed.document != before:
            write_output(output, signed.document)
        if changed or not watching.watch:
            _tell((*signed.notes, *names), name, output, signers, changed)
        if publication is not None:
            config = ProjectConfig(publish=publication)
            told = publish_cards(Work(keystore.open(), now, config), signed.document)
            if told.generation.created or not watching.watch:
                say_updated(told, publication)
        return EXIT_OK

    return watching.repeat(copies.in_time(look))


def _examined(batch: Batch, card: str) -> tuple[str, Report]:
    outcome = batch.examine(card, Inputs().read(card))
    if isinstance(outcome.result, LocalFault):
        raise outcome.result
    return outcome.name, outcome.result


@dataclass(frozen=True, slots=True)
class _Copies:
    """The copy in OUT, and the one that is published: they go together."""

    output: str
    publication: Path | None

    def before(self) -> bytes | None:
        """The copy in OUT that was made before."""
        if self.output == STDIO:
            return None
        try:
            return read_bytes(Path(self.output), max_bytes=MAX_CARD_BYTES)
        except FileMissing:
            return None

    def __iter__(self) -> Iterator[bytes]:
        # OUT may be lost or damaged, as in a container that begins anew.
        if (before := self.before()) is not None:
            yield before
        if (newest := newest_generation(self.publication)) and is_copy(newest.card):
            yield newest.card

    def any(self, ends: Callable[[bytes], bool]) -> bool:
        """Whether one of them has to go; what is no card says nothing."""
        for copy in self:
            with suppress(InputRefused):
                if ends(copy):
                    return True
        return False

    def remove(self, why: str) -> None:
        """Withdraw them; first the published one, as OUT says that it is left.

        What no gateway has made stays: a file that was named by mistake may be the only one.
        """
        if not self.any(is_copy):
            return
        newest = newest_generation(self.publication)
        if self.publication is not None and (newest is None or is_copy(newest.card)):
            (self.publication / CURRENT_FILE).unlink(missing_ok=True)
            tell_servers(self.publication)
        before = self.before()
        if before is not None and not is_copy(before):
            gone = f"removed the copy in {safe(str(self.publication))}"
            say(f"{gone}: {safe(why)}. {safe(self.output)} is no copy, so it stays")
            return
        Path(self.output).unlink(missing_ok=True)
        rest = f"{self.publication} gives it up too" if self.publication else _TAKE_OFF
        say(f"removed {safe(self.output)}: {safe(why)}. {safe(rest)}")

    def in_time(self, look: Callable[[], int]) -> Callable[[], int]:
        """The same look; where it ends without a verdict, what is past is withdrawn."""

        def looked() -> int:
            try:
                return look()
            except CardsignError:
                now = moment()
                if self.any(lambda copy: is_past(copy, now)):
                    self.remove("its time is over, and there is no verdict on its card")
                raise

        return looked


_TAKE_OFF: Final = "Take it off your server too"


def _refuse(name: str, report: Report, copies: _Copies, *, has_policy: bool) -> int:
    """Say why there is no copy, and withdraw the one that is there."""
    for line in verdict_lines(name, report):
        write_line(line, err=True)
    if not copies.any(is_copy):
        return report.exit_status
    now = moment()
    is_dropped = has_policy and any(one.code == "trust.no_anchor" for one in report.reasons)
    if is_dropped or copies.any(lambda copy: is_over(copy, report, now)):
        copies.remove("its card is not trusted any more")
    else:
        say(f"{safe(copies.output)} stays: no statement of the issuer speaks against its card")
    return report.exit_status


@contextmanager
def _replacing(copies: _Copies, report: Report) -> Iterator[None]:
    """Withdraw the copy of a card that its issuer has replaced by one that cannot be copied."""
    try:
        yield
    except (CardRefused, UsageFault):
        now = moment()
        if copies.any(lambda copy: is_over(copy, report, now)):
            copies.remove("its issuer has another card now, which cannot be copied")
        raise


def _tell(
    notes: Sequence[Finding],
    name: str,
    output: str,
    signers: CardSigners,
    changed: bool,
) -> None:
    told = {"input": name, "output": output, "changed": changed, "kids": signers.kids}
    show(Answer({**told, "notes": [note.to_json() for note in notes]}))
    if is_json():
        return
    if not changed:
        say(f"{safe(output)} is the copy of {safe(name)} already; nothing changed")
        return
    where = "" if output == STDIO else f" as {safe(output)}"
    say(f"signed the copy of {safe(name)}{where}")
    say_notes(notes)
