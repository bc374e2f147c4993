"""Whatever peers serve, when, and however often they fail: caches change no verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from sites import CANONICAL, HOST, OTHER, Clock, at, issuer

from cardsign.errors import FetchFailed
from cardsign.net.fetch import DocumentFetcher, FetchSettings, OtherStatus
from cardsign.statements.keyset import read_keyset
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject
from cardsign.trust.session import Session
from cardsign.trust.walk import FetchResult
from cardsign.urls import RELEASE_PATH
from cardsign.verify.verifier import Verifier
from tests.cli import peer
from tests.jose.statement_making import DAY, key
from tests.support import PORTABLE, Remembering, dump, reach_verdict, signed

FIRST = peer.keyset()
SECOND = peer.keyset(2, FIRST, iat=peer.T0 + 1)
FORKED = peer.keyset(exp=peer.T0 + 91 * DAY)
REVOKED = [key("card").public.thumbprint]
WORLD: dict[str, list[bytes | None]] = {
    CANONICAL: [
        dump(signed(PORTABLE, key("card"))),
        dump(signed(OTHER, key("card"))),
        dump(signed(PORTABLE, key("mallory"))),
        dump(PORTABLE),
        None,
    ],
    RELEASE_PATH: [
        peer.release(FIRST, PORTABLE),
        peer.release(FIRST, PORTABLE, OTHER, seq=43),
        peer.release(FIRST, OTHER, seq=44),
        peer.release(FIRST, PORTABLE, seq=45, revoked=REVOKED),
        peer.release(SECOND, OTHER, seq=46),
        peer.release(FORKED, OTHER, seq=47),
        None,
    ],
    at(1, 1): [FIRST, FORKED, None],
    at(1, 2): [None, SECOND],
}
STEPS = st.one_of(
    st.sampled_from([1, 30, 61, 301, DAY, 8 * DAY]),
    *(st.tuples(st.just(path), st.sampled_from(served)) for path, served in WORLD.items()),
    st.sampled_from([None, "no-store", "max-age=31536000", "max-age=10"]),
    st.booleans(),
)


@dataclass
class Served:
    """What is served now: documents, how long HTTP lets them be used, or nothing at all."""

    documents: dict[str, bytes | None] = field(
        default_factory=lambda: {path: served[0] for path, served in WORLD.items()}
    )
    caching: str | None = None
    is_silent: bool = False

    def fetch(self, url: str, settings: FetchSettings, **conditions: object) -> FetchResult:
        if self.is_silent:
            raise FetchFailed("fetch.timeout", f"{url} did not answer")
        body = self.documents.get(url.removeprefix(HOST))
        if body is None:
            raise OtherStatus(url, 404)
        headers = () if self.caching is None else (("cache-control", self.caching),)
        return FetchResult(url, "found", body, headers=headers)


def verifier(clock: Clock) -> Verifier:
    """Somebody who has pinned the first statement."""
    policy = Policy((issuer(KeysetAnchor(read_keyset(FIRST).id)),))
    return Verifier(policy, lock=Memory(), net=DocumentFetcher(now=clock), clock=clock)


def knowing(session: Session) -> Remembering:
    """Another verifier who knows the same."""
    memory = Remembering()
    other = memory.session(session.issuer)
    other.keyset, other.release = session.keyset, session.release
    other.newest_iat = session.newest_iat
    return memory


@given(steps=st.lists(STEPS, max_size=10))
def test_caches_change_no_verdict(steps: list[object]) -> None:
    """What is said of the bytes received is what a verifier without any cache says of them."""
    served, clock = Served(), Clock()
    one = verifier(clock)
    known = one.session(one.policy.issuers[0])
    held = (0, 0, 0)
    with mock.patch("cardsign.net.fetch.fetch_document", served.fetch):
        for step in [*steps, 0]:
            match step:
                case bool():
                    served.is_silent = step
                case int():
                    clock.pass_by(step)
                case (str(path), served_there):
                    served.documents[path] = served_there
                case _:
                    served.caching = step  # type: ignore[assignment]
            met = one.look_up(HOST)
            if met.untrusted_card:
                alone = reach_verdict(
                    met.untrusted_card,
                    expect=Subject(url=met.url),
                    policy=one.policy,
                    now=clock.now,
                    supplied=met.supplied,
                    memory=knowing(known),
                )
                assert (met.report.verdict, met.report.card) == (alone.verdict, alone.card)
                assert set(alone.reasons) <= set(met.report.reasons)
            else:
                assert met.report.verdict == "indeterminate"
            if met.report.verdict == "trusted":
                assert met.report.valid_until is not None
                assert clock.now < met.report.valid_until
            release = known.release
            now_held = release.order if release else (0, 0, 0)
            assert now_held >= held
            held = now_held


def test_the_world_has_something_of_everything() -> None:
    """The property above sees trusted cards and others."""
    served, clock = Served(), Clock()
    with mock.patch("cardsign.net.fetch.fetch_document", served.fetch):
        one = verifier(clock)
        assert one.look_up(HOST).report.verdict == "trusted"
        served.documents[RELEASE_PATH] = WORLD[RELEASE_PATH][3]
        clock.pass_by(301)
        assert one.look_up(HOST).report.verdict == "untrusted"
        served.documents[CANONICAL] = None
        clock.pass_by(301)
        assert one.look_up(HOST).report.reasons[0].code == "card.vanished"
