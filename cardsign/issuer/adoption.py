"""What is published beyond the log, as after an older copy of the key store was put back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from cardsign.errors import PublishRefused
from cardsign.issuer.publishing import check_ours, published_statements
from cardsign.issuer.work import Gap, Work
from cardsign.keys.history import (
    awaits_recovery,
    check_signed,
    keep_keyset,
    keep_release,
    kept_keyset,
    kept_keysets,
    kept_release,
    keys_elsewhere,
)
from cardsign.keys.store import KeyStore
from cardsign.statements.envelope import StatementRefused
from cardsign.statements.keyset import KeysetStatement, check_step
from cardsign.statements.release import ReleaseStatement

#: Numbers that a published release may leave out: a thief who signs the last number of all must
#: leave some for the issuer.
MAX_LEAP: Final = 1_000_000


class Adoptable(NamedTuple):
    """What our own keys have signed and the log lacks; each statement with its bytes.

    Of a keyset the log takes what it revokes, of a release its number and floors. A key, a signer,
    a path, or what a release revokes is never taken.
    """

    keysets: tuple[tuple[KeysetStatement, bytes], ...] = ()
    release: tuple[ReleaseStatement, bytes] | None = None

    def describe(self) -> Iterator[str]:
        """Yield what would be added."""
        for keyset, _ in self.keysets:
            yield f"keyset {keyset.label}, which revokes {len(keyset.revoked)} keys"
        if self.release is not None:
            release = self.release[0]
            floors = ", ".join(f"{url} {seq}" for url, seq in sorted(release.floor.items()))
            yield f"the number of release {release.seq}" + (
                f" and floors {floors}" if floors else ""
            )


def find_adoptable(work: Work) -> Adoptable:
    """Return what `keys rotate --adopt` would add; a publication that is not ours has nothing.

    Raises:
        PublishRefused, UsageFault: As :func:`cardsign.issuer.publishing.check_ours`.
    """
    check_ours(work)
    published, newest = published_statements(work.config.publish), kept_keyset(work.store)
    if published is None or newest is None:
        return Adoptable()
    keysets: list[tuple[KeysetStatement, bytes]] = []
    try:
        for keyset, data in published.keysets.items():
            if keyset.id > newest.id:
                check_step(keyset, newest)
                keysets.append((keyset, data))
                newest = keyset
        release = None
        if published.release is not None and published.release_bytes is not None:
            history = (*kept_keysets(work.store), *(keyset_read for keyset_read, _ in keysets))
            if _is_further(work.store, published.release, history):
                release = published.release, published.release_bytes
    except StatementRefused:
        return Adoptable(tuple(keysets))
    return Adoptable(tuple(keysets), release)


def _is_further(
    store: KeyStore, release: ReleaseStatement, history: tuple[KeysetStatement, ...]
) -> bool:
    """Say whether a release is newer than that of the log, and not signed by revoked keys alone."""
    state, newest = store.load(), kept_release(store)
    if newest is None and awaits_recovery(state, history[-1]):
        return False  # the first release of a new key store begins anew, in the next epoch
    if newest is not None and (release.seq <= newest.seq or release.order < newest.order):
        return False
    revoked = {key.thumbprint for key in state.keys if key.state == "revoked"}
    is_signed = not check_signed(release, history) <= revoked | history[-1].revoked
    return is_signed and release.seq - state.release_seq <= MAX_LEAP


def find_adoption_gap(work: Work) -> Iterator[Gap]:
    """Yield that the log lacks what is published; a person says whether it shall be added."""
    if lines := [*find_adoptable(work).describe()]:
        message = "find out who published what this key store lacks, and adopt it if it was "
        message += f"another copy of it: {'; '.join(lines)}"
        yield Gap(message, command=f"{work.again} --adopt", until=work.now)


def check_complete(work: Work) -> None:
    """Refuse to number a statement while the log lacks what is published.

    Raises:
        PublishRefused: ``publish.statements``.
    """
    for gap in find_adoption_gap(work):
        why = "more is published than this key store knows"
        raise PublishRefused("publish.statements", why, hint=f"See: {gap.command}")


def adopt_published(work: Work) -> list[str]:
    """Add what is published to the log, and return what was added.

    Raises:
        PublishRefused, UsageFault: As :func:`find_adoptable`.
        StoreFault: ``keystore.changed``, ``file.busy``.
    """
    adoptable = find_adoptable(work)
    for keyset, data in adoptable.keysets:
        keep_keyset(work.store, keyset, data, now=work.now)
    if adoptable.release is not None:
        release, data = adoptable.release
        keep_release(work.store, release, data, now=work.now)
    return [*adoptable.describe()]


def name_keys_elsewhere(store: KeyStore) -> str:
    """Return which keys another copy of a key store has, as a sentence without its end."""
    keyset = kept_keyset(store)
    names = ", ".join(key.named for key in (keys_elsewhere(store.load(), keyset) if keyset else ()))
    return f"keyset {keyset.label} lists {names}" if keyset and names else ""
