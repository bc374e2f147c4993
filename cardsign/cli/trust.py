"""``cardsign trust``: whom this verifier believes. Edits `trust.toml`, its lock and the memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from cardsign.cli.evidence import read_evidence
from cardsign.cli.options import json_option
from cardsign.cli.policy import (
    LoadedPolicy,
    TrustOptions,
    edit_options,
    policy_options,
    state_options,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.cli.trust_add import add
from cardsign.cli.trust_showing import (
    enrolment_lines,
    enrolment_members,
    floor_text,
    keyset_lines,
    keyset_members,
    kind_of,
    known_lines,
    known_members,
    say_if_old,
)
from cardsign.cli.trust_test import test
from cardsign.errors import FileFault, StateFault, UsageFault
from cardsign.files import write_atomic
from cardsign.statements.keyset import KeysetId, KeysetStatement
from cardsign.statements.succession import RootPin
from cardsign.trust.enroll import first_known
from cardsign.trust.known import Floor, Known
from cardsign.trust.lock import POLICY_FILE, floor_to_json, lock_of, raise_floors, remove_floor
from cardsign.trust.policy import Anchor, Enrolment, KeysetAnchor, TofuAnchor
from cardsign.trust.policyedit import (
    EMPTY_POLICY,
    anchored,
    edit_policy,
    minus,
    with_anchor,
    without_issuer,
)
from cardsign.trust.resolve import establish
from cardsign.trust.state import DirectoryMemory

# ``cardsign trust known``: what this user's memory holds, whatever the policy says now.


@click.group()
def known() -> None:
    """Look at what is remembered of issuers, and forget it."""


@known.command("list")
@state_options
@json_option
def list_known(trust: TrustOptions, as_json: bool) -> None:
    """List the issuers of whom something is remembered."""
    memory = trust.directory({})
    if as_json:
        print_json(
            [{"name": name, **known_members(_known(memory, name))} for name in memory.names()]
        )
        return
    for name in memory.names():
        keyset = _known(memory, name).keyset
        shown = "no keyset" if keyset is None else f"keyset {keyset.epoch}.{keyset.version}"
        click.echo(f"{name:<16}  {shown}")
    if not memory.names():
        say(f"nobody is remembered in {memory.path}")


@known.command("show")
@click.argument("name")
@state_options
@json_option
def show_known(name: str, trust: TrustOptions, as_json: bool) -> None:
    """Show what is remembered of NAME."""
    remembered = _known(trust.directory({}), name)
    if as_json:
        print_json({"name": name, **known_members(remembered)})
    else:
        click.echo("\n".join(known_lines(remembered)))


@known.command()
@click.argument("name")
@state_options
@json_option
def forget(name: str, trust: TrustOptions, as_json: bool) -> None:
    """Forget NAME. What is seen next can then be older than what was seen before.

    The floors of trust.lock stay; `cardsign trust init` begins the memory anew with them.
    """
    memory = trust.directory({})
    if not memory.forget(name):
        raise _missing(memory, name)
    if as_json:
        print_json({"forgotten": name})
    else:
        say(f"forgot {name}")


def _known(memory: DirectoryMemory, name: str) -> Known:
    found = memory.find(name)
    if found is None:
        raise _missing(memory, name)
    return found


def _missing(memory: DirectoryMemory, name: str) -> StateFault:
    return StateFault(
        "state.missing",
        f"nothing is remembered of {name!r}",
        path=str(memory.path),
        hint="See cardsign trust known list.",
    )


# ``cardsign trust pin``: move an anchor to what its issuer has come to lawfully.


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
@edit_options
@json_option
def pin(
    name: str,
    keysets: tuple[Path, ...],
    trust: TrustOptions,
    as_json: bool,
) -> None:
    """Move the pin of NAME to the newest keyset statement that follows lawfully from it.

    That is the one in memory, or one to which the statements of --keyset lead. The lock is
    raised with it. A `tofu` anchor becomes a `keyset` anchor.
    """
    loaded = trust.needed()
    enrolment = loaded.enrolment(name)
    if not isinstance(enrolment.anchor, KeysetAnchor | TofuAnchor):
        raise UsageFault(
            "usage.conflict",
            f"the anchor of {name!r} is no keyset, so there is no pin to move",
            path=str(loaded.path),
            hint="Enrol the issuer by its keyset statement: cardsign trust remove, then add.",
        )
    now = datetime.now(UTC)
    newest, remembered = _newest(loaded, enrolment, keysets, trust, now)
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
    trust: TrustOptions,
    now: datetime,
) -> tuple[KeysetStatement, Known]:
    """The statement to pin, and what is remembered once it has been reached."""
    evidence = read_evidence(keysets)
    with trust.directory(loaded.floors).of(enrolment) as memo:
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


def _pin_of(keyset: KeysetStatement) -> KeysetId:
    return keyset.id


@click.group("trust")
def trust_commands() -> None:
    """Say whose cards to believe, by which keys, and what may be left open.

    The policy is trust.toml; what is seen of its issuers is kept in the memory of this user,
    and as floors in trust.lock, which belongs under version control beside the policy.
    """


trust_commands.add_command(add)
trust_commands.add_command(pin)
trust_commands.add_command(test)
trust_commands.add_command(known)


@trust_commands.command(short_help="Write an empty trust.toml, or begin the memory of one.")
@edit_options
@json_option
def init(trust: TrustOptions, as_json: bool) -> None:
    """Write an empty trust.toml; or, where there is one, begin the memory of its issuers.

    On a new machine the memory begins with the floors of trust.lock. What is remembered
    already stays as it is.
    """
    path = trust.find() or Path(POLICY_FILE)
    begun: list[str] = []
    written = not path.exists()
    if written:
        if not path.parent.is_dir():
            raise FileFault("file.unwritable", "its directory does not exist", path=str(path))
        write_atomic(path, EMPTY_POLICY.encode())
    else:
        begun = _begin(replace(trust, trust_file=path))
    if as_json:
        print_json({"policy": str(path), "written": written, "begun": begun})
    elif written:
        say(f"wrote {path}, which trusts nobody yet")
        say("  next: cardsign trust add NAME --origin ORIGIN --keyset FILE")
    else:
        say(f"began the memory of {', '.join(begun)}" if begun else "nothing was missing")


def _begin(trust: TrustOptions) -> list[str]:
    loaded = trust.needed()
    memory = trust.directory(loaded.floors)
    begun = []
    for enrolment in loaded.policy.enrolments:
        if memory.find(enrolment.name) is None:
            floor = loaded.floors.get(enrolment.name, Floor())
            memory.create(enrolment, first_known(enrolment.anchor, floor=floor))
            begun.append(enrolment.name)
        else:
            memory.recall(enrolment)
    return begun


@trust_commands.command("list", short_help="List the issuers.")
@policy_options
@json_option
def list_(trust: TrustOptions, as_json: bool) -> None:
    """List the issuers: name, anchor, freshness, and where they may stand."""
    loaded = trust.needed()
    if as_json:
        print_json([enrolment_members(one) for one in loaded.policy.enrolments])
        return
    for one in loaded.policy.enrolments:
        places = ", ".join(map(str, one.places or ()))
        click.echo(f"{one.name:<16}  {kind_of(one.anchor):<6}  {one.freshness:<8}  {places}")
    if not loaded.policy.enrolments:
        say(f"{loaded.path} trusts nobody")


@trust_commands.command(short_help="Show what is said and known of an issuer.")
@click.argument("name")
@edit_options
@json_option
def show(name: str, trust: TrustOptions, as_json: bool) -> None:
    """Show what the policy says of NAME, the floors of the lock, and what is remembered."""
    loaded = trust.needed()
    enrolment = loaded.enrolment(name)
    floor = loaded.floors.get(name)
    memory = trust.directory(loaded.floors)
    try:
        remembered, fault = memory.recall(enrolment)[0], None
        say_if_old(remembered.keyset, datetime.now(UTC))
    except StateFault as caught:  # what is wrong with the memory is part of the answer
        remembered, fault = None, caught
    if as_json:
        lock = None if floor is None else floor_to_json(floor)
        state = None if remembered is None else known_members(remembered)
        error = None if fault is None else fault.code
        print_json(
            {**enrolment_members(enrolment), "lock": lock, "state": state, "state_fault": error}
        )
        return
    click.echo("\n".join(enrolment_lines(enrolment)))
    click.echo(f"lock        {'no floors' if floor is None else floor_text(floor)}")
    if fault is not None:
        click.echo(f"memory      {fault.code}: {safe(fault.message)}")
    if remembered is not None:
        click.echo("\n".join(("remembered", *(f"  {line}" for line in known_lines(remembered)))))


@trust_commands.command(short_help="Take an issuer out of the policy.")
@click.argument("name")
@click.option("--forget", is_flag=True, help="Forget what is remembered of the issuer too.")
@edit_options
@json_option
def remove(name: str, forget: bool, trust: TrustOptions, as_json: bool) -> None:
    """Take NAME out of the policy and its lock; its cards are trusted no more.

    What is remembered is kept, so that an issuer enrolled again cannot be rolled back
    meanwhile; --forget gives that up.
    """
    loaded = trust.needed()
    loaded.enrolment(name)
    edit_policy(
        loaded.path, lambda text: without_issuer(text, name), lambda policy: minus(policy, name)
    )
    remove_floor(lock_of(loaded.path), name)
    forgotten = forget and trust.directory({}).forget(name)
    if as_json:
        print_json({"removed": name, "forgotten": forgotten})
    else:
        say(f"removed {name} from {loaded.path}" + (", and forgot it" if forgotten else ""))
