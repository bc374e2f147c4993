"""Cards on a Dask cluster: one verdict for each, whatever happens to a worker."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cardsign.batch import Batch, Outcome, attempt, verify_many
from cardsign.errors import LocalFault, UsageFault
from cardsign.verify.report import Report
from cardsign.verify.verifier import Verifier
from tests.net.authorities import Authority
from tests.support import dump, signed
from tests.test_batch import KEYS, card_of, policy_of, spoken

pytestmark = pytest.mark.needs_dask


class Deadly(Verifier):
    """A verifier that some cards kill, by what they say of themselves."""

    def judge(self, data: bytes, *args: Any, **named: Any) -> Report:
        """Return the verdict on a card that lets this process live."""
        if b"deadly once" in data:
            with contextlib.suppress(FileExistsError), open(os.environ["FLAG"], "x"):
                os.kill(os.getpid(), signal.SIGKILL)
        if b"deadly always" in data:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().judge(data, *args, **named)


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


def test_a_worker_that_is_killed_loses_no_card(tmp_path: Path) -> None:
    """Its chunk is done again by the other; each card has one verdict, the same as here."""
    cards = make_cards(tmp_path, 300, deadly=150, word="deadly once")
    with cluster(tmp_path) as url:
        outcomes = list(judge(cards, url))
    assert (tmp_path / "flag").exists()
    assert [*map(spoken, outcomes)] == [*map(spoken, judge(cards))]
    assert [outcome.name for outcome in outcomes] == [card[0] for card in cards]


def test_a_card_that_ends_its_workers_ends_the_run(tmp_path: Path) -> None:
    """Once it has killed as many as a scheduler allows; the cards before it have verdicts."""
    cards, outcomes = make_cards(tmp_path, 40, deadly=20, word="deadly always"), list[Outcome]()
    with cluster(tmp_path, deaths=0) as url, pytest.raises(LocalFault) as ended:
        outcomes.extend(judge(cards, url))
    assert ended.value.code == "cluster.unreachable"
    assert 0 < len(outcomes) <= 20
    assert [outcome.name for outcome in outcomes] == [card[0] for card in cards[: len(outcomes)]]


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
