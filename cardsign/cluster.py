"""Verify cards on the workers of a Dask cluster (extra ``cluster``), as ``-j`` does in processes.

Workers are sent policy, issuer state, time and cards as data, and read none of their own. They
read from object stores and ask URLs. What one learns of an issuer is forgotten with its chunk. Who
can reach a scheduler runs programs on every worker and here, so the way is TLS or loopback.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from cardsign.batch import CHUNK, Outcome, Verifier, attempt, judge, read_card, shown
from cardsign.card.strictjson import be_paranoid, is_paranoid
from cardsign.errors import LocalFault, UsageFault
from cardsign.trust.state import NO_STATES, IssuerState, TransientStates

#: Seconds to wait for the scheduler, and between two looks whether it still has a worker.
PATIENCE: Final = 20
_TLS: Final = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"
#: Chunks that are sent for each worker before the first is done; it bounds what is held.
_AHEAD: Final = 4

_ENDED: Final = (LocalFault("internal.ended", "its worker was ended"),)

_Result = TypeVar("_Result")
_Card = tuple[str, bytes | LocalFault | None]


def verify_on_cluster(
    names: Sequence[str],
    verifier: Verifier,
    *,
    cluster: str,
    view: Callable[[Outcome], _Result],
    folders: Mapping[str, str] | None = None,
    given: Mapping[str, bytes] | None = None,
) -> Iterator[_Result]:
    """Verify cards as :func:`cardsign.batch.verify_many` does, on the workers of a cluster.

    The chunk of a worker that is lost is done again by another. A card that ends every worker
    which it is given to has the fault ``internal.ended``.

    Args:
        names: Files, which are read here; objects and URLs, which a worker reads.
        verifier: By what they are judged. What is remembered of its issuers is sent along.
        cluster: The scheduler: ``tls://host:8786``, with the certificates of Dask's own settings;
            or ``tcp://`` and a loopback address.
        view: What is wanted of an outcome; a worker makes it, so it is of a module it has.
        folders: As for :func:`~cardsign.batch.verify_many`.
        given: As for :func:`~cardsign.batch.verify_many`.

    Raises:
        UsageFault: ``usage.invalid``: plain TCP to another machine, or TLS without certificates;
            ``usage.not_installed``.
        LocalFault: ``cluster.unreachable``: no scheduler, no worker, or none of this version.
    """
    _check_address(cluster)
    states: dict[str, IssuerState] = {}
    for issuer in verifier.policy.issuers:
        with verifier.states.of(issuer) as state:
            if state is not None:
                states[issuer.name] = state
    sent = pickle.dumps(
        (view, replace(verifier, now=_no_time, states=NO_STATES), states, is_paranoid())
    )
    waiting = deque(names[at : at + CHUNK] for at in range(0, len(names), CHUNK))
    begun: deque[tuple[list[_Card], datetime, Any]] = deque()
    with closing(_connected(cluster)) as client:
        ahead = _AHEAD * _check_workers(client, cluster)
        while waiting or begun:
            while waiting and len(begun) < ahead:
                cards = [(one, _read(one, folders or {}, given or {})) for one in waiting.popleft()]
                at = verifier.now()
                begun.append((cards, at, client.submit(_judge, sent, at, cards, pure=False)))
            cards, at, future = begun.popleft()
            results = _results(client, future)
            if results is None:  # one of the chunk ended its workers: which, each shows alone
                alone = (client.submit(_judge, sent, at, [one], pure=False) for one in cards)
                results = [(_results(client, one) or _ENDED)[0] for one in alone]
            for (name, _), result in zip(cards, results, strict=True):
                yield shown(view, name, result)


def _check_address(cluster: str) -> None:
    """Check that what is sent to an address stays on this machine or is encrypted."""
    parts = urlsplit(cluster)
    host = parts.hostname or ""
    try:
        is_here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        is_here = False
    if not host or (parts.scheme, is_here) not in {("tls", False), ("tls", True), ("tcp", True)}:
        why = "whoever can read or change what is sent to a cluster decides its verdicts"
        hint = (
            f"Give tls://HOST:8786, with {_TLS}; plain tcp:// is for 127.0.0.1, ::1 and localhost."
        )
        raise UsageFault("usage.invalid", f"{cluster!r}: {why}", hint=hint)


def _connected(cluster: str) -> Any:
    try:
        from distributed import Client, Security
    except ImportError as exc:
        why = f"the library distributed cannot be loaded: {exc}"
        hint = "pip install 'cardsign[cluster]'"
        raise UsageFault("usage.not_installed", why, hint=hint) from exc
    security = None
    if cluster.startswith("tls:"):
        security = Security(require_encryption=True)
        try:
            context = security.get_connection_args("client")["ssl_context"]
        except OSError as exc:  # ssl.SSLError is one as well
            raise _unreachable(cluster, f"its certificates cannot be read: {exc}") from exc
        if context is None:  # a client without one would wait a minute before it says so
            why = f"{cluster} needs certificates, and the environment names none"
            raise UsageFault("usage.invalid", why, hint=f"Set {_TLS}.")
    try:
        return Client(cluster, security=security, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as exc:
        raise _unreachable(cluster, f"the scheduler cannot be reached: {exc}") from exc


def _check_workers(client: Any, cluster: str) -> int:
    """Check what runs on each worker, and the way to it; return how many there are."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError as exc:
        raise _unreachable(cluster, "it has no worker") from exc
    workers = _workers(client)
    for worker in workers:
        _check_address(worker)
    try:
        found = set(client.run(_version).values())
    except ModuleNotFoundError:  # there is a worker without cardsign
        found = set()
    if found != {_version()}:
        raise _unreachable(cluster, f"it needs workers, each with cardsign {_version()}")
    return len(workers)


def _unreachable(cluster: str, why: str) -> LocalFault:
    return LocalFault("cluster.unreachable", why[:200], path=cluster)


def _workers(client: Any) -> list[str]:
    return list(client.scheduler_info(n_workers=-1)["workers"])


def _results(client: Any, future: Any) -> list[Any] | None:
    """What came of a chunk; None where every worker that tried it was ended."""
    from distributed import KilledWorker

    while True:
        try:
            results: list[Any] = future.result(timeout=PATIENCE)
            return results
        except KilledWorker:
            return None
        except TimeoutError as exc:
            if not _workers(client):
                where = client.scheduler.addr
                raise _unreachable(where, "it has no worker any more") from exc
        except OSError as exc:
            raise _unreachable(client.scheduler.addr, f"it was lost: {exc}") from exc


def _read(name: str, folders: Mapping[str, str], given: Mapping[str, bytes]) -> Any:
    """The bytes of a card that only this machine has, or the fault; None: a worker reads it."""
    return attempt(lambda one: read_card(one, folders, given), name)


# On a worker.


def _version() -> str:
    return version("cardsign")


def _no_time() -> datetime:
    raise AssertionError("a chunk brings the time that it is judged at")


def _judge(sent: bytes, at: datetime, cards: Sequence[_Card]) -> list[Any]:
    """The views of a chunk, or the fault that took the place of one."""
    view, verifier, states, paranoid = pickle.loads(sent)  # noqa: S301  by our own client
    be_paranoid(paranoid)
    verifier = replace(verifier, states=TransientStates(states), now=lambda: at)

    def see(card: _Card) -> Any:
        name, data = card
        if isinstance(data, LocalFault):
            raise data
        return view(judge(verifier, name, data))

    return [attempt(see, card) for card in cards]
