"""``cardsign trust``: which issuers to trust. Edits `trust.toml`, its lock and states."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from cardsign.cli.dry_run import confirm, dry_run_option, is_dry_run, to_change
from cardsign.cli.enroll import add, import_
from cardsign.cli.frame import Group
from cardsign.cli.options import PATH, edit_options, policy_option, state_option, take, yes_option
from cardsign.cli.printer import Answer, safe, say, show, table_lines
from cardsign.cli.verifier import TrustOptions, supplied_statements
from cardsign.cli.views import (
    floor_text,
    issuer_json,
    issuer_lines,
    keyset_lines,
    kind_of,
    pin_json,
    say_if_old,
    state_json,
    state_lines,
)
from cardsign.errors import FileFault, StateFault
from cardsign.files import write_atomic
from cardsign.trust.disk import floor_to_json, identity_of
from cardsign.trust.enroll import (
    begin_states,
    move_pin,
    remove_issuer,
)
from cardsign.trust.policy import POLICY_FILE
from cardsign.trust.policytext import EMPTY_POLICY
from cardsign.trust.state import DirectoryStates, IssuerState

_FORGETTING: Final = "older cards and statements of"


@click.group("trust", cls=Group)
def trust_commands() -> None:
    """Say which issuers to trust, by which keys, and what to require of their cards.

    The policy is trust.toml. What was seen of its issuers is kept in this user's state folder,
    and the oldest statements still acceptable in trust.lock. Commit trust.toml and trust.lock.
    """


trust_commands.add_command(add)
trust_commands.add_command(import_)


@trust_commands.command(
    short_help="Write an empty trust.toml, or begin the state of one.",
    example="cardsign trust init",
)
@edit_options
@dry_run_option
def init(**options: Any) -> None:
    """Write an empty trust.toml. If there is one, begin the state of its issuers.

    What is remembered already is kept, also if you changed the origins of an issuer whose keyset
    is pinned. The floors in trust.lock stay in force.
    """
    trust = take(TrustOptions, options)
    path = trust.find()
    begun: list[str] = []
    written = path is None or not os.path.lexists(path)
    if path is None or written:
        path = path or Path(POLICY_FILE)
        if not path.parent.is_dir():
            raise FileFault("file.unwritable", "its directory does not exist", path=str(path))
        write_atomic(to_change(path), EMPTY_POLICY.encode())
    else:
        begun = begin_states(trust.needed(), trust.stored, dry_run=is_dry_run())
    notes = [f"began the state of {', '.join(begun)}" if begun else "already set up; nothing to do"]
    if written:
        notes = [
            f"wrote {path}, which trusts no issuer yet",
            "  next: cardsign trust add NAME --origin ORIGIN --keyset FILE",
        ]
    show(Answer({"policy": str(path), "written": written, "begun": begun}, notes=notes))


@trust_commands.command("list", short_help="List the issuers.", example="cardsign trust list")
@policy_option
def list_(**options: Any) -> None:
    """List the issuers: name, anchor, freshness and origins."""
    trust = take(TrustOptions, options)
    loaded = trust.needed()
    rows = (
        (
            issuer.name,
            kind_of(issuer.anchor),
            issuer.freshness,
            ", ".join(map(str, issuer.places or ())),
        )
        for issuer in loaded.policy.issuers
    )
    columns = {"issuer": 16, "anchor": 6, "freshness": 8, "origins": 0}
    view = [issuer_json(issuer) for issuer in loaded.policy.issuers]
    show(Answer(view, table_lines(columns, rows)))
    if not loaded.policy.issuers:
        say(f"{loaded.path} trusts no issuer")


@trust_commands.command(
    "show", short_help="Show what is known about an issuer.", example="cardsign trust show partner"
)
@click.argument("name")
@edit_options
def show_issuer(name: str, **options: Any) -> None:
    """Show what the policy says about NAME, its floors in trust.lock, and what is remembered."""
    trust = take(TrustOptions, options)
    loaded = trust.needed()
    issuer = loaded.issuer(name)
    floor = loaded.floors.get(name)
    try:
        remembered, fault = trust.stored.recall(issuer), None
        say_if_old(remembered.keyset, datetime.now(UTC))
    except StateFault as caught:  # what is wrong with the state is part of the answer
        remembered, fault = None, caught
    lock, state = floor and floor_to_json(floor), remembered and state_json(remembered)
    error = fault and fault.code
    lines = [*issuer_lines(issuer)]
    lines.append(f"lock        {'no floors' if floor is None else floor_text(floor)}")
    if fault is not None:
        lines.append(f"state       {fault.code}: {safe(fault.message)}")
    if remembered is not None:
        lines += ["remembered", *(f"  {line}" for line in state_lines(remembered))]
    view = {**issuer_json(issuer), "lock": lock, "state": state, "state_fault": error}
    show(Answer(view, lines))


@trust_commands.command(
    short_help="Remove an issuer from the policy.", example="cardsign trust remove partner"
)
@click.argument("name")
@click.option(
    "--forget", is_flag=True, help="Forget what is remembered about the issuer too. Asks first."
)
@edit_options
@dry_run_option
@yes_option
def remove(name: str, forget: bool, yes: bool, **options: Any) -> None:
    """Remove NAME from the policy and from trust.lock. Its cards are no longer trusted.

    What is remembered about it is kept, unless you say --forget. If you add the issuer again
    with the same anchor and origins, older cards of it are still refused.
    """
    trust = take(TrustOptions, options)
    loaded = trust.needed()
    states = trust.stored if forget else None
    if forget:
        confirm(yes, f"{_FORGETTING} {name} may then be accepted again")
    forgotten = remove_issuer(loaded, name, states, dry_run=is_dry_run())
    if is_dry_run():
        say(f"would remove {name} from {loaded.path}")
        return
    note = f"removed {name} from {loaded.path}" + (", and forgot it" if forgotten else "")
    show(Answer({"removed": name, "forgotten": forgotten}, notes=[note]))


# ``cardsign trust known``: what this user remembers of issuers, whatever the policy says now.


@trust_commands.group()
def known() -> None:
    """Show or forget what is remembered about issuers."""


@known.command(
    "list",
    short_help="List the issuers about which something is remembered.",
    example="cardsign trust known list",
)
@state_option
def list_known(**options: Any) -> None:
    """List the issuers about which something is remembered, each with its policy."""
    trust = take(TrustOptions, options)
    states = trust.stored
    found = [(name, policy, _known(states, policy, name)) for name, policy in states.names()]
    shown = [{"name": name, "policy": policy, **state_json(one)} for name, policy, one in found]
    rows = [
        (name, f"keyset {one.keyset.label}" if one.keyset else "no keyset", safe(policy, limit=300))
        for name, policy, one in found
    ]
    columns = {"issuer": 16, "keyset": 14, "policy": 0}
    notes = [] if found else [f"no issuer is remembered in {states.path}"]
    show(Answer(shown, table_lines(columns, rows), notes))


@known.command(
    "show",
    short_help="Show what is remembered about an issuer.",
    example="cardsign trust known show partner",
)
@click.argument("name")
@edit_options
def show_known(name: str, **options: Any) -> None:
    """Show what is remembered about the issuer that the policy calls NAME."""
    trust = take(TrustOptions, options)
    policy = _identity(trust)
    state = _known(trust.stored, policy, name)
    show(Answer({"name": name, "policy": policy, **state_json(state)}, state_lines(state)))


@known.command(example="cardsign trust known forget partner --yes")
@click.argument("name")
@edit_options
@dry_run_option
@yes_option
def forget(name: str, yes: bool, **options: Any) -> None:
    """Forget the issuer NAME. Older cards and statements of it may then be accepted again.

    The floors in trust.lock stay in force. `cardsign trust init` begins a new state.
    """
    trust = take(TrustOptions, options)
    states, policy = trust.stored, _identity(trust)
    _known(states, policy, name)
    confirm(yes, f"{_FORGETTING} {name} may then be accepted again")
    if not is_dry_run():
        states.forget(policy, name)
    show(Answer({"forgotten": name}, notes=[f"forgot {name}"]))


def _identity(trust: TrustOptions) -> str:
    """Of the policy in question, whether or not its file is still there."""
    return identity_of(trust.find() or Path(POLICY_FILE))


def _known(states: DirectoryStates, policy: str, name: str) -> IssuerState:
    found = states.find(policy, name)
    if found is None:
        raise StateFault(
            "state.missing",
            f"nothing is remembered of {name!r} under this policy",
            path=str(states.path),
            hint="See cardsign trust known list; --trust FILE names another policy.",
        )
    return found


# ``cardsign trust pin``: move an anchor to what its issuer has come to lawfully.


@trust_commands.command(
    short_help="Move a pin to the newest keyset statement that was seen.",
    example="cardsign trust pin partner",
)
@click.argument("name")
@click.option(
    "--keyset",
    "keysets",
    metavar="FILE|DIR",
    multiple=True,
    type=PATH,
    help="Keyset statements that follow the pinned one. May be repeated.",
)
@edit_options
@dry_run_option
def pin(name: str, keysets: tuple[Path, ...], **options: Any) -> None:
    """Move the pin of NAME to the newest valid keyset statement that follows the pinned one.

    It is taken from what is remembered, and from --keyset. trust.lock is raised with it.
    """
    trust = take(TrustOptions, options)
    now = datetime.now(UTC)
    supplied = supplied_statements(keysets)
    newest, changed, notes = move_pin(
        trust.needed(), name, supplied, trust.stored, now=now, dry_run=is_dry_run()
    )
    for note in notes if keysets else ():
        say(safe(note, limit=300))
    say_if_old(newest, now)
    note = f"moved the pin of {name} to the statement above" if changed else "the pin is the newest"
    view = {"name": name, "changed": changed, "keyset": pin_json(newest)}
    show(Answer(view, keyset_lines(newest), [note]))
