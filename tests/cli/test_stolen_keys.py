"""After a theft, what is left to do is said until it is done, wherever it is asked."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Cardsign, Ended
from tests.support import PORTABLE

pytestmark = pytest.mark.usefixtures("cheap")

STOLEN = ("--keystore", "stolen")
#: What the owner chooses once a thief has the other one.
NEW = "a passphrase that no thief has"


@pytest.fixture
def robbed(cardsign: Cardsign) -> Cardsign:
    """A signed card, the key set for its verifiers, a standby, and a thief's copy of all keys."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    assert cardsign("keys", "generate").status == 0
    assert cardsign("keys", "generate").status == 0
    assert cardsign("keys", "jwks", "-o", "jwks.json").status == 0
    assert cardsign("sign", "card.json", "-o", "signed.json").status == 0
    shutil.copytree("keys", "stolen")
    return cardsign


def kids(cardsign: Cardsign) -> list[str]:
    """The keys of the thief: the active one, and the standby."""
    return [key["kid"] for key in cardsign("keys", "list", "--json", *STOLEN).json]


def revoke(cardsign: Cardsign, *names: str) -> Ended:
    """Revoke keys as stolen; others are made under a new passphrase."""
    words = ("keys", "revoke", *names, "--reason", "compromised", "--yes")
    return cardsign(*words, CARDSIGN_PASSPHRASE=NEW)


def is_forgery_trusted(cardsign: Cardsign, jwks: str | Path) -> bool:
    """Whether verifiers with this key set trust a card that the thief has made."""
    Path("evil.json").write_text(json.dumps({**PORTABLE, "name": "Evil"}))
    assert cardsign("sign", "evil.json", "-o", "forged.json", *STOLEN).status == 0
    return cardsign("verify", "forged.json", "--jwks", jwks).status == 0


def published_keys() -> Path:
    """The key set that is published now."""
    number = json.loads(Path("public/current").read_text())["generation"]
    return Path(f"public/{number:06d}/jwks.json")


def alarms(cardsign: Cardsign) -> str:
    """What doctor raises an alarm for."""
    findings = cardsign("keys", "doctor", "--json").json
    return "; ".join(one["message"] for one in findings if one["severity"] == "error")


def test_a_stolen_key_is_in_the_key_set_of_before_until_another_is_written(
    robbed: Cardsign,
) -> None:
    """Nobody knows who has the file: each command says so until there is one to hand out."""
    told = revoke(robbed, *kids(robbed))

    assert (told.status, "Do this: cardsign keys jwks -o jwks.json" in told.err) == (1, True)
    assert "sign your cards again, and hand out the key set" in told.err
    assert is_forgery_trusted(robbed, "jwks.json")
    for _ in range(2):
        assert alarms(robbed).startswith("verifiers may still trust")
        again = robbed("keys", "rotate", CARDSIGN_PASSPHRASE=NEW)
        assert (again.status, "may still trust card key" in again.err) == (1, True)

    assert robbed("keys", "jwks", "-o", "jwks.json").status == 0

    assert not is_forgery_trusted(robbed, "jwks.json")
    assert robbed("keys", "rotate", CARDSIGN_PASSPHRASE=NEW).status == 0
    assert alarms(robbed) == ""


def test_the_passphrase_that_was_stolen_makes_no_key(robbed: Cardsign) -> None:
    """Nor does it activate one that lay there; each command says so."""
    words = ("keys", "revoke", kids(robbed)[0], "--reason", "compromised", "--yes")
    told = robbed(*words)
    states = [key["state"] for key in robbed("keys", "list", "--json").json]
    assert (told.status, states) == (1, ["revoked", "revoked"])
    for ended in (told, robbed("keys", "rotate"), robbed("keys", "generate")):
        assert "this custody was stolen" in ended.err
        assert ended.status != 0
    asked = "type it when asked, or set CARDSIGN_CARD_PASSPHRASE"
    for words in (("keys", "rotate"), ("keys", "doctor")):
        ended = robbed(*words)
        assert (asked in ended.err, "NEW ONE" in ended.err) == (True, False)
        assert "cardsign keys rotate" in ended.err
    empty = robbed("keys", "jwks", "-o", "empty.json")
    assert (empty.status, "no key is in it" in empty.err) == (0, True)
    assert "make the next ES256 card key" in alarms(robbed)
    robbed("keys", "rotate", CARDSIGN_PASSPHRASE=NEW)
    assert "make the next" not in alarms(robbed)


@pytest.mark.parametrize("which", [0, 1], ids=["active", "standby"])
def test_a_stolen_key_in_a_folder_that_the_settings_do_not_name_is_not_forgotten(
    robbed: Cardsign, which: int
) -> None:
    """`publish -o` has recorded the key set, so it is known that it holds the key."""
    assert robbed("publish", "signed.json", "-o", "public").status == 0
    stolen = kids(robbed)[which]
    told = revoke(robbed, stolen)

    assert told.status == 1
    assert "verifiers still trust card key" in told.err
    assert f"card key {stolen[:8]}" in told.err
    assert "cardsign publish SIGNED -o DIR" in told.err
    assert "still trust" in alarms(robbed)
    assert robbed("keys", "rotate", CARDSIGN_PASSPHRASE=NEW).status == 1
    assert robbed("keys", "jwks").status == 0  # writing a key set is not publishing it
    assert "still trust" in alarms(robbed)

    sign = ("sign", "card.json", "-o", "signed.json")
    assert robbed(*sign, CARDSIGN_PASSPHRASE=NEW).status == 0
    assert robbed("publish", "signed.json", "-o", "public").status == 0

    assert stolen not in published_keys().read_text()
    assert "still trust" not in alarms(robbed)


def test_a_stolen_key_leaves_the_folder_of_the_settings_at_once(robbed: Cardsign) -> None:
    """Without the passphrase too, so that nothing new can be signed."""
    Path("cardsign.toml").write_text('format = 1\npublish = "public"\n')
    assert robbed("publish", "signed.json").status == 0
    assert is_forgery_trusted(robbed, published_keys())

    words = ("keys", "revoke", *kids(robbed), "--reason", "compromised", "--yes")
    robbed(*words, CARDSIGN_PASSPHRASE=None)

    assert not is_forgery_trusted(robbed, published_keys())
    assert "still trust" not in alarms(robbed)


def test_a_strangers_file_or_link_keeps_no_stolen_key_in_the_publication(robbed: Cardsign) -> None:
    """The key leaves all the same."""
    Path("cardsign.toml").write_text('format = 1\npublish = "public"\n')
    assert robbed("publish", "signed.json").status == 0
    Path("public/.DS_Store").write_text("x")
    Path("public/000099").symlink_to("000001")
    words = ("keys", "revoke", kids(robbed)[1], "--reason", "compromised", "--yes")

    robbed(*words)
    assert kids(robbed)[1] not in published_keys().read_text()
    assert "still trust" not in alarms(robbed)


@pytest.mark.parametrize("reason", ["superseded", "ceased"])
def test_a_key_that_nobody_has_stolen_asks_for_nothing(robbed: Cardsign, reason: str) -> None:
    """The honest twin: in a key set of before it harms nobody."""
    told = robbed("keys", "revoke", *kids(robbed), "--reason", reason, "--yes")

    assert (told.status, alarms(robbed)) == (0, "")


# With roots: what the thief may have besides.

ISSUER = "https://tides.example"
RECOVERY = {"CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely"}


def begin(cardsign: Cardsign, *words: str) -> Cardsign:
    """An issuer that has published its card."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    own = ("--card", "card.json", "--recovery-out", "recovery.key")
    assert cardsign("init", "--issuer", ISSUER, *own, *words, **RECOVERY).status == 0
    assert cardsign("keys", "rotate", *words).status == 0
    return cardsign


def kid_of(cardsign: Cardsign, role: str) -> str:
    """The key that signs for a role."""
    keys = cardsign("keys", "list", "--json").json
    return next(
        str(key["kid"]) for key in keys if role in key["roles"] and key["state"] == "active"
    )


def test_a_root_that_lay_beside_a_stolen_key_is_not_forgotten(cardsign: Cardsign) -> None:
    """Until the recovery key has opened a new epoch, rotate and doctor ask for that."""
    issuer = begin(cardsign)
    told = revoke(issuer, kid_of(issuer, "card"))
    assert (told.status, "open a new epoch" in told.err) == (1, True)

    for _ in range(2):
        again = issuer("keys", "rotate")
        assert (again.status, "cardsign keyset recover" in again.err) == (1, True)
        assert "may be stolen" in alarms(issuer)

    options = ("--recovery-file", "recovery.key", "-o", "next.json", "--yes")
    new = {**RECOVERY, "CARDSIGN_PASSPHRASE": NEW}
    assert issuer("keyset", "recover", *options, **new).status == 0
    assert "publish the keyset that lists root key" in alarms(issuer)
    assert issuer("keyset", "publish", "next.json", **new).status == 1  # no release key signs
    assert issuer("keys", "rotate", **new).status == 0
    assert alarms(issuer) == ""


def test_a_new_passphrase_of_the_release_key_that_comes_too_early_is_no_dead_end(
    cardsign: Cardsign,
) -> None:
    """The stolen key has to sign the release that revokes the others, under its own one."""
    issuer = begin(cardsign)
    roles = ("ROOT", "CARD", "RELEASE")
    new = {f"CARDSIGN_{role}_PASSPHRASE": f"{NEW}, {role}" for role in roles}
    words = ("keys", "revoke", kid_of(issuer, "card"), "--reason", "compromised", "--yes")
    early = issuer(*words, **new)
    wrong = "set CARDSIGN_RELEASE_PASSPHRASE to the passphrase that this key has now"
    assert (early.status, wrong in early.err) == (1, True)
    options = ("--recovery-file", "recovery.key", "-o", "next.json", "--yes")
    assert issuer("keyset", "recover", *options, **RECOVERY, **new).status == 0
    assert issuer("keyset", "publish", "next.json", **new).status == 1
    assert wrong in issuer("keys", "rotate", **new).err
    assert "For you: cardsign keys rotate\n" in issuer("keys", "doctor", **new).err

    old = {**new, "CARDSIGN_RELEASE_PASSPHRASE": None}
    assert issuer("keys", "rotate", **old).status == 1  # makes no key under what was stolen
    assert issuer("keys", "rotate", **new).status == 0
    assert alarms(issuer) == ""


def do_this(ended: Ended) -> list[str]:
    """The words of the command that is to be typed first."""
    (command,) = re.findall(r"Do this: cardsign (.*)", ended.err)
    return shlex.split(command)


def test_partners_with_a_handed_out_key_set_come_first(cardsign: Cardsign) -> None:
    """The command runs as it is printed, also for a key store that an option has named."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    option = ("--keystore", "my keys")
    for words in (("generate",), ("jwks", "-o", "jwks.json")):
        assert cardsign("keys", *words, *option).status == 0
    shutil.copytree("my keys", "stolen")
    words = ("keys", "revoke", *kids(cardsign), "--reason", "compromised", "--yes")
    told = cardsign(*words, *option)
    assert is_forgery_trusted(cardsign, "jwks.json")
    assert cardsign(*do_this(told)).status == 0
    assert not is_forgery_trusted(cardsign, "jwks.json")


def test_what_stops_a_thief_of_all_keys_comes_first(cardsign: Cardsign) -> None:
    """The recovery key does, and no new key; partners' copies of the key set are named too."""
    issuer = begin(cardsign)
    assert issuer("keys", "jwks", "-o", "jwks.json").status == 0
    shutil.copytree("keys", "stolen")
    words = ("keys", "revoke", kid_of(issuer, "card"), "--reason", "compromised", "--yes")
    told = issuer(*words)
    assert do_this(told)[:2] == ["keyset", "recover"]
    assert is_forgery_trusted(issuer, "jwks.json")
    (copies,) = re.findall(r"a copy of the key set .*: cardsign (.*)", told.err)
    assert issuer(*shlex.split(copies)).status == 0
    assert not is_forgery_trusted(issuer, "jwks.json")


@pytest.mark.parametrize("role", ["card", "root"])
def test_what_follows_a_theft_of_all_keys_is_one_list_that_works(
    cardsign: Cardsign, role: str
) -> None:
    """Passphrases by the names of their variables; and a warning of the keys that it ends."""
    issuer = begin(cardsign)
    every = [key["kid"][:8] for key in issuer("keys", "list", "--json").json]
    words = ("keys", "revoke", kid_of(issuer, role), "--reason", "compromised", "--yes")
    ended = issuer(*words)
    assert all(kid in ended.err.splitlines()[0] for kid in every)
    alarm, listed = alarms(issuer), [line for line in ended.err.splitlines() if "left for" in line]
    assert (alarm.count(";"), len(listed)) == (1, 1), (alarm, listed)
    early = (
        "keyset",
        "recover",
        "--recovery-file",
        "recovery.key",
        "--new-recovery-out",
        "new.key",
    )
    refused = issuer(*early, "-o", "next.json", "--yes", **RECOVERY)
    assert (refused.status, "keystore.same_custody" in refused.err) == (2, True)
    assert [Path(name).exists() for name in ("new.key", "next.json")] == [False, False]
    (variables,) = re.findall(r"type them when asked, or set (.*)", ended.err)
    new = {name: f"{NEW}, {name}" for name in variables.split(", ")}
    assert set(new) == {f"CARDSIGN_{name}_PASSPHRASE" for name in ("ROOT", "CARD", "RELEASE")}
    (commands,) = re.findall(r"Do this: (.*)", ended.err)
    *first, last = [shlex.split(command)[1:] for command in commands.split("; ")]
    statuses = [
        issuer(*[word.replace("FILE", "recovery.key") for word in command], **RECOVERY, **new)
        for command in first
    ]
    assert [status.status for status in statuses] == [0, 1]  # no release key signs yet
    assert issuer(*last, **new).status == 0
    assert alarms(issuer) == ""
