"""Many cards: one verdict for each; what happens to one hides no other."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from cardsign.batch import Batch, Outcome, attempt, subject_by_origin, verify_many
from cardsign.errors import LocalFault, UsageFault
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.trust.policy import KeysAnchor, Policy, Subject, TrustedIssuer
from cardsign.urls import parse_place
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier
from tests.net.authorities import Authority
from tests.support import PORTABLE, dump, put, signed

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
KEYS = {name: PrivateKey.generate("ES256") for name in ("north", "south")}


def card_of(name: str) -> dict[str, Any]:
    """A card whose one interface is at an issuer's origin."""
    return put(PORTABLE, "/supportedInterfaces/0/url", f"https://{name}.example/a2a")


def policy_of(names: Iterable[str]) -> Policy:
    """A policy that trusts issuers at their own origins, by one key each."""

    def issuer(name: str) -> TrustedIssuer:
        anchor, place = KeysAnchor(JwkSet.of([KEYS[name].public])), f"https://{name}.example"
        return TrustedIssuer(name, anchor, (parse_place(place),), freshness="waived")

    return Policy(tuple(map(issuer, names)))


@pytest.fixture
def cards(tmp_path: Path) -> list[Path]:
    """Cards of two issuers, an unsigned one, one that is no JSON, and a file that is not there."""
    made = {f"{name}.json": dump(signed(card_of(name), KEYS[name])) for name in KEYS}
    made |= {"unsigned.json": dump(card_of("north")), "broken.json": b"{"}
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    return [tmp_path / name for name in (*made, "absent.json")]


def judged(cards: list[Path], names: Iterable[str], expect: Subject | None = None, jobs: int = 1):
    """What comes of the cards by that policy."""
    verifier = Verifier(policy_of(names), clock=lambda: NOW)
    batch = Batch(verifier, expect or Subject(), by_origin=True)
    files = [(str(card), "") for card in cards]
    return list(verify_many(files, partial(attempt, batch), jobs=jobs))


def spoken(outcome: Outcome) -> str:
    """The verdict, or the code of the fault."""
    result = outcome.result
    return result.code if isinstance(result, LocalFault) else result.verdict


@pytest.mark.parametrize(
    ("names", "expect", "jobs", "results"),
    [
        ("north south", "", 1, "trusted trusted untrusted"),
        ("north south", "", 3, "trusted trusted untrusted"),
        ("north", "", 1, "trusted indeterminate untrusted"),
        ("north south", "north", 1, "trusted untrusted untrusted"),
    ],
    ids=["in this process", "in three", "of nobody in the policy", "of another issuer"],
)
def test_each_file_gets_its_verdict_in_the_order_given(
    names: str, expect: str, jobs: int, results: str, cards: list[Path]
) -> None:
    """By the issuer whose origin holds its interface, or who was asked for, whatever it says."""
    outcomes = judged(cards, names.split(), Subject(issuer=expect or None), jobs)
    assert [Path(outcome.name) for outcome in outcomes] == cards
    assert [*map(spoken, outcomes)] == [*results.split(), "invalid", "file.not_found"]
    issuers = [outcome.result.issuer for outcome in outcomes[:3]]
    assert issuers == ["north", expect or "south" if "south" in names else None, "north"]


@pytest.mark.parametrize("card", [None, {}, {**PORTABLE, "supportedInterfaces": [{"url": 7}]}])
def test_a_file_without_an_interface_has_no_subject(card: dict[str, Any] | None) -> None:
    """Nothing about it raises."""
    data = b"{" if card is None else dump(card)
    assert subject_by_origin(data, policy_of(KEYS)) == Subject()


@pytest.mark.parametrize(
    ("names", "has_file", "card", "is_told"),
    [
        ((), False, "north.json", True),
        ((), True, "north.json", False),
        ((), False, "broken.json", False),
        (("south",), False, "north.json", False),
    ],
    ids=["none", "a file without issuers", "no card", "of another issuer"],
)
def test_a_missing_policy_is_told(
    names: Iterable[str], has_file: bool, card: str, is_told: bool, cards: list[Path]
) -> None:
    """First of all, where there is none and it is what a verdict lacks."""
    policy = replace(policy_of(names), path=Path("trust.toml") if has_file else None)
    data = cards[0].with_name(card).read_bytes()
    verifier = Verifier(policy, clock=lambda: NOW)
    _, report = Batch(verifier, Subject(issuer="north")).examine(card, data)
    assert report.reasons[0].message.startswith("there is no policy") is is_told


def send_a_piece(connection: Connection, answer: bytes) -> None:
    """Send a beginning, and die."""
    os.write(connection.fileno(), answer[:9])
    os.kill(os.getpid(), signal.SIGKILL)


class Deadly(Verifier):
    """A verifier to which some cards do something, by what they are called."""

    def judge(self, data: bytes, *args: Any, **named: Any) -> Report:
        """Return the verdict on a card that lets it."""
        if b"crash" in data:
            raise ZeroDivisionError("oh")
        if b"killed" in data and multiprocessing.parent_process() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        if b"cut short" in data:
            Connection._send = send_a_piece  # type: ignore[attr-defined]
        if b"deadly once" in data:
            with contextlib.suppress(FileExistsError), open(os.environ["FLAG"], "x"):
                os.kill(os.getpid(), signal.SIGKILL)
        return super().judge(data, *args, **named)


@pytest.fixture
def many(tmp_path: Path) -> Callable[..., Iterator[Outcome]]:
    """Begins to verify cards of these names by two processes."""

    def begin(*words: str) -> Iterator[Outcome]:
        for word in {*words} - {"absent"}:
            card = signed({**card_of("north"), "description": word}, KEYS["north"])
            (tmp_path / word).write_bytes(dump(card))
        batch = Batch(Deadly(policy_of(KEYS)), by_origin=True)
        files = [(str(tmp_path / word), "") for word in words]
        return verify_many(files, partial(attempt, batch), jobs=2)

    return begin


def test_what_ends_one_card_ends_no_other(many: Callable[..., Iterator[Outcome]]) -> None:
    """Each has its own fault, and all come back in order, over several rounds of work."""
    words = ["a", "crash", *(f"w{number}" for number in range(1100)), "absent", "b"]
    outcomes = list(many(*words))
    assert [Path(outcome.name).name for outcome in outcomes] == words
    results = dict(zip(words, map(spoken, outcomes), strict=True))
    assert isinstance(crash := outcomes[1].result, LocalFault)
    assert crash.path == outcomes[1].name
    assert results.pop("crash") == "internal.bug"
    assert results.pop("absent") == "file.not_found"
    assert {*results.values()} == {"trusted"}


@pytest.mark.parametrize("word", ["killed", "cut short"])
def test_a_killed_worker_ends_the_run(word: str, many: Callable[..., Iterator[Outcome]]) -> None:
    """After the cards that were done; none that was not is called so."""
    words = [*(f"w{number}" for number in range(400)), word, *"abc"]
    outcomes: list[Outcome] = []
    with pytest.raises(LocalFault, match="a worker was killed") as ended:
        outcomes.extend(many(*words))
    assert ended.value.code == "internal.ended"
    assert [Path(outcome.name).name for outcome in outcomes] == words[: len(outcomes)]
    assert {*map(spoken, outcomes)} == {"trusted"}
    assert multiprocessing.active_children() == []


def test_a_reader_who_stops_early_leaves_no_process(many: Callable[..., Iterator[Outcome]]) -> None:
    """The workers are no more than were asked for, and end with the iterator."""
    results = many(*(f"w{number}" for number in range(300)))
    assert spoken(next(results)) == "trusted"
    assert len(multiprocessing.active_children()) <= 2
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_workers_end_with_the_process_that_began_them() -> None:
    """It was killed: nobody would end them, nor whoever waits for what they may still print."""
    script = """if True:
        import time
        from cardsign.batch import verify_many
        results = verify_many([("absent", "")] * 9, "{}{}".format, jobs=2)
        print(next(results) and "begun", flush=True)
        time.sleep(120)
    """
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "begun\n"
    parent.kill()
    assert parent.communicate(timeout=30) == ("", None)


def test_ctrl_c_ends_a_run_whose_workers_send_their_answers() -> None:
    """One that died in the middle of an answer would leave the parent waiting for the rest."""
    script = """if True:
        import os, signal
        from cardsign.batch import verify_many
        results = verify_many([("absent", "")] * 5000, "{:>20000}{}".format, jobs=2)
        next(results)
        os.killpg(0, signal.SIGINT)
        list(results)
    """
    run = partial(subprocess.run, stderr=subprocess.PIPE, timeout=30, start_new_session=True)
    ended = run([sys.executable, "-c", script], text=True)
    assert ended.returncode == -signal.SIGINT
    assert "InvalidStateError" not in ended.stderr


# ------------------------------------------------------------------ on a Dask cluster


@contextlib.contextmanager
def cluster(folder: Path, *, deaths: int = 1, **how: Any) -> Iterator[str]:
    """Run a scheduler with two workers, which may die so often of one chunk; gives its URL."""
    import dask
    import distributed

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": deaths}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            local_directory=str(folder),
            env={"FLAG": str(folder / "flag")},
            **how,
        ) as running,
    ):
        yield running.scheduler_address


def make_cards(folder: Path, count: int, deadly: int = -1, word: str = "") -> list[tuple[str, str]]:
    """Trusted, unsigned and unreadable cards; one may kill who judges it."""
    north = signed(card_of("north"), KEYS["north"])
    kinds = [dump(north), dump(signed(card_of("south"), KEYS["south"]))]
    kinds += [dump(card_of("north")), b"{"]
    cards = [(str(folder / f"{number:03}.json"), "") for number in range(count)]
    for number, card in enumerate(cards):
        Path(card[0]).write_bytes(kinds[number % 4])
    if word:
        card_with_word = signed({**card_of("north"), "description": word}, KEYS["north"])
        Path(cards[deadly][0]).write_bytes(dump(card_with_word))
    return cards


def judge(cards: list[tuple[str, str]], url: str = "") -> Iterator[Outcome]:
    """The verdicts on a cluster, or here."""
    batch = Batch((Deadly if url else Verifier)(policy_of(KEYS)), by_origin=True)
    return verify_many(cards, partial(attempt, batch), cluster=url or None)


@pytest.mark.needs_dask
def test_a_worker_that_is_killed_loses_no_card(tmp_path: Path) -> None:
    """Its chunk is done again by the other; each card has one verdict, the same as here."""
    cards = make_cards(tmp_path, 300, deadly=150, word="deadly once")
    with cluster(tmp_path) as url:
        outcomes = list(judge(cards, url))
    assert (tmp_path / "flag").exists()
    assert [*map(spoken, outcomes)] == [*map(spoken, judge(cards))]
    assert [outcome.name for outcome in outcomes] == [card[0] for card in cards]


@pytest.mark.needs_dask
def test_a_card_that_ends_its_workers_ends_the_run(tmp_path: Path) -> None:
    """Once it has killed as many as a scheduler allows; the cards before it have verdicts."""
    cards, outcomes = make_cards(tmp_path, 40, deadly=20, word="killed"), list[Outcome]()
    with cluster(tmp_path, deaths=0) as url, pytest.raises(LocalFault) as ended:
        outcomes.extend(judge(cards, url))
    assert ended.value.code == "cluster.unreachable"
    assert 0 < len(outcomes) <= 20
    assert [outcome.name for outcome in outcomes] == [card[0] for card in cards[: len(outcomes)]]


@pytest.mark.needs_dask
def test_tls_is_required_of_both_sides(tmp_path: Path) -> None:
    """A cluster by TLS gives the verdicts; without the certificates nothing is sent."""
    import dask
    import distributed

    authority, names = Authority(tmp_path), dict[str, str]()
    (tmp_path / "ca.pem").write_text(authority.pem())
    for role in ("scheduler", "worker", "client"):
        both = str(authority.certificate("127.0.0.1"))
        names |= {f"tls_{role}_cert": both, f"tls_{role}_key": both}
    names["tls_ca_file"] = str(tmp_path / "ca.pem")
    security = distributed.Security(require_encryption=True, **names)
    here = {"distributed.comm.tls.ca-file": names["tls_ca_file"]}
    here |= {
        f"distributed.comm.tls.client.{end}": names[f"tls_client_{end}"] for end in ("cert", "key")
    }
    cards = make_cards(tmp_path, 8)
    with cluster(tmp_path, protocol="tls", security=security) as url:
        assert url.startswith("tls://")
        with dask.config.set(here):
            assert spoken(next(iter(judge(cards, url)))) == "trusted"
        with pytest.raises(UsageFault, match="needs certificates") as refused:
            list(judge(cards, url))
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in refused.value.hint
