"""Each role has a passphrase of its own: one that renews releases never comes to sign cards."""

from __future__ import annotations

from typing import Any

import pytest

from cardsign.errors import PassphraseFault
from cardsign.jose.keys import PrivateKey
from cardsign.keys.ledger import private_blob
from cardsign.keys.secrets import Access
from tests.keys.conftest import in_each_store
from tests.keys.states import after

CARD, RELEASE, NEXT = b"of the card keys", b"of the release keys", b"of the next year"


@pytest.fixture
def two_roles(store: Any, es256: PrivateKey, another_es256: PrivateKey) -> Any:
    """A card key and a release key, each under its own passphrase."""
    store.add(es256, passphrase=CARD)
    store.add(another_es256, passphrase=RELEASE, roles=("release",))
    return store


@in_each_store
def test_each_key_opens_with_the_secret_of_its_role(two_roles: Any) -> None:
    """The other role's is never tried."""
    asked: list[str] = []

    def of(role: str, secret: bytes) -> Any:
        return lambda kind, name: (asked.append(role), secret)[1]

    access = Access(of("all", CARD), by_role={"release": of("release", RELEASE)})
    for record in two_roles.state.keys:
        two_roles.signer(record, access)
    assert asked == ["all", "release"]


@in_each_store
def test_a_passphrase_is_changed_for_the_keys_of_a_role(two_roles: Any) -> None:
    """The other role's stay as they are, and the log tells of it."""
    card, release = two_roles.state.keys
    change = {"now": after(10)}
    with pytest.raises(PassphraseFault) as caught:
        two_roles.change_passphrase([release, card], RELEASE, NEXT, **change)
    assert caught.value.code == "passphrase.wrong"

    assert two_roles.change_passphrase([release], RELEASE, NEXT, **change) == (release,)
    release = two_roles.state.find(release.kid)
    assert two_roles.change_passphrase([release], RELEASE, NEXT, **change) == ()
    two_roles.signer(release, NEXT)
    two_roles.signer(card, CARD)
    events = [event for line in two_roles.read_log() for event in line["events"]]
    resealed = [event["key"] for event in events if event["event"] == "resealed"]
    assert resealed == [release.thumbprint]
    release, card = two_roles.state.find(release.kid), two_roles.state.find(card.kid)
    with pytest.raises(PassphraseFault) as weak:
        two_roles.change_passphrase([release], NEXT, b"short", **change)
    assert weak.value.code == "passphrase.unfit"


@in_each_store
def test_a_role_does_not_get_the_passphrase_of_another(two_roles: Any) -> None:
    """With it cron could sign cards; and the card keys could be opened with cron's."""
    card, release = two_roles.state.keys
    change = {"now": after(10)}
    for record, old, new in ((release, RELEASE, CARD), (card, CARD, RELEASE)):
        with pytest.raises(PassphraseFault, match=r"passphrase of .* already") as shared:
            two_roles.change_passphrase([record], old, new, **change)
        assert shared.value.code == "passphrase.unfit"
        two_roles.signer(record, old)
    two_roles.drop_blobs([private_blob(card.blob)])
    assert two_roles.change_passphrase([release], RELEASE, CARD, **change) == (release,)
