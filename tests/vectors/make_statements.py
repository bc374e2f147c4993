"""Make the vectors of ``statements/`` anew, with keys that are forgotten afterwards.

``python tests/vectors/make_statements.py`` replaces every file there. What is put to a verifier,
and what he must say to each step, is declared here, by hand; nothing is copied from a run. The
private halves are never written, so keys, signatures and digests change with every run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from cardsign.card import jcs  # noqa: E402
from cardsign.jose import (  # noqa: E402
    base64url,
    sign_payload,
)
from cardsign.statements import TYP_KEYSET, TYP_RELEASE  # noqa: E402
from tests.jose.statement_making import (  # noqa: E402
    DAY,
    T0,
    URL,
    Members,
    entry,
    forged_entry,
    key,
    quorum,
    thumbprint,
)
from tests.trust.histories import (  # noqa: E402
    History,
    after,
    digest_of,
    keyset,
    members_of,
    opened,
    payload_of,
    release,
    with_entries,
)

FOLDER: Final = Path(__file__).resolve().parent / "statements"
SKEW: Final = 300
OK: Final = "accepted"
OTHER_URL: Final = "https://tides.example/b/agent-card.json"

Step: TypeAlias = tuple[bytes, str]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is put to a verifier, one statement after another; README.md has the file's members.

    Attributes:
        says: What it shows, in one sentence.
        anchor: Of the members `pin` or `root`.
        steps: Each statement, and `accepted` or the code of its refusal.
        revoked: Names of the keys that do not count in the end.
        at_once: What is held when all statements come together: places in `steps` of the keyset
            and the release, and the refusal. None: as in the end of the steps.
        times: The refusal of the newest keyset statement's own times, or None.
    """

    says: str
    anchor: Members
    steps: tuple[Step, ...]
    revoked: tuple[str, ...] = ()
    at_once: AtOnce | None = None
    times: str | None = None


@dataclass(frozen=True, slots=True)
class AtOnce:
    """The end of a refresh in which everything comes together."""

    keyset: int | None
    release: int | None = None
    refused: str | None = None
    revoked: tuple[str, ...] = field(default=())


def _pin(statement: bytes, **changes: Any) -> Members:
    said = members_of(statement)
    pin = {"epoch": said["epoch"], "version": said["version"], "digest": digest_of(statement)}
    return {"pin": {**pin, **changes}}


def _root(threshold: int, *names: str) -> Members:
    """The pin of a whole root set; `name` or `name:holder` each."""
    pairs = [name.partition(":") for name in names]
    holders = sorted([thumbprint(name), holder or name] for name, _, holder in pairs)
    return {"root": {"threshold": threshold, "holders": holders}}


def _all(statements: Iterable[bytes], outcome: str = OK) -> tuple[Step, ...]:
    return tuple((statement, outcome) for statement in statements)


def _entry(statement: bytes, name: str, kid: str | None = None) -> dict[str, str]:
    return forged_entry(payload_of(statement), name, kid or thumbprint(name))


def _under(statement: bytes, header: Members, name: str = "ann") -> bytes:
    """The statement with one signature under any protected header."""
    protected = base64url.encode(json.dumps(header).encode())
    payload = base64url.encode(payload_of(statement))
    signature = key(name).sign(f"{protected}.{payload}".encode("ascii"))
    entry = {"protected": protected, "signature": base64url.encode(signature)}
    return with_entries(statement, [entry])


def _spelled(statement: bytes, payload: bytes, *names: str) -> bytes:
    """Another spelling of a payload, well signed."""
    entries = [forged_entry(payload, name, thumbprint(name)) for name in names]
    return json.dumps({"payload": base64url.encode(payload), "signatures": entries}).encode()


# ------------------------------------------------------------------ the first statement


def _first() -> Scenario:
    one = keyset("ann", "bob")
    return Scenario("A statement is met by its pin.", _pin(one), ((one, OK),))


def _first_by_root() -> Scenario:
    one = keyset("ann", "cat")
    anchor = _root(2, "ann", "bob", "cat")
    return Scenario("A statement is met by its whole root set.", anchor, ((one, OK),))


def _first_later() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one)
    steps = ((one, "statement.anchor"), (two, OK))
    return Scenario("A pin may name a later statement; what is before it is no use.", _pin(two),
                    steps)  # fmt: skip


def _first_of_thieves() -> Scenario:
    one = keyset("ann", "bob")
    forged = (
        keyset("cat", root=quorum(1, "cat")),
        keyset("cat", root=quorum(1, "ann", "bob", "cat")),
        keyset("ann", "bob", root=quorum(2, "ann", "bob", "cat", "eve")),
        keyset("ann", "ann2", root=quorum(2, "ann", "ann2:eve", "bob")),
    )
    steps = (*_all(forged, "statement.anchor"), (one, OK))
    return Scenario("The thief of one root of three founds nothing.",
                    _root(2, "ann", "bob", "cat"), steps)  # fmt: skip


def _first_relabelled() -> Scenario:
    honest = quorum(2, "ann", "ann2:ann", "bob")
    one = keyset("ann2", "bob", root=honest)
    forged = keyset("ann", "ann2", root=quorum(2, "ann", "ann2:eve", "bob"))
    steps = ((forged, "statement.anchor"), (one, OK))
    return Scenario("Who holds two keys of one holder cannot rename one and count twice.",
                    _root(2, "ann", "ann2:ann", "bob"), steps)  # fmt: skip


def _lone_thumbprint() -> Scenario:
    two_of_three, alone = keyset("ann", "bob"), keyset("ann", root=quorum(1, "ann"))
    steps = ((two_of_three, "statement.anchor"), (alone, OK))
    return Scenario("A lone thumbprint is the whole root set or nothing.", _root(1, "ann"), steps)


def _pin_of_three_parts() -> Scenario:
    one = keyset("ann", "bob")
    steps = ((one, "statement.anchor"),)
    return Scenario("A pin is compared whole: here its version is another.",
                    _pin(one, version=2), steps)  # fmt: skip


# ------------------------------------------------------------------ counting


def _two_of_three() -> Scenario:
    one = keyset("ann", "bob")
    good = [_entry(one, name) for name in ("ann", "bob")]
    few = [
        good[:1],
        good[:1] * 3,
        [good[0], _entry(one, "ann", "ann-again")],
        [good[0], _entry(one, "eve")],
        [good[0], _entry(one, "rita")],
        [good[0], _entry(one, "eve", thumbprint("bob"))],
        [good[0], _entry(after(one), "bob")],
    ]
    refused = _all((with_entries(one, entries) for entries in few), "statement.unsigned")
    beside = [_entry(one, "eve"), _entry(one, "eve", thumbprint("cat")), *good]
    enough = with_entries(one, beside)
    return Scenario(
        "Two of three: not one alone, nor thrice, nor under an alias, nor with a stranger, with "
        "recovery, with a forged or a borrowed signature; strangers beside two take nothing.",
        _pin(one), (*refused, (enough, OK)))  # fmt: skip


def _holder_once() -> Scenario:
    root = quorum(2, "ann", "ann2:ann", "bob")
    one = keyset("ann", "bob", root=root)
    twice = with_entries(one, [_entry(one, "ann"), _entry(one, "ann2")])
    other = with_entries(one, [_entry(one, "ann2"), _entry(one, "bob")])
    steps = ((twice, "statement.unsigned"), (other, OK))
    return Scenario("A holder counts once, whichever of his keys signs.", _pin(one), steps)


def _three_of_five() -> Scenario:
    root = quorum(3, "ann", "bob", "cat", "rsa-dan", "rsa-eli")
    one = keyset("ann", "bob", "rsa-dan", root=root)
    signers = ("cat", "rsa-dan", "rsa-eli")
    steps = (
        (one, OK),
        (after(one, *signers[:2]), "statement.unsigned"),
        (after(one, *signers), OK),
    )
    return Scenario("Three of five under both algorithms.", _pin(one), steps)


def _alg_of_the_key() -> Scenario:
    one = keyset("ann", "bob")
    lying = {"alg": "RS256", "kid": thumbprint("bob"), "typ": TYP_KEYSET}
    bad = json.loads(_under(one, lying, "bob"))["signatures"][0]
    steps = ((with_entries(one, [_entry(one, "ann"), bad]), "statement.unsigned"), (one, OK))
    return Scenario("A header names the algorithm of its key, else it does not count.", _pin(one),
                    steps)  # fmt: skip


# ------------------------------------------------------------------ chains


def _long_chain() -> Scenario:
    history = History()
    for step in (
        history.renew,
        history.replace_root,
        history.revoke,
        history.move_threshold,
        history.renew,
        history.replace_recovery,
        history.replace_root,
        history.revoke,
        history.move_threshold,
        history.replace_root,
        history.renew,
    ):
        step()
    return Scenario(
        "Twelve versions: renewals, roots replaced one after another, the threshold moved, "
        "recovery replaced by its own word, keys revoked; most have expired meanwhile.",
        _pin(history.statements[0]), _all(history.statements),
        revoked=("card", "card-2"))  # fmt: skip


def _chain_by_root() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one, root=quorum(2, "ann", "bob", "dan"))
    three = after(two, "ann", "dan", root=quorum(1, "dan"))
    return Scenario("From a pinned root set, by way of two others.",
                    _root(2, "ann", "bob", "cat"), _all((one, two, three)))  # fmt: skip


def _both_roots() -> Scenario:
    one = keyset("ann", "bob")
    changes = {"root": quorum(2, "dan", "eli")}
    steps = (
        (one, OK),
        (after(one, "ann", "bob", **changes), "statement.unsigned"),
        (after(one, "dan", "eli", **changes), "statement.unsigned"),
        (after(one, "ann", "dan", "eli", **changes), "statement.unsigned"),
        (after(one, "ann", "bob", "dan", "eli", **changes), OK),
    )
    return Scenario("A new root set needs the threshold of the old and of the new.", _pin(one),
                    steps)  # fmt: skip


def _threshold_lowered() -> Scenario:
    one = keyset("ann", "bob")
    lowered = {"root": quorum(1, "ann", "bob", "cat")}
    steps = (
        (one, OK),
        (after(one, "ann", **lowered), "statement.unsigned"),
        (after(one, "ann", "cat", **lowered), OK),
    )
    return Scenario("A lower threshold is agreed to by the higher one.", _pin(one), steps)


def _gap() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one)
    three = after(two)
    steps = ((one, OK), (three, "statement.gap"), (two, OK), (three, OK))
    return Scenario("A version left out is a gap, until it comes.", _pin(one), steps)


def _fork() -> Scenario:
    one = keyset("ann", "bob")
    mine = after(one)
    theirs = after(one, "bob", "cat", revoked=[thumbprint("lost")])
    steps = ((one, OK), (mine, OK), (theirs, "statement.fork"), (after(mine), OK))
    return Scenario(
        "Two statements of one number: what is held stays. Where neither is held, neither can be "
        "believed, and what follows upon one of them no more.",
        _pin(one), steps, at_once=AtOnce(0, refused="statement.fork"))  # fmt: skip


def _forged_fork() -> Scenario:
    one = keyset("ann", "bob")
    two, forged = after(one), after(one, "ann", "eve", revoked=[thumbprint("lost")])
    steps = ((one, OK), (forged, "statement.unsigned"), (two, OK))
    return Scenario("A forged second is no fork, and stops nobody.", _pin(one), steps)


def _fork_at_the_anchor() -> Scenario:
    mine = keyset("ann", "bob")
    theirs = keyset("bob", "cat", revoked=[thumbprint("lost")])
    steps = ((mine, OK), (theirs, "statement.fork"))
    return Scenario("A root set has signed two firsts.", _root(2, "ann", "bob", "cat"), steps,
                    at_once=AtOnce(None, refused="statement.fork"))  # fmt: skip


def _rollback() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one)
    steps = ((one, OK), (two, OK), (one, "statement.rollback"), (two, "statement.rollback"))
    return Scenario("What is not newer is not accepted again.", _pin(one), steps)


def _wrong_links() -> Scenario:
    one = keyset("ann", "bob", revoked=[thumbprint("lost")])
    steps = (
        (one, OK),
        (after(one, prev="0" * 64), "statement.prev"),
        (after(one, issuer="other.example"), "statement.issuer"),
        (after(one, revoked=[]), "statement.unrevoked"),
        (after(one, iat=T0 - 30 * DAY - 1), "statement.rollback"),
        (after(one, iat=T0 - 30 * DAY, revoked=sorted(map(thumbprint, ("lost", "old")))), OK),
    )
    return Scenario("prev, issuer, revoked and iat each bind a successor.", _pin(one), steps,
                    revoked=("lost", "old"))  # fmt: skip


def _future() -> Scenario:
    one = keyset("ann", "bob")
    steps = (
        (one, OK),
        (after(one, iat=T0 + SKEW + 1, exp=T0 + DAY), "statement.not_yet"),
        (after(one, iat=T0 + SKEW, exp=T0 + DAY), OK),
    )
    return Scenario("What is issued later than now and the skew is not believed.", _pin(one),
                    steps)  # fmt: skip


def _expired() -> Scenario:
    one = keyset("ann", "bob", iat=T0 - 90 * DAY, exp=T0 - 30 * DAY)
    two = after(one, exp=T0)
    return Scenario(
        "An expired statement is a step like any other; the newest one says nothing any more.",
        _pin(one), _all((one, two)), times="statement.expired")  # fmt: skip


def _nearly_expired() -> Scenario:
    one = keyset("ann", "bob", exp=T0 + 1)
    return Scenario("A second before the end it still holds.", _pin(one), ((one, OK),))


# ------------------------------------------------------------------ recovery


def _recovery_changed() -> Scenario:
    one = keyset("ann", "bob")
    changes = {"recovery": quorum(1, "rosa")}
    steps = (
        (one, OK),
        (after(one, **changes), "statement.recovery"),
        (after(one, "ann", "bob", "rosa", **changes), "statement.recovery"),
        (after(one, recovery=None), "statement.recovery"),
        (after(one, "ann", "bob", "rita", **changes), OK),
    )
    return Scenario("Recovery keys are changed by themselves alone, with the roots.", _pin(one),
                    steps)  # fmt: skip


def _recovery_given_up() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one, "ann", "bob", "rita", recovery=None)
    steps = (
        (one, OK),
        (two, OK),
        (after(two, "ann", "bob", "rita", recovery=quorum(1, "rita")), "statement.recovery"),
        (opened(one), "statement.recovery"),
        (after(two), OK),
    )
    return Scenario("What was given up never comes back, and no epoch can follow.", _pin(one),
                    steps)  # fmt: skip


def _recovery_opens() -> Scenario:
    one = keyset("ann", "bob", revoked=[thumbprint("lost")])
    two = after(one)
    steps = (
        (one, OK),
        (opened(one, "dan"), "statement.unsigned"),
        (opened(one, "rita"), "statement.unsigned"),
        (opened(one, "ann", "bob", "dan"), "statement.unsigned"),
        (after(opened(one), "dan", "rita"), "statement.gap"),
        (opened(opened(two)), "statement.gap"),
        (opened(one, issuer="other.example"), "statement.issuer"),
        (opened(two, iat=T0 - 60 * DAY), OK),
        (two, "statement.rollback"),
        (opened(opened(two)), OK),
    )
    return Scenario(
        "Recovery and the new root open the next epoch: both of them, its first version, one epoch "
        "after another. Neither iat nor revoked binds it; what was before is over.",
        _pin(one), steps)  # fmt: skip


def _recovery_quorum() -> Scenario:
    one = keyset("ann", "bob", recovery=quorum(2, "rita", "rosa", "ruth"))
    two = opened(one, "dan", "rita", "ruth", recovery=quorum(1, "rita"))
    steps = ((one, OK), (opened(one, "dan", "rita"), "statement.unsigned"), (two, OK))
    return Scenario("Recovery has a threshold too.", _pin(one), steps)


def _thief() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one)
    stolen = after(one, "ann", "bob", "eve", root=quorum(1, "eve"), revoked=[thumbprint("card2")])
    further = [stolen]
    for _ in range(9):
        further.append(after(further[-1], "eve"))
    back = opened(one)
    steps = (
        (one, OK),
        *_all(further),
        (two, "statement.rollback"),
        (after(further[-1], "eve", recovery=None), "statement.recovery"),
        (back, OK),
        (after(further[-1], "eve"), "statement.rollback"),
        (after(back, "dan"), OK),
    )
    return Scenario(
        "The thief of the roots rotates ten times and forks the issuer's own next; he cannot drop "
        "recovery, and recovery ends it all, at whatever version it finds a verifier.",
        _pin(one), steps)  # fmt: skip


def _retired_recovery() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one, "ann", "bob", "rita", recovery=quorum(1, "rosa"))
    three = after(two)
    steps = (
        (one, OK),
        (two, OK),
        (three, OK),
        (opened(one, "eve", "rita", root=quorum(1, "eve")), "statement.unsigned"),
        (opened(three, "dan", "rosa"), OK),
    )
    return Scenario("Recovery keys that were replaced open nothing for who can see that they were.",
                    _pin(one), steps)  # fmt: skip


def _two_recoveries() -> Scenario:
    one = keyset("ann", "bob")
    mine, theirs = opened(one), opened(one, "eve", "rita", root=quorum(1, "eve"))
    steps = ((one, OK), (mine, OK), (theirs, "statement.fork"))
    return Scenario("The recovery key has opened the epoch twice.", _pin(one), steps,
                    at_once=AtOnce(0, refused="statement.fork"))  # fmt: skip


# ------------------------------------------------------------------ the envelope


def _envelopes() -> Scenario:
    one = keyset("ann", root=quorum(1, "ann"))
    header = {"alg": "ES256", "kid": thumbprint("ann"), "typ": TYP_KEYSET}
    good = _entry(one, "ann")
    text = one.decode()
    said = members_of(one)
    payload = payload_of(one)
    steps = (
        (_under(one, {**header, "typ": TYP_RELEASE}), "statement.typ"),
        (_under(one, {**header, "typ": "JOSE"}), "statement.typ"),
        (_under(one, {"alg": "ES256", "kid": thumbprint("ann")}), "statement.header"),
        (_under(one, {**header, "crit": ["typ"]}), "statement.header"),
        (_under(one, {**header, "alg": "none"}), "statement.header"),
        (with_entries(one, [{**good, "header": {}}]), "statement.shape"),
        (with_entries(one, []), "statement.shape"),
        (json.dumps({**json.loads(one), "x": 1}).encode(), "statement.shape"),
        (text.replace('"payload"', '"payload": "e30", "payload"', 1).encode(), "statement.shape"),
        (with_entries(one, [{**good, "signature": good["signature"] + "=="}]), "statement.shape"),
        (_spelled(one, json.dumps(said).encode(), "ann"), "statement.not_canonical"),
        (_spelled(one, payload.replace(b'"prev":null,', b""), "ann"), "statement.members"),
        (_spelled(one, jcs({**said, "x": 1}), "ann"), "statement.members"),
        (_spelled(one, jcs({**said, "format": "cardsign-keyset/2"}), "ann"), "statement.format"),
        (_spelled(one, jcs({**said, "exp": said["iat"] + 400 * DAY + 1}), "ann"),
         "statement.time_span"),
        (_spelled(one, jcs({**said, "root": quorum(2, "ann", "ann2:ann")}), "ann"),
         "statement.threshold"),
        (_spelled(one, jcs({**said, "recovery": quorum(1, "ann")}), "ann"), "statement.bad_key"),
        (_spelled(one, jcs({**said, "revoked": [thumbprint("card")]}), "ann"),
         "statement.bad_key"),
        (json.dumps(json.loads(one), indent=7).encode(), OK),
    )  # fmt: skip
    return Scenario("What is no keyset statement is refused before anybody asks who signed it.",
                    _pin(one), steps)  # fmt: skip


# ------------------------------------------------------------------ releases


def _release_order() -> Scenario:
    one = keyset("ann", "bob")
    five, six = release(one), release(one, seq=6)
    steps = (
        (one, OK),
        (five, OK),
        (six, OK),
        (five, "statement.rollback"),
        (release(one, seq=6, audit_head="0" * 64), "statement.fork"),
        (release(one, "rel2", seq=9), OK),
    )
    return Scenario("Releases are ordered by their number; one number is one release.", _pin(one),
                    steps)  # fmt: skip


def _release_fork() -> Scenario:
    one = keyset("ann", "bob")
    steps = (
        (one, OK),
        (release(one), OK),
        (release(one, seq=6), OK),
        (release(one, seq=6, audit_head="0" * 64), "statement.fork"),
    )
    return Scenario(
        "Two releases of one number: what is held stays; where neither is, neither is believed.",
        _pin(one), steps, at_once=AtOnce(0, release=1))  # fmt: skip


def _release_floors() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one)
    floor = {URL: 3, OTHER_URL: 4}
    said = members_of(release(one, seq=6))
    steps = (
        (one, OK),
        (release(one, floor=floor), OK),
        (release(one, seq=6, floor={**floor, URL: 2}), "statement.floor"),
        (release(one, seq=6, floor={URL: 3}), "statement.floor"),
        (_spelled_release(jcs({**said, "floor": {**floor, "extended": 7}})), "statement.floor"),
        (release(one, seq=6, floor={**floor, "extended": 6}), OK),
        (two, OK),
        (release(two, seq=7, floor={}), OK),
    )
    return Scenario(
        "No floor falls or vanishes within one keyset version, nor lies above its release; a new "
        "version frees them.",
        _pin(one), steps)  # fmt: skip


def _release_revokes() -> Scenario:
    lost = thumbprint("lost")
    one = keyset("ann", "bob", revoked=[lost])
    steps = (
        (one, OK),
        (release(one, revoked=[thumbprint("card")]), OK),
        (release(one, seq=6, revoked=sorted(map(thumbprint, ("card", "rel2")))), OK),
    )
    return Scenario("A release revokes besides the keyset.", _pin(one), steps,
                    revoked=("lost", "card", "rel2"))  # fmt: skip


def _release_revocation_ends() -> Scenario:
    one = keyset("ann", "bob", revoked=[thumbprint("lost")])
    two = after(one)
    steps = ((one, OK), (release(one, revoked=[thumbprint("card")]), OK), (two, OK))
    return Scenario(
        "What a release revoked under a lower version holds no longer: the roots have not "
        "confirmed it.",
        _pin(one), steps, revoked=("lost",),
        at_once=AtOnce(2, revoked=("lost",)))  # fmt: skip


def _release_confirmed() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one, keys=[entry("card2", "card"), entry("rel", "release")],
                revoked=[thumbprint("card")])  # fmt: skip
    steps = (
        (one, OK),
        (release(one, revoked=[thumbprint("card")]), OK),
        (two, OK),
        (release(two, seq=6), OK),
    )
    return Scenario("The roots have confirmed what a release revoked.", _pin(one), steps,
                    revoked=("card",))  # fmt: skip


def _release_may_not_revoke() -> Scenario:
    one = keyset("ann", "bob")
    own = release(one, revoked=[thumbprint("rel")])
    both = sorted(map(thumbprint, ("rel", "rel2")))
    steps = (
        (one, OK),
        *_all((release(one, revoked=[thumbprint(name)]) for name in ("ann", "rita", "eve")),
              "statement.revoked"),
        (own, "statement.revoked"),
        (release(one, "rel", "rel2", revoked=both), "statement.revoked"),
        (release(one, "rel", "rel2", revoked=[thumbprint("rel")]), OK),
    )  # fmt: skip
    return Scenario(
        "A release revokes neither roots nor recovery nor strangers nor its only signers; a thief "
        "who signs besides what revokes him does not spoil it.",
        _pin(one), steps, revoked=("rel",))  # fmt: skip


def _release_keyset() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one)
    fork = after(one, "bob", "cat", revoked=[thumbprint("lost")])
    steps = (
        (one, OK),
        (release(two), "statement.keyset"),
        (two, OK),
        (release(one), "statement.keyset"),
        (release(fork), "statement.keyset"),
        (release(two, issuer="other.example"), "statement.issuer"),
        (release(two), OK),
    )
    return Scenario("A release speaks under exactly the newest keyset statement.", _pin(one),
                    steps)  # fmt: skip


def _release_signer() -> Scenario:
    keys = [
        entry("card", "card"),
        entry("both", "card", "release"),
        entry("early", "release", nbf=T0 + SKEW + 1),
        entry("edge", "release", nbf=T0 + SKEW),
        entry("late", "release", exp=T0),
    ]
    one = keyset("ann", "bob", keys=keys)
    steps = (
        (one, OK),
        *_all((release(one, name) for name in ("card", "ann", "eve", "early", "late")),
              "statement.unsigned"),
        (release(one, "late", "edge", seq=6), OK),
        (release(one, "both", seq=7), OK),
    )  # fmt: skip
    return Scenario("One key signs a release that has the role, now.", _pin(one), steps)


def _fast_forward() -> Scenario:
    one = keyset("ann", "bob")
    two = after(one, keys=[entry("card", "card"), entry("rel2", "release")],
                revoked=[thumbprint("rel")])  # fmt: skip
    far = release(one, seq=2**53 - 1)
    steps = (
        (one, OK),
        (far, OK),
        (release(one, seq=6), "statement.rollback"),
        (two, OK),
        (release(two, "rel", seq=2**53 - 1), "statement.unsigned"),
        (release(two, "rel2", seq=6), OK),
    )
    return Scenario("A new keyset version ends what the thief of a release key has counted to.",
                    _pin(one), steps, revoked=("rel",))  # fmt: skip


def _release_after_recovery() -> Scenario:
    one = keyset("ann", "bob")
    nine = one
    versions = []
    for _ in range(3):
        nine = after(nine)
        versions.append(nine)
    two = opened(one)
    steps = (
        (one, OK),
        *_all(versions),
        (release(nine, seq=50), OK),
        (two, OK),
        (release(nine, seq=51), "statement.keyset"),
        (release(two, seq=7), OK),
    )
    return Scenario("A higher epoch comes before any version and number of the one before.",
                    _pin(one), steps)  # fmt: skip


def _release_future() -> Scenario:
    one = keyset("ann", "bob")
    steps = (
        (one, OK),
        (release(one, seq=6, iat=T0 + SKEW + 1, exp=T0 + DAY), "statement.not_yet"),
        (release(one, iat=T0 + SKEW, exp=T0 + DAY), OK),
    )
    return Scenario("A release of the future is not believed.", _pin(one), steps)


def _release_as_keyset() -> Scenario:
    one = keyset("ann", "bob")
    payload = payload_of(release(one))
    forged = {
        "payload": base64url.encode(payload),
        "signatures": [sign_payload(payload, key("rel"), typ=TYP_KEYSET)],
    }
    said = members_of(release(one))
    long = {**said, "exp": T0 + 14 * DAY + 1}
    listed = {**said, "cards": [{**said["cards"][0], "kind": "extended"}]}
    steps = (
        (one, OK),
        (json.dumps(forged).encode(), "statement.typ"),
        *_all((_spelled_release(jcs(members)) for members in ({**said, "x": 1}, listed)),
              "statement.members"),
        (_spelled_release(jcs(long)), "statement.time_span"),
        (release(one), OK),
    )  # fmt: skip
    return Scenario("What is no release is refused before anybody asks who signed it.", _pin(one),
                    steps)  # fmt: skip


def _urls() -> Scenario:
    one = keyset("ann", "bob")
    said, listed = members_of(one), members_of(release(one))
    hosts = ("tides.example:443", "tides.example:65536", "TIDES.example", "tides.example.",
             "a..example", "-a.example", "01.2.3.4", "0x7f", "[0:0:0:0:0:0:0:1]",
             "[::ffff:102:304]", "tides.example/")  # fmt: skip
    paths = ("", "/../card.json", "//card.json", "/%2e", "/%c3%a9", "/a b", "/card.json?x")
    steps = (
        *_all((_spelled(one, jcs({**said, "origins": [f"https://{host}"]}), "ann", "bob")
               for host in hosts), "statement.members"),
        (one, OK),
        *_all((_spelled_release(jcs({**listed, "cards": [
            {**listed["cards"][0], "url": f"https://tides.example{path}"}]}))
               for path in paths), "statement.members"),
        (_spelled_release(jcs({**listed, "floor": {"tides": 1}})), "statement.members"),
        (release(one), OK),
    )  # fmt: skip
    return Scenario(
        "An origin and a URL have one spelling, and no other is read.", _pin(one), steps
    )


def _keys_that_are_none() -> Scenario:
    one = keyset("ann", "bob")
    said = members_of(one)
    entries = ({**said["keys"][0], "public": public} for public in (None, 1, "x", [], {}))
    steps = (
        *_all((_spelled(one, jcs({**said, "keys": [entry]}), "ann", "bob") for entry in entries),
              "statement.bad_key"),
        (one, OK),
    )  # fmt: skip
    return Scenario("What stands in the place of a key and is none is refused.", _pin(one), steps)


def _spelled_release(payload: bytes) -> bytes:
    entries = [forged_entry(payload, "rel", thumbprint("rel"), TYP_RELEASE)]
    return json.dumps({"payload": base64url.encode(payload), "signatures": entries}).encode()


SCENARIOS: Final[dict[str, Callable[[], Scenario]]] = {
    "first-by-pin": _first,
    "first-by-root-set": _first_by_root,
    "first-is-a-later-one": _first_later,
    "first-of-thieves": _first_of_thieves,
    "first-relabelled": _first_relabelled,
    "first-lone-thumbprint": _lone_thumbprint,
    "first-pin-of-three-parts": _pin_of_three_parts,
    "count-two-of-three": _two_of_three,
    "count-holder-once": _holder_once,
    "count-three-of-five": _three_of_five,
    "count-alg-of-the-key": _alg_of_the_key,
    "chain-of-twelve": _long_chain,
    "chain-by-root-set": _chain_by_root,
    "chain-both-roots": _both_roots,
    "chain-threshold-lowered": _threshold_lowered,
    "chain-gap": _gap,
    "chain-fork": _fork,
    "chain-forged-fork": _forged_fork,
    "chain-fork-at-the-anchor": _fork_at_the_anchor,
    "chain-rollback": _rollback,
    "chain-wrong-links": _wrong_links,
    "chain-future": _future,
    "chain-expired": _expired,
    "chain-nearly-expired": _nearly_expired,
    "recovery-changed": _recovery_changed,
    "recovery-given-up": _recovery_given_up,
    "recovery-opens-an-epoch": _recovery_opens,
    "recovery-threshold": _recovery_quorum,
    "recovery-beats-a-thief": _thief,
    "recovery-retired": _retired_recovery,
    "recovery-twice": _two_recoveries,
    "envelope": _envelopes,
    "release-order": _release_order,
    "release-fork": _release_fork,
    "release-floors": _release_floors,
    "release-revokes": _release_revokes,
    "release-revocation-ends": _release_revocation_ends,
    "release-revocation-confirmed": _release_confirmed,
    "release-may-not-revoke": _release_may_not_revoke,
    "release-names-its-keyset": _release_keyset,
    "release-signer": _release_signer,
    "release-fast-forward": _fast_forward,
    "release-after-recovery": _release_after_recovery,
    "release-future": _release_future,
    "release-envelope": _release_as_keyset,
    "urls": _urls,
    "keys-that-are-none": _keys_that_are_none,
}


def main() -> None:
    """Write every vector, and remove what is none any more."""
    FOLDER.mkdir(exist_ok=True)
    names = set()
    for number, (name, scenario) in enumerate(SCENARIOS.items(), 1):
        path = FOLDER / f"{number:02}-{name}.json"
        names.add(path)
        path.write_text(json.dumps(_file(name, scenario()), indent=1) + "\n")
    for path in set(FOLDER.glob("*.json")) - names:
        path.unlink()


def _file(name: str, scenario: Scenario) -> Members:
    steps = [_step(statement, outcome) for statement, outcome in scenario.steps]
    newest = {
        kind: next((one["accepted"] for one in reversed(steps)
                    if one["kind"] == kind and "accepted" in one), None)
        for kind in ("keyset", "release")
    }  # fmt: skip
    end = {**newest, "revoked": sorted(map(thumbprint, scenario.revoked))}
    together: Members = {**end, "refused": None}
    if (once := scenario.at_once) is not None:
        together = {
            "keyset": None if once.keyset is None else steps[once.keyset]["accepted"],
            "release": None if once.release is None else steps[once.release]["accepted"],
            "revoked": sorted(map(thumbprint, once.revoked)),
            "refused": once.refused,
        }
    return {
        "id": name,
        "says": scenario.says,
        "anchor": scenario.anchor,
        "now": T0,
        "skew": SKEW,
        "steps": steps,
        "end": {**end, "times": scenario.times},
        "at_once": together,
    }


def _step(statement: bytes, outcome: str) -> Members:
    said = members_of(statement) if outcome == OK else {}
    kind = "release" if _is_release(statement) else "keyset"
    step: Members = {"kind": kind, "statement": statement.decode("ascii")}
    if outcome != OK:
        return {**step, "refused": outcome}
    number = ("epoch", "version") if kind == "keyset" else ("seq",)
    accepted = {name: said[name] for name in number} | {"digest": digest_of(statement)}
    return {**step, "accepted": accepted}


def _is_release(statement: bytes) -> bool:
    """What a statement was offered as: what its payload says it is."""
    return b'"cardsign-release/1"' in payload_of(statement)


if __name__ == "__main__":
    main()
