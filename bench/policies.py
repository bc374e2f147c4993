"""What a policy costs a verdict: remembered statements, many issuers, many keys, long histories.

The same card is verified under each policy in turns. Every policy is loaded and every issuer
remembered before the first turn; no verdict is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from documents import portable_card
from measuring import Broken, cpu_seconds, in_turns, ratio, table

from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.statements.keyset import KeysetId
from cardsign.testing import FakeIssuer
from cardsign.testing.fake_issuer import digest_of
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysAnchor, KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import Place, parse_place
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier

PINNED: Final = "pinned keys"
REMEMBERED: Final = "keyset and release, remembered"
HISTORY: Final = "the same, with {} keysets of history supplied"
ISSUERS: Final = "pinned keys, {} issuers in the policy"
KEYS: Final = "{} pinned keys"

_ORIGIN: Final = "https://tides.example"
_DAY: Final = 24 * 60 * 60  # seconds
ISSUERS_AND_KEYS: Final = 1_000
KEYSETS: Final = 500


def measure_policies(rounds: int) -> dict[str, str]:
    """Return the table `policies`: of verdicts on one card, in those by one pinned key."""
    turns = cases(ISSUERS_AND_KEYS, KEYSETS, datetime.now(UTC))
    times = in_turns({name: cpu_seconds(verify) for name, verify in turns.items()}, rounds)
    rows = ([name, ratio(times, name, PINNED)] for name in times)
    return {"policies": table(["policy", "times pinned keys"], *rows)}


def cases(size: int, history: int, now: datetime) -> dict[str, Callable[[], None]]:
    """A verification of the same card under each policy."""
    them = FakeIssuer(now, origin=_ORIGIN)
    card = json.loads(portable_card(_ORIGIN))
    signed = them.signed_card(card)
    key = them.key("card").public
    places = (parse_place(_ORIGIN),)

    def verifying(one: Policy, supplied: SuppliedStatements) -> Callable[[], None]:
        verifier = Verifier(one, lock=Memory(), clock=lambda: now)
        session = verifier.session(one.issuer("tides"))

        def examined() -> Report:
            session.verdicts.clear()
            return verifier.judge(signed, Subject(issuer="tides"), supplied)

        def verify() -> None:
            report = examined()
            if report.verdict != "trusted":
                raise Broken(f"{report.verdict}: {report.reasons}")

        examined()  # one call follows no more than some 250 keysets
        verify()
        return verify

    def pinning(issuers: int, keys: int) -> Callable[[], None]:
        others = [PrivateKey.generate("ES256", kid=f"k{at}").public for at in range(keys - 1)]
        anchor = KeysAnchor(JwkSet.of([*others, key]))
        strangers = (
            TrustedIssuer(f"other-{at}", KeysAnchor(JwkSet.of([])), (_place(at),))
            for at in range(issuers - 1)
        )
        entry = TrustedIssuer("tides", anchor, places, freshness="waived")
        return verifying(Policy((*strangers, entry)), NO_STATEMENTS)

    def following(keysets: int) -> Callable[[], None]:
        begun = them.t0 - _DAY - keysets * 60
        root = them.quorum(1, "owner")
        chain = [them.keyset("owner", root=root, iat=begun, exp=begun + 390 * _DAY)]
        for at in range(1, keysets):
            iat = begun + at * 60
            chain.append(them.keyset_after(chain[-1], "owner", iat=iat, exp=iat + 390 * _DAY))
        release = them.release(chain[-1], **them.listing(card, seq=1))
        pin = KeysetAnchor(KeysetId(1, 1, digest_of(chain[0])))
        policy = Policy((TrustedIssuer("tides", pin, places),))
        return verifying(policy, SuppliedStatements(tuple(chain), (release,)))

    return {
        PINNED: pinning(1, 1),
        REMEMBERED: following(1),
        HISTORY.format(history): following(history),
        ISSUERS.format(f"{size:,}"): pinning(size, 1),
        KEYS.format(f"{size:,}"): pinning(1, size),
    }


def _place(at: int) -> Place:
    return parse_place(f"https://other-{at}.example")
