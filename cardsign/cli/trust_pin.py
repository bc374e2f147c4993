"""``cardsign trust pin``: move an anchor to what its issuer has come to lawfully."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from cardsign.cli.evidence import read_evidence
from cardsign.cli.options import json_option
from cardsign.cli.policy import (
    LoadedPolicy,
    directory_memory,
    needed_policy,
    state_option,
    trust_option,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.cli.trust_showing import keyset_lines, keyset_members, say_if_old
from cardsign.errors import UsageFault
from cardsign.jose.keyset import KeysetStatement
from cardsign.jose.succession import RootPin, StatementPin
from cardsign.trust.anchors import Anchor, KeysetAnchor, TofuAnchor
from cardsign.trust.establish import establish
from cardsign.trust.known import Known
from cardsign.trust.lock import lock_of, raise_floors
from cardsign.trust.policy import Enrolment
from cardsign.trust.policyedit import anchored, edit_policy, with_anchor


@click.command(short_help="Move a pin to the newest keyset statement that was seen.")
@click.argument("name")
@click.option(
    "--keyset",
    "keysets",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="Statements that lead on from the one held. May be repeated.",
)
@trust_option
@state_option
@json_option
def pin(
    name: str,
    keysets: tuple[Path, ...],
    trust_file: Path | None,
    state_dir: Path | None,
    as_json: bool,
) -> None:
    """Move the pin of NAME to the newest keyset statement that follows lawfully from it.

    That is the one in memory, or one to which the statements of --keyset lead. The lock is
    raised with it. A `tofu` anchor becomes a `keyset` anchor.
    """
    loaded = needed_policy(trust_file)
    enrolment = loaded.enrolment(name)
    if not isinstance(enrolment.anchor, KeysetAnchor | TofuAnchor):
        raise UsageFault(
            "usage.conflict",
            f"the anchor of {name!r} is no keyset, so there is no pin to move",
            path=str(loaded.path),
            hint="Enrol the issuer by its keyset statement: cardsign trust remove, then add.",
        )
    now = datetime.now(UTC)
    newest, remembered = _newest(loaded, enrolment, keysets, state_dir, now)
    anchor = _moved(enrolment.anchor, newest)
    changed = anchor != enrolment.anchor
    if changed:
        edit_policy(
            loaded.path,
            lambda text: with_anchor(text, name, anchor),
            lambda policy: anchored(policy, name, anchor),
        )
    raise_floors(lock_of(loaded.path), {name: remembered.as_floor()})
    say_if_old(newest, now)
    if as_json:
        print_json({"name": name, "changed": changed, "keyset": keyset_members(newest)})
        return
    click.echo("\n".join(keyset_lines(newest)))
    say(f"moved the pin of {name} to the statement above" if changed else "the pin is the newest")


def _newest(
    loaded: LoadedPolicy,
    enrolment: Enrolment,
    keysets: tuple[Path, ...],
    state_dir: Path | None,
    now: datetime,
) -> tuple[KeysetStatement, Known]:
    """The statement to pin, and what is remembered once it has been reached."""
    evidence = read_evidence(keysets)
    with directory_memory(state_dir, loaded.floors).of(enrolment) as memo:
        standing = establish(enrolment, loaded.policy.limits, evidence, memo, now=now)
        for reason in standing.blocks[:1]:
            raise UsageFault(reason.code, reason.message, hint=reason.hint)
        if standing.keyset is None or memo.known is None:
            raise UsageFault(
                "trust.no_keys",
                f"no keyset statement of {enrolment.name!r} is remembered",
                hint="Name the statements: --keyset FILE.",
            )
        if keysets:
            for note in standing.notes:
                say(f"{note.code}: {safe(note.message, limit=300)}")
        return standing.keyset, memo.known


def _moved(anchor: KeysetAnchor | TofuAnchor, keyset: KeysetStatement) -> Anchor:
    if isinstance(anchor, TofuAnchor):
        return KeysetAnchor(_pin_of(keyset), keyset.issuer)
    if isinstance(anchor.pin, RootPin):
        return KeysetAnchor(RootPin.of(keyset.root), anchor.issuer)
    return KeysetAnchor(_pin_of(keyset), anchor.issuer)


def _pin_of(keyset: KeysetStatement) -> StatementPin:
    return StatementPin(keyset.epoch, keyset.version, keyset.digest)
