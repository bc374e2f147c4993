"""The lifecycle of keys on the command line: what each command says, writes and refuses."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from cardsign.cli.frame import run
from cardsign.errors import PassphraseFault
from cardsign.jose.keys import PrivateKey
from cardsign.keys.store import FolderStore, open_store
from cardsign.net.fetch import FetchSettings, OtherStatus
from cardsign.trust.walk import FetchResult
from tests.cli.conftest import Cardsign
from tests.support import PORTABLE, encrypted_pem

AT_ONCE = """\
format = 1
[timeline]
max_age = 0
worst_cache = 0
card_max_age = 0
skew = 0
rotate_every = 0
"""


pytestmark = pytest.mark.usefixtures("cheap")


@pytest.fixture
def at_once(cardsign: Cardsign) -> Cardsign:
    """The command, in a folder in which no cache is waited for, with a card."""
    Path("cardsign.toml").write_text(AT_ONCE)
    Path("card.json").write_text(json.dumps(PORTABLE))
    assert cardsign("keys", "generate").status == 0
    return cardsign


def publish(cardsign: Cardsign) -> None:
    """Sign and publish, and let the second pass in which that was; no two share one."""
    assert cardsign("sign", "card.json", "-o", "signed.json").status == 0
    assert cardsign("publish", "signed.json", "-o", "public", "--max-age", "0").status == 0
    at = open_store(Path("keys")).state.publications[-1].at
    while datetime.now(UTC) < at:
        time.sleep(0.05)


def kids(cardsign: Cardsign) -> list[str]:
    """Likewise."""
    return [key["kid"] for key in cardsign("keys", "list", "--json").json]


def signers() -> set[str]:
    """Who has signed the card that is published."""
    current = json.loads(Path("public/current").read_bytes())["generation"]
    card = json.loads(Path(f"public/{current:06d}/agent-card.json").read_bytes())
    from cardsign.jose.jws import read_entry

    return {read_entry(entry).kid for entry in card["signatures"]}


def test_a_rotation_from_the_first_key_to_the_end_of_the_first(at_once: Cardsign) -> None:
    """Each step says what it waits for, which is always a publication."""
    publish(at_once)
    made = at_once("keys", "rotate", "--json").json
    assert [line.partition(", ")[2] for line in made["done"]] == ["the next ES256 card key"]
    assert made["ahead"][0]["action"] == "activate"
    assert made["ahead"][0]["due"] is None
    publish(at_once)
    old, new = kids(at_once)
    told = at_once("keys", "rotate", "--json")
    assert told.status == 1
    assert f"activated card key {new[:8]}..." in told.json["done"]
    (left,) = told.json["left"]
    url = PORTABLE["supportedInterfaces"][0]["url"]
    assert left["what"] == f"sign these published cards again, and publish them: {url}"
    told = at_once("keys", "rotate", "--json").json["ahead"]
    waits = [step["why"] for step in told if step["kid"] == old]
    assert (signers(), "has not signed the published cards" in waits[0]) == ({old}, True)
    publish(at_once)
    assert signers() == {new}

    done = at_once("keys", "rotate", "--json").json["done"]

    assert done[0] == f"retired card key {old[:8]}..."
    assert done[1].startswith("activated card key")  # the one after it, which has waited
    keys = {key["kid"]: key["private"] for key in at_once("keys", "list", "--json").json}
    assert keys[old] == "destroyed"
    assert len(list(Path("keys/private").iterdir())) == [*keys.values()].count("held")
    log = at_once("keys", "log", "--json").json
    assert [line["seq"] for line in log] == [*range(1, len(log) + 1)]
    assert ("@" in log[0]["actor"], log[0]["events"][0]["event"]) == (True, "entered")
    assert "  entered  " in at_once("keys", "log").text


# --- export, import -----------------------------------------------------------------------


def test_an_encrypted_file_comes_in_with_the_passphrase_of_the_store(
    cardsign: Cardsign, keystore: FolderStore
) -> None:
    """From where every command takes it; a wrong one leads to the file's own."""
    Path("in.key").write_bytes(encrypted_pem(PrivateKey.generate("ES256"), "another horse"))
    Path("passphrase").write_text("another horse\n")
    Path("passphrase").chmod(0o600)
    words = ("keys", "import", "in.key", "--keystore")

    wrong = cardsign(*words, "other")
    assert (wrong.status, "passphrase.wrong" in wrong.err) == (2, True)
    assert "cardsign keys passwd --role card" in wrong.err
    assert not Path("other").exists()
    assert cardsign(*words, "other", CARDSIGN_PASSPHRASE="another horse").status == 0
    named = ("--passphrase-file", "passphrase")
    assert cardsign(*words, "third", *named, CARDSIGN_PASSPHRASE=None).status == 0


def test_public_halves_are_free(cardsign: Cardsign, keystore: FolderStore) -> None:
    """As JWK and as PEM; a private key never goes to stdout."""
    kid = keystore.state.keys[0].kid

    assert cardsign("keys", "export", kid, CARDSIGN_PASSPHRASE=None).json["kid"] == kid
    pem = cardsign("keys", "export", kid, "--as", "pem").out
    assert serialization.load_pem_public_key(pem) == keystore.state.keys[0].public.native
    ended = cardsign("keys", "export", kid, "--as", "pkcs8")
    assert (ended.status, ended.out) == (2, b"")


# --- doctor, log --------------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [False, True], ids=["no folder", "an empty one"])
def test_a_store_that_is_not_there_is_not_healthy(cardsign: Cardsign, *, is_there: bool) -> None:
    """A name that is misspelt in a crontab would be well for ever; nothing is made there."""
    if is_there:
        Path("gone").mkdir()
    for command in ("doctor", "doctor", "rotate"):
        ended = cardsign("keys", command, "--keystore", "gone")
        assert (ended.status, "keystore.missing" in ended.err) == (2, True)
    assert [*Path().rglob("gone/*")] == []


def test_a_publication_that_cannot_be_recorded_says_so(
    at_once: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is out; to publish the same again records it."""
    assert at_once("sign", "card.json", "-o", "signed.json").status == 0

    def full(*arguments: object, **named: object) -> None:
        raise PassphraseFault("file.unwritable", "the operating system says: no space left")

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "apply", full)
        ended = at_once("publish", "signed.json", "-o", "public")
    assert (ended.status, "is published, but not on record" in ended.err) == (2, True)
    assert open_store(Path("keys")).state.publications == ()

    assert at_once("publish", "signed.json", "-o", "public").status == 0
    assert len(open_store(Path("keys")).state.publications) == 1


# --- what is live -------------------------------------------------------------------------


def serve_live(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What live URLs serve."""
    served: dict[str, bytes] = {}

    def fetched(url: str, settings: FetchSettings) -> FetchResult:
        if url not in served:
            raise OtherStatus(url, 404)
        return FetchResult(url, "found", served[url])

    monkeypatch.setattr("cardsign.issuer.publishing.fetch_document", fetched)
    return served


SYSTEM = """apiVersion: orloj.dev/v1
kind: Agent
metadata: {name: tides, annotations: {orloj.dev/description: Tides}}
spec: {tools: [table], a2a: {enabled: true}}
---
apiVersion: orloj.dev/v1
kind: Tool
metadata: {name: table}
"""


def test_Q44_a_withdrawn_card_is_a_gap_until_the_live_url_serves_it_no_more(
    at_once: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key waits for it meanwhile."""
    top = 'format = 1\nlive = "https://x"\npublish = "public"\n'
    cards = (
        '[build]\nurl = "https://x/a"\n[[card]]\nbuild = ["agent.yaml"]\nsigned = "signed.json"\n'
    )
    settings = Path("cardsign.toml").read_text().replace("format = 1\n", top)
    Path("cardsign.toml").write_text(f"{settings}\n{cards}")
    Path("agent.yaml").write_text(SYSTEM)
    served = serve_live(monkeypatch)
    at_once("publish")
    served["https://x/.well-known/jwks.json"] = Path("public/000001/jwks.json").read_bytes()
    served["https://x/.well-known/agent-card.json"] = Path("signed.json").read_bytes()
    assert "saw generation 1 at https://x" in at_once("publish").err
    Path("agent.yaml").write_text(SYSTEM.replace("true", "false"))
    withdrawn = at_once("publish")
    assert (withdrawn.status, "withdrew the card of the agent" in withdrawn.err) == (1, True)
    assert "deploy generation 2 to https://x" in withdrawn.err
    assert open_store(Path("keys")).state.publications == ()
    del served["https://x/.well-known/agent-card.json"]
    assert at_once("publish").status == 0


def test_a_publication_counts_once_the_live_url_serves_it(
    at_once: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a gap until then, whatever else is served; the honest twin is the second half."""
    with Path("cardsign.toml").open("r+") as settings:
        text = settings.read()
        settings.seek(0)
        where = 'format = 1\nlive = "https://x"\npublish = "public"\n'
        settings.write(text.replace("format = 1\n", where))
    served = serve_live(monkeypatch)
    assert at_once("sign", "card.json", "-o", "signed.json").status == 0
    assert at_once("publish", "signed.json", "--max-age", "0").status == 0
    assert at_once("keys", "generate").status == 0
    second = kids(at_once)[1]
    assert at_once("publish", "signed.json", "--max-age", "0").status == 0

    waiting = at_once("keys", "rotate")
    assert (waiting.status, "deploy generation 2 to https://x" in waiting.err) == (1, True)
    assert "is not live yet" in at_once("keys", "doctor").err
    served["https://x/.well-known/jwks.json"] = Path("public/000001/jwks.json").read_bytes()
    served["https://x/.well-known/agent-card.json"] = Path("signed.json").read_bytes()
    assert "it serves another one" in at_once("keys", "rotate").err
    assert open_store(Path("keys")).state.find(second).state == "prepublished"

    served["https://x/.well-known/jwks.json"] = Path("public/000002/jwks.json").read_bytes()
    seen = at_once("keys", "rotate")
    assert "saw generation 2 at https://x" in seen.err
    assert open_store(Path("keys")).state.find(second).state == "active"


def test_sign_names_the_key_that_waits_after_a_theft(at_once: Cardsign) -> None:
    """Where none waits it says to make one."""
    at_once("keys", "revoke", "--yes", kids(at_once)[0], "--reason", "ceased")
    assert "cardsign keys generate" in at_once("sign", "card.json").err
    at_once("keys", "generate")
    (_, waiting) = kids(at_once)

    ended = at_once("sign", "card.json")

    assert "sign.no_key" in ended.err
    assert f"{waiting} waits" in ended.err
    assert "cardsign keys rotate" in ended.err


def test_a_closed_stdout_is_told_before_anything_is_done(
    at_once: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is opened next would take its place."""
    done: list[int] = []
    assert run(lambda: done.append(1)) == 0
    monkeypatch.setattr("sys.stdout", None)

    assert run(lambda: done.append(2)) == 2
    assert done == [1]
