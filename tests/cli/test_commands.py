"""What single commands do that no story can say: servers, other programs, several people."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from cardsign.errors import PassphraseFault
from cardsign.jose.jws import sign_payload
from cardsign.jose.keys import JwkSet, PrivateKey
from cardsign.keys.store import FolderStore
from cardsign.publish.generation import load_current
from cardsign.server.settings import read_server_settings
from cardsign.trust.policyfile import read_policy
from cardsign.urls import CARD_PATH, KEYSET_PATH, RELEASE_PATH
from cardsign.verify.report import NotTrusted
from tests.cli.conftest import Cardsign, World, run
from tests.cli.test_transcripts import FOLDER, play
from tests.keys.postgres import Server
from tests.publish.publications import PUBLIC, sign
from tests.server.identity import counterpart
from tests.server.programs import ROOT, blocks
from tests.statements import current
from tests.statements.making import key
from tests.support import PORTABLE, by_another_sdk, dump, put, read_cases, signed
from tests.tools import SARIF_SCHEMA

LOOPBACK = "--insecure-loopback-http"
CASES = read_cases(__file__)  # commands, one a line

pytestmark = pytest.mark.usefixtures("cheap")


@pytest.mark.parametrize("words", CASES["this machine"])
def test_this_machine_is_asked_only_by_an_option(cardsign: Cardsign, words: str) -> None:
    """Without it nobody is asked, and the message names it."""
    with counterpart() as site:
        card = sign(put(PUBLIC, "/supportedInterfaces/0/url", f"{site.url}/a2a"), key("card"))
        keys = JwkSet.of([key("card").public]).to_bytes()
        site.answers |= {"/.well-known/agent-card.json": card, "/.well-known/jwks.json": keys}
        Path("card.json").write_bytes(card)
        Path("jwks.json").write_bytes(keys)
        typed = words.replace("SITE", site.url).split()
        refused = cardsign(*typed)
        answer = refused.text + refused.err
        assert (refused.status, "fetch.url" in answer, LOOPBACK in answer) == (3, True, True)
        assert site.asked == []
        run(cardsign(*typed, LOOPBACK))
        assert site.asked != []


def test_a_private_address_is_refused_with_what_allows_it(cardsign: Cardsign) -> None:
    """A network of one's own is named in a policy."""
    Path("jwks.json").write_text('{"keys": []}')
    ended = cardsign("verify", "https://192.168.3.9", "--jwks", "jwks.json")
    assert ended.status == 3
    assert "fetch.forbidden_address: 192.168.3.9 is not a public address\n" in ended.text
    assert 'networks = ["192.168.3.0/24"] in a policy file that you name with --trust' in ended.text


@pytest.mark.needs_a2a
def test_a_live_mcp_server_on_this_machine_needs_the_option(cardsign: Cardsign) -> None:
    """As everywhere; nobody listens on port 9."""
    words = "build --ask-mcp http://127.0.0.1:9/mcp --url https://tides.example/a2a -o card.json"
    refused, unanswered = cardsign(*words.split()), cardsign(*words.split(), LOOPBACK)
    assert (refused.status, "fetch.url" in refused.err) == (3, True)
    assert (unanswered.status, "fetch.failed" in unanswered.err) == (3, True)


@pytest.mark.needs_a2a
def test_O27_a_program_runs_only_by_an_option(cardsign: Cardsign) -> None:
    """Neither a list of servers nor the settings of a project start it; --run-mcp does."""
    Path("SKILL.md").write_text("---\nname: tides\ndescription: Says when the tide is high\n---\n")
    server = ROOT / "tests/net/mcp_server.py"
    Path("start.sh").write_text(f"touch started; exec '{sys.executable}' '{server}' stdio")
    servers = {"mcpServers": {"docs": {"command": "sh", "args": ["start.sh"]}}}
    Path("servers.json").write_text(json.dumps(servers))
    words = ("--set", "description=Docs", "--url", "https://{name}.example/a2a", "-o", "card.json")
    assert "build.unsupported" in cardsign("build", "servers.json", *words).err
    Path("cardsign.toml").write_text('format = 1\n[build]\nrun_mcp = ["sh start.sh"]\n')
    assert cardsign("build", "SKILL.md", *words).status == 2
    Path("cardsign.toml").unlink()
    assert not Path("started").exists()
    run(cardsign("build", "--run-mcp", "sh start.sh", *words))
    assert Path("started").exists()
    skills = json.loads(Path("card.json").read_bytes())["skills"]
    assert [skill["name"] for skill in skills] == ["read_page", "Search"]


def test_a_publication_that_cannot_be_recorded_says_so(
    cardsign: Cardsign, keystore: FolderStore, signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is out; to publish the same again records it."""

    def full(*arguments: object, **named: object) -> None:
        raise PassphraseFault("file.unwritable", "the operating system says: no space left")

    with monkeypatch.context() as patch:
        patch.setattr(FolderStore, "commit", full)
        ended = cardsign("publish", "signed.json", "-o", "public")
    assert (ended.status, "is published, but not on record" in ended.err) == (2, True)
    assert keystore.load().publications == ()

    run(cardsign("publish", "signed.json", "-o", "public"))
    assert len(keystore.load().publications) == 1


@pytest.mark.parametrize("token_file", ["", "named"])
def test_what_serve_is_told_comes_before_its_settings(
    cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch, token_file: str
) -> None:
    """What it is not told stays as the file says it."""
    Path("serve.toml").write_text('format = 1\nworkers = 3\ntoken_file = "tokens"\n')
    seen: list[Any] = []
    monkeypatch.setattr("cardsign.server.run.serve", lambda *args, **_: seen.extend(args))
    options = ("--token-file", token_file) if token_file else ()
    run(cardsign("serve", "pub", "--settings", "serve.toml", "--bind", "[::1]:8443", *options))
    where, read_settings, bind = seen
    assert (where, bind) == (Path("pub"), "[::1]:8443")
    changes = {"token_file": Path(token_file)} if token_file else {}
    expected = read_server_settings(Path("serve.toml")).model_copy(update=changes)
    assert read_settings() == expected


def test_several_people_enrol_at_once(cardsign: Cardsign) -> None:
    """Nobody's entry is lost."""
    Path("trust.toml").write_text("format = 1\n")
    program = [sys.executable, "-m", "cardsign", "trust", "add", "--jwks-url", "https://k.example"]
    names = ["peer0", "peer1", "peer2"]
    adding = [
        subprocess.Popen(
            [*program, name, "--origin", f"https://{name}.example"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for name in names
    ]
    assert [process.wait() for process in adding] == [0, 0, 0]
    assert sorted(issuer.name for issuer in read_policy(Path("trust.toml")).issuers) == names


def test_an_sdks_own_signature_counts_where_it_is_accepted(cardsign: Cardsign) -> None:
    """By keys alone, and by a policy whose entry does not say so."""
    Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
    card = {**PORTABLE, "documentationUrl": ""}
    Path("card.json").write_bytes(dump(by_another_sdk(card, key("card"), "prune-empty")))
    run(cardsign("trust", "add", "us", "--origin", "https://tides.example", "--jwks", "jwks.json"))
    for subject in ("--jwks jwks.json", "--issuer us"):
        verify = ("verify", "card.json", *subject.split())
        assert [cardsign(*verify).status, cardsign(*verify, "--accept", "sdk").status] == [1, 0]


@pytest.mark.needs_sarif_schema
@pytest.mark.usefixtures("signed")
@pytest.mark.parametrize("words", CASES["sarif"])
def test_sarif_is_valid_by_its_schema(cardsign: Cardsign, words: str) -> None:
    """SARIF 2.1.0; without its version, or with a member more, it is not."""
    Path("bad.json").write_bytes(dump(put(put(PORTABLE, "/version", "two"), "/x\n", None)))
    Path("half.json").write_bytes(b'{"name":')
    log = cardsign(*words.split(), "--format", "sarif").json
    validator = jsonschema.Draft4Validator(json.loads(SARIF_SCHEMA.read_bytes()))
    assert [*validator.iter_errors(log)] == []
    assert not validator.is_valid({name: log[name] for name in log if name != "version"})
    assert not validator.is_valid(put(log, "/runs/0/verdict", "trusted"))


# ------------------------------------------------------------------ beside a server

TOKEN = "tok-2f0c77d1a9"
SERVERS = ("a2a.server", "sse_starlette", "uvicorn")  # loggers of the agent, in this process
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "by JSON-RPC, events": ("call", {}),
    "by HTTP+JSON, one answer": ("call", {"protocolBinding": "HTTP+JSON", "url": "/rest"}),
    "by JSON-RPC of 0.3": ("call", {"protocolVersion": "0.3"}),
    "tasks": ("tasks", {}),
    "a credential": ("credential", {}),
}


@pytest.mark.needs_a2a
@pytest.mark.parametrize(("story", "interface"), AGENTS.values(), ids=AGENTS)
def test_O19_O33_an_agent_is_called(
    story: str,
    interface: dict[str, Any],
    cardsign: Cardsign,
    world: World,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As `transcripts/agent` tells it; an edited card is not called, and no log has the token."""
    from tests.integrations.sdk_agent import sdk_agent

    def make_card(port: int) -> dict[str, Any]:
        member = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", **interface}
        member["url"] = f"http://127.0.0.1:{port}{interface.get('url', '/a2a')}"
        streaming = {"streaming": member["protocolBinding"] == "JSONRPC"}
        return {**PUBLIC, "supportedInterfaces": [member], "capabilities": streaming}

    token = TOKEN if story == "credential" else ""
    world.variables.setenv("TIDES_TOKEN", TOKEN)
    with sdk_agent(make_card, token=token) as agent, caplog.at_level(logging.DEBUG):
        site = Path("site/.well-known")
        site.mkdir(parents=True)
        (site / "agent-card.json").write_bytes(sign(make_card(agent.port), key("card")))
        Path("jwks.json").write_bytes(JwkSet.of([key("card").public]).to_bytes())
        Path("origin").write_text(f"http://127.0.0.1:{agent.port}\n")
        difference = play((FOLDER / f"agent/{story}.txt").read_text(), cardsign, world)
        assert not difference, difference
        if token:
            assert agent.seen == [f"Bearer {TOKEN}", ""]  # and nothing for the edited card
    logged = [record for record in caplog.records if not record.name.startswith(SERVERS)]
    assert logged
    assert not any(TOKEN in record.getMessage() for record in logged)


@pytest.mark.needs_postgres
def test_keys_live_in_a_database(postgres: Server, cardsign: Cardsign, world: World) -> None:
    """As `transcripts/postgres/keys.txt` tells it."""
    world.variables.setenv("CARDSIGN_KEYSTORE", postgres.new_url())
    Path("tides.json").write_bytes(dump(PORTABLE))
    difference = play((FOLDER / "postgres/keys.txt").read_text(), cardsign, world)
    assert not difference, difference


@pytest.mark.needs_postgres
@pytest.mark.parametrize("hinder", ["no schema", "no right"])
def test_a_database_that_takes_nothing_leaves_no_recovery_key(
    cardsign: Cardsign, postgres: Server, hinder: str
) -> None:
    """So that the same command works once the schema is there."""
    url = postgres.url("nobody_made_it") if hinder == "no schema" else postgres.new_url()
    if hinder == "no right":
        url += "%20-cdefault_transaction_read_only%3Don"
    words = "init --issuer https://tides.example --recovery-out recovery.key --keystore"
    ended = cardsign(*words.split(), url, CARDSIGN_RECOVERY_PASSPHRASE="another horse entirely")
    assert (ended.status, Path("recovery.key").exists()) == (2, False), ended.err
    assert ("no schema has been selected" in ended.err) == (hinder == "no schema"), ended.err
    assert "keys generate" not in ended.err


@pytest.mark.parametrize("words", ["keys list", "keys generate", "config check"])
def test_a_committed_file_sends_no_password_to_a_stranger(cardsign: Cardsign, words: str) -> None:
    """It names no database; the user does, in the environment or on the command line."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.settimeout(0.05)
        url = f"postgresql://me:s3cret@127.0.0.1:{stranger.getsockname()[1]}/keys"
        Path("cardsign.toml").write_text(f'format = 1\nkeystore = "{url}"\n')
        ended = cardsign(*words.split(), PGPASSWORD="of the user")
        assert (ended.status, "config.malformed" in ended.err) == (2, True)
        assert "named by CARDSIGN_KEYSTORE" in ended.err
        assert "s3cret" not in ended.err
        with pytest.raises(TimeoutError):
            stranger.accept()


# ------------------------------------------------------------------ `publish --watch`

PUBLISHED = Path("public")
AGENT = {**PORTABLE, "skills": [], "capabilities": {}}
BUILT = """
[build]
url = "https://tides.example/{name}"

[[card]]
build = ["agent.json", "skills"]
signed = "signed.json"
"""


def write_sources(description: str) -> None:
    """The two sources of the card: an agent, and a skill's file."""
    Path("agent.json").write_text(json.dumps(AGENT))
    text = f"---\nname: tides\ndescription: {description}\n---\nRead the table.\n"
    Path("skills/tides/SKILL.md").write_text(text)


def published() -> dict[str, bytes]:
    """Every byte of the publication."""
    return {str(path): path.read_bytes() for path in PUBLISHED.rglob("*") if path.is_file()}


def changes(settings: Path) -> Iterator[None]:
    """What happens between two looks, and what is published then; a fault lasts for two of them."""
    text, first = settings.read_text(), published()
    Path("agent.json").write_text("{")
    yield
    yield
    assert published() == first
    write_sources("Says when it goes.")
    yield
    second = published()
    assert b"Says when it goes." in load_current(PUBLISHED).card
    settings.write_text(text.replace("[build]", "[bild]"))
    yield
    yield
    assert published() == second
    Path("other.json").write_text(json.dumps({**AGENT, "description": "Another source."}))
    settings.write_text(text.replace('"agent.json"', '"other.json"'))
    yield
    assert b"Another source." in load_current(PUBLISHED).card
    raise KeyboardInterrupt


def test_L4_a_watcher_follows_the_source_and_the_settings(
    cardsign: Cardsign, cheap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are read at each look; while one is broken, the last good card stays."""
    Path("skills/tides").mkdir(parents=True)
    write_sources("Says when the water comes.")
    run(cardsign("init", "--issuer", "https://tides.example", "--recovery-out", "recovery.key"))
    settings = Path("cardsign.toml")
    settings.write_text(settings.read_text() + BUILT)
    looks = changes(settings)
    pause = SimpleNamespace(wait=lambda seconds: next(looks))
    monkeypatch.setattr("cardsign.cli.project.threading", SimpleNamespace(Event=lambda: pause))
    ended = cardsign("publish", "--watch")
    assert (ended.status, ended.err.count("cardsign: stopped")) == (2, 1), ended.err
    assert ended.err.count("what is published stays") == 1
    assert ended.err.count("bild") == 1


# ------------------------------------------------------------------ blocks of guides

HOME = "https://tides.example"


def test_the_page_about_inspect_shows_what_is_printed(cardsign: Cardsign) -> None:
    """Line by line."""
    (card,), (console,) = blocks("json", "inspect.md"), blocks("console", "inspect.md")
    signer = PrivateKey.generate("ES256", kid="harbour-2026")
    Path("jwks.json").write_bytes(JwkSet.of([signer.public]).to_bytes())
    entry = sign_payload(json.dumps(json.loads(card)).encode(), signer, typ="JOSE")
    Path("card.json").write_bytes(dump({**json.loads(card), "signatures": [entry]}))
    command, _, shown = console.partition("\n")
    ended = cardsign(*command.removeprefix("$ cardsign ").split())
    assert (ended.status, ended.text) == (1, shown)


def test_the_python_about_peers_runs(cardsign: Cardsign, world: World) -> None:
    """As it stands, but for the host: a trusted card is used, another raises."""
    first = current.keyset()
    answers = {
        KEYSET_PATH.format(epoch=1, version=1): first,
        RELEASE_PATH: current.release(first, PORTABLE),
        CARD_PATH: dump(signed(PORTABLE, key("card"))),
    }
    for number, (path, data) in enumerate(answers.items()):
        Path(f"{number}.json").write_bytes(data)
        world.change(f"{HOME}{path} serves {number}.json")
    run(cardsign("trust", "add", HOME, "--yes"))
    (code,) = blocks("python", "verify-a-peer.md")
    code = code.replace("geo.acme.example", "tides.example")
    printed: list[Any] = []
    names = {"print": lambda first, *_: printed.append(first)}
    exec(code, dict(names))
    assert printed == [PORTABLE["name"]]
    Path("2.json").write_bytes(dump(signed(PORTABLE, key("mallory"))))
    with pytest.raises(NotTrusted):
        exec(code, dict(names))
