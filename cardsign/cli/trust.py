"""``cardsign trust``: whom this verifier believes. Edits `trust.toml`, its lock and the memory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from cardsign.cli.options import json_option
from cardsign.cli.policy import (
    LoadedPolicy,
    directory_memory,
    find_policy,
    needed_policy,
    state_option,
    trust_option,
)
from cardsign.cli.talk import print_json, safe, say
from cardsign.cli.trust_add import add
from cardsign.cli.trust_deciding import test
from cardsign.cli.trust_known import known
from cardsign.cli.trust_pin import pin
from cardsign.cli.trust_showing import (
    enrolment_lines,
    enrolment_members,
    floor_text,
    kind_of,
    known_lines,
    known_members,
    say_if_old,
)
from cardsign.errors import FileFault, StateFault
from cardsign.files import write_atomic
from cardsign.trust.enrolling import first_known
from cardsign.trust.known import Floor
from cardsign.trust.lock import POLICY_FILE, floor_to_json, lock_of, remove_floor
from cardsign.trust.policyedit import (
    EMPTY_POLICY,
    edit_policy,
    minus,
    without_issuer,
)


@click.group()
def trust() -> None:
    """Say whose cards to believe, by which keys, and what may be left open.

    The policy is trust.toml; what is seen of its issuers is kept in the memory of this user,
    and as floors in trust.lock, which belongs under version control beside the policy.
    """


trust.add_command(add)
trust.add_command(pin)
trust.add_command(test)
trust.add_command(known)


@trust.command(short_help="Write an empty trust.toml, or begin the memory of one.")
@trust_option
@state_option
@json_option
def init(trust_file: Path | None, state_dir: Path | None, as_json: bool) -> None:
    """Write an empty trust.toml; or, where there is one, begin the memory of its issuers.

    On a new machine the memory begins with the floors of trust.lock. What is remembered
    already stays as it is.
    """
    path = find_policy(trust_file) or Path(POLICY_FILE)
    begun: list[str] = []
    written = not path.exists()
    if written:
        if not path.parent.is_dir():
            raise FileFault("file.unwritable", "its directory does not exist", path=str(path))
        write_atomic(path, EMPTY_POLICY.encode())
    else:
        begun = _begin(needed_policy(path), state_dir)
    if as_json:
        print_json({"policy": str(path), "written": written, "begun": begun})
    elif written:
        say(f"wrote {path}, which trusts nobody yet")
        say("  next: cardsign trust add NAME --origin ORIGIN --keyset FILE")
    else:
        say(f"began the memory of {', '.join(begun)}" if begun else "nothing was missing")


def _begin(loaded: LoadedPolicy, state_dir: Path | None) -> list[str]:
    memory = directory_memory(state_dir, loaded.floors)
    begun = []
    for enrolment in loaded.policy.enrolments:
        if memory.find(enrolment.name) is None:
            floor = loaded.floors.get(enrolment.name, Floor())
            memory.create(enrolment, first_known(enrolment.anchor, floor=floor))
            begun.append(enrolment.name)
        else:
            memory.recall(enrolment)
    return begun


@trust.command("list", short_help="List the issuers.")
@trust_option
@json_option
def list_(trust_file: Path | None, as_json: bool) -> None:
    """List the issuers: name, anchor, freshness, and where they may stand."""
    loaded = needed_policy(trust_file)
    if as_json:
        print_json([enrolment_members(one) for one in loaded.policy.enrolments])
        return
    for one in loaded.policy.enrolments:
        places = ", ".join(map(str, one.places or ()))
        click.echo(f"{one.name:<16}  {kind_of(one.anchor):<6}  {one.freshness:<8}  {places}")
    if not loaded.policy.enrolments:
        say(f"{loaded.path} trusts nobody")


@trust.command(short_help="Show what is said and known of an issuer.")
@click.argument("name")
@trust_option
@state_option
@json_option
def show(name: str, trust_file: Path | None, state_dir: Path | None, as_json: bool) -> None:
    """Show what the policy says of NAME, the floors of the lock, and what is remembered."""
    loaded = needed_policy(trust_file)
    enrolment = loaded.enrolment(name)
    floor = loaded.floors.get(name)
    memory = directory_memory(state_dir, loaded.floors)
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


@trust.command(short_help="Take an issuer out of the policy.")
@click.argument("name")
@click.option("--forget", is_flag=True, help="Forget what is remembered of the issuer too.")
@trust_option
@state_option
@json_option
def remove(
    name: str, forget: bool, trust_file: Path | None, state_dir: Path | None, as_json: bool
) -> None:
    """Take NAME out of the policy and its lock; its cards are trusted no more.

    What is remembered is kept, so that an issuer enrolled again cannot be rolled back
    meanwhile; --forget gives that up.
    """
    loaded = needed_policy(trust_file)
    loaded.enrolment(name)
    edit_policy(
        loaded.path, lambda text: without_issuer(text, name), lambda policy: minus(policy, name)
    )
    remove_floor(lock_of(loaded.path), name)
    forgotten = forget and directory_memory(state_dir, {}).forget(name)
    if as_json:
        print_json({"removed": name, "forgotten": forgotten})
    else:
        say(f"removed {name} from {loaded.path}" + (", and forgot it" if forgotten else ""))
