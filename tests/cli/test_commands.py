"""What single commands do that no story can say: servers, other programs, several people."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cardsign.errors import PassphraseFault
from cardsign.jose.keys import JwkSet
from cardsign.keys.store import FolderStore
from cardsign.server.settings import read_server_settings
from cardsign.trust.policyfile import read_policy
from tests.cli.conftest import Cardsign, run
from tests.cli.local_site import local_site
from tests.publish.publications import PUBLIC, sign
from tests.statements.making import key
from tests.support import PORTABLE, by_another_sdk, dump, put
from tests.tools import SARIF_SCHEMA

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "--insecure-loopback-http"


@pytest.mark.parametrize(
    "words",
    [
        "verify SITE --jwks jwks.json",
        "verify card.json --jwks SITE/.well-known/jwks.json",
        "fetch SITE --jwks jwks.json",
        "inspect SITE",
        "lint SITE/.well-known/agent-card.json --fail-on error",
        "diff SITE/.well-known/agent-card.json card.json",
    ],
)
def test_this_machine_is_asked_only_by_an_option(cardsign: Cardsign, words: str) -> None:
    """Without it nobody is asked, and the message names it."""
    with local_site() as site:
        card = sign(put(PUBLIC, "/supportedInterfaces/0/url", f"{site.origin}/a2a"), key("card"))
        keys = JwkSet.of([key("card").public]).to_bytes()
        site.answers |= {"/.well-known/agent-card.json": card, "/.well-known/jwks.json": keys}
        Path("card.json").write_bytes(card)
        Path("jwks.json").write_bytes(keys)
        typed = words.replace("SITE", site.origin).split()
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
@pytest.mark.parametrize(
    "words",
    ["lint bad.json half.json signed.json", "lint signed.json", "inspect signed.json"],
)
def test_sarif_is_valid_by_its_schema(cardsign: Cardsign, words: str) -> None:
    """SARIF 2.1.0; without its version, or with a member more, it is not."""
    Path("bad.json").write_bytes(dump(put(put(PORTABLE, "/version", "two"), "/x\n", None)))
    Path("half.json").write_bytes(b'{"name":')
    log = cardsign(*words.split(), "--format", "sarif").json
    validator = jsonschema.Draft4Validator(json.loads(SARIF_SCHEMA.read_bytes()))
    assert [*validator.iter_errors(log)] == []
    assert not validator.is_valid({name: log[name] for name in log if name != "version"})
    assert not validator.is_valid(put(log, "/runs/0/verdict", "trusted"))
