"""The main job on the command line: keys, sign, verify, inspect, publish."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from cardsign.card.canonical import DEFAULT_PROFILES, PROFILES, canonicalize
from cardsign.card.document import Card
from cardsign.jose.keys import PrivateKey
from cardsign.keys.folder import FolderStore
from tests.cli.conftest import Cardsign
from tests.support import LAX, PORTABLE, by_another_sdk, without


def test_a_new_user_comes_from_nothing_to_a_trusted_card(cardsign: Cardsign) -> None:
    """Four commands, with the key derivation that users get."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    made = cardsign("keys", "generate")
    assert made.status == 0
    assert cardsign("sign", "card.json", "-o", "signed.json").status == 0
    assert cardsign("keys", "jwks", "-o", "jwks.json").status == 0
    verdict = cardsign("verify", "signed.json", "--jwks", "jwks.json")
    assert verdict.status == 0
    assert verdict.text.startswith(
        "trusted: signed.json, a card of the holder of the keys in jwks.json\n"
    )
    told = cardsign("verify", "signed.json", "--jwks", "jwks.json", "--verbose").text
    assert made.text.strip() in told


def test_init_sets_a_folder_up(cardsign: Cardsign) -> None:
    """cardsign.toml leads the other commands to the key store and the publication."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    origin = ("--issuer", "https://tides.example")
    done = cardsign("init", *origin, "--keystore", "vault", "--json")
    assert done.status == 0
    assert done.json["keystore"] == "vault"
    assert cardsign("sign", "card.json", "-o", "signed.json").status == 0
    assert cardsign("release", "renew", "--card", "signed.json").status == 0
    assert cardsign("publish", "signed.json").status == 0
    assert Path("public/000001/agent-card.json").read_bytes() == Path("signed.json").read_bytes()
    again = cardsign("init")
    assert again.status == 2
    assert "file.exists" in again.err


def test_the_environment_beats_cardsign_toml_and_the_option_beats_both(
    cardsign: Cardsign, keystore: FolderStore
) -> None:
    """--keystore, then CARDSIGN_KEYSTORE, then cardsign.toml, then ./keys."""
    Path("cardsign.toml").write_text('format = 1\nkeystore = "absent"\n')
    here = str(keystore.path)
    assert cardsign("keys", "list").status == 2
    assert cardsign("keys", "list", CARDSIGN_KEYSTORE=here).status == 0
    assert cardsign("keys", "list", "--keystore", "other", CARDSIGN_KEYSTORE=here).status == 2
    Path("cardsign.toml").unlink()
    assert cardsign("keys", "list").status == 0


@pytest.mark.parametrize("profile", DEFAULT_PROFILES)
def test_canonicalize_prints_exactly_the_payload(
    cardsign: Cardsign, signed: Path, profile: str
) -> None:
    """No newline is added; --json says the digest and what is left open besides."""
    payload = canonicalize(LAX, profile)
    plain = cardsign("canonicalize", signed, "--profile", profile)
    assert (plain.status, plain.out) == (0, payload.data)
    described = cardsign("canonicalize", signed, "--profile", profile, "--json").json
    assert described["payload"].encode() == payload.data
    assert ("/x-berth" in described["uncovered"]) == profile.startswith("prune")


def test_sign_writes_to_stdout_and_talks_on_stderr(cardsign: Cardsign, signed: Path) -> None:
    """`-` at both ends; what a compat signature leaves open is said."""
    done = cardsign("sign", "-", stdin=Path("card.json").read_bytes())
    assert done.status == 0
    assert done.out == signed.read_bytes()
    assert "sign.compat_lossy" in done.err
    assert "/securityRequirements" in done.err


def test_signing_again_changes_nothing(cardsign: Cardsign, signed: Path) -> None:
    """Bytes stay as they are, so ETags do."""
    before = signed.read_bytes()
    again = cardsign("sign", signed, "-o", signed)
    assert "nothing changed" in again.err
    assert signed.read_bytes() == before
    said = cardsign("sign", signed, "-o", signed, "--json").json
    assert said["changed"] is False


def test_force_is_handed_on(cardsign: Cardsign, keystore: FolderStore) -> None:
    """A missing REQUIRED member is a note; a wrong type needs --force."""
    missing = {name: value for name, value in PORTABLE.items() if name != "version"}
    Path("missing.json").write_text(json.dumps(missing))
    Path("wrong.json").write_text(json.dumps({**PORTABLE, "name": 5}))
    assert "card.missing_required" in cardsign("sign", "missing.json", "-o", "m.json").err
    assert cardsign("sign", "wrong.json", "-o", "w.json").status == 1
    assert not Path("w.json").exists()
    forced = cardsign("sign", "wrong.json", "-o", "w.json", "--force")
    assert forced.status == 0
    assert "sign.profile_skipped" in forced.err


def test_json_verdicts_are_one_object_or_json_lines(cardsign: Cardsign, signed: Path) -> None:
    """One card is one object; several are one line each."""
    one = cardsign("verify", signed, "--jwks", "jwks.json", "--json")
    assert one.json["schema"] == "cardsign.verdict/2"
    assert one.json["card"]["name"] == LAX["name"]
    two = cardsign("verify", signed, "card.json", "--jwks", "jwks.json", "--json")
    verdicts = [json.loads(line)["verdict"] for line in two.text.splitlines()]
    assert verdicts == ["trusted", "untrusted"]


NARROWED = ("--accept", "sdk", "--profile", "prune-empty")


def test_what_is_accepted_may_be_narrowed(cardsign: Cardsign, signed: Path) -> None:
    """One profile alone may count; a compat signature counts under none."""
    full = cardsign("verify", signed, "--jwks", "jwks.json", "--profile", "served-as-is", "--json")
    assert full.json["coverage"]["profile"] == "served-as-is"
    lossy = cardsign("verify", signed, "--jwks", "jwks.json", *NARROWED, "--json")
    assert lossy.status == 1
    assert {one["counts"] for one in lossy.json["signatures"]} == {False}


def test_what_is_accepted_unsigned_is_named(cardsign: Cardsign, alice: PrivateKey) -> None:
    """In few words and in many."""
    card = by_another_sdk(without(LAX, "/x-berth"), alice, "prune-empty")
    Path("card.json").write_text(json.dumps(card))
    Path("jwks.json").write_text(json.dumps({"keys": [alice.public.jwk()]}))
    for more in ((), ("--verbose",)):
        told = cardsign("verify", "card.json", "--jwks", "jwks.json", "--accept", "sdk", *more)
        (line,) = (one for one in told.text.splitlines() if one.startswith("  complete"))
        assert line.endswith("/iconUrl, accepted by your policy")


def test_an_origin_narrows_the_holder(cardsign: Cardsign, signed: Path) -> None:
    """Every interface must stand there."""
    there = ("verify", signed, "--jwks", "jwks.json", "--origin")
    assert cardsign(*there, "https://tides.example").status == 0
    elsewhere = cardsign(*there, "https://other.example")
    assert elsewhere.status == 1
    assert "card.origin_mismatch" in elsewhere.text


STATUSES = {
    "all trusted": (["signed.json", "signed.json"], 0),
    "one of them unsigned": (["signed.json", "card.json"], 1),
    "one of them not to be had": (["signed.json", "absent.json"], 2),
    "unsigned and not to be had": (["card.json", "absent.json"], 2),
    "one of them a forbidden URL": (["signed.json", "https://user@tides.example/"], 3),
    "unsigned and a forbidden URL": (["card.json", "https://user@tides.example/"], 1),
}


@pytest.mark.parametrize(("cards", "status"), STATUSES.values(), ids=STATUSES)
def test_of_several_cards_the_weightiest_status_counts(
    cardsign: Cardsign, signed: Path, cards: list[str], status: int
) -> None:
    """2 beats 1 beats 3 beats 0, and no failure hides another card's verdict."""
    ended = cardsign("verify", *cards, "--jwks", "jwks.json", "--json")
    assert ended.status == status
    said = [json.loads(line) for line in ended.text.splitlines()]
    assert [one["input"] for one in said] == [card.replace("user@", "...@") for card in cards]
    assert ["error" in one for one in said] == [card == "absent.json" for card in cards]


def test_without_keys_nobody_is_trusted(cardsign: Cardsign, signed: Path) -> None:
    """A signed card is indeterminate, an unsigned one untrusted; what to type next is said."""
    unnamed = cardsign("verify", signed)
    assert unnamed.status == 3
    assert "trust.no_expectation" in unnamed.text
    assert "--jwks" in unnamed.text
    assert cardsign("verify", signed, "--origin", "https://tides.example").status == 3
    assert cardsign("verify", "card.json").status == 1


def test_inspect_shows_a_card_without_believing_it(cardsign: Cardsign, signed: Path) -> None:
    """Interfaces, signatures and what each profile leaves open."""
    described = cardsign("inspect", signed, "--json").json
    assert described["agent"]["interfaces"][0]["url"] == "https://tides.example/a2a"
    last = described["signatures"][-1]["header"]
    assert (last["alg"], last["typ"]) == ("ES256", "cardsign-compat+jws")
    assert len(described["payloads"]) == len(PROFILES)
    text = cardsign("inspect", signed).text
    assert "A2A version 1.0" in text
    assert "of which nothing is verified" in text


def test_inspect_shows_no_password(cardsign: Cardsign) -> None:
    """A URL may hold one, and a terminal is read over shoulders."""
    interface = {
        **PORTABLE["supportedInterfaces"][0],
        "url": "https://ann:secret@tides.example/a2a",
    }
    card = json.dumps({**PORTABLE, "supportedInterfaces": [interface]}).encode()

    for options in ((), ("--json",)):
        shown = cardsign("inspect", "-", *options, stdin=card).out.decode()
        assert "https://...@tides.example/a2a" in shown
        assert "secret" not in shown


@pytest.mark.parametrize(
    "flag",
    [
        {"capabilities": {"extendedAgentCard": True}},
        {"supportsAuthenticatedExtendedCard": True},
        {"supportsExtendedAgentCard": True},
    ],
    ids=["as 1.0 spells it", "as 0.3 spells it", "as some documents spell it"],
)
def test_every_spelling_of_the_extended_flag_is_read(
    cardsign: Cardsign, flag: dict[str, object]
) -> None:
    """Three spellings are in use."""
    for card, declared in (({**PORTABLE, **flag}, True), (PORTABLE, False)):
        ended = cardsign("inspect", "-", "--json", stdin=json.dumps(card).encode())
        assert ended.json["agent"]["extended_card"] is declared


def test_a_client_sees_capabilities_skills_and_security(cardsign: Cardsign) -> None:
    """What a developer looks at before calling a peer."""
    ended = cardsign("inspect", "-", "--json", stdin=json.dumps(PORTABLE).encode())
    described = ended.json["agent"]
    assert [one["id"] for one in described["skills"]] == ["tides"]
    assert [one["name"] for one in described["schemes"]] == ["harbour"]
    assert [list(one) for one in described["requirements"]] == [["harbour"]]
    text = cardsign("inspect", "-", stdin=json.dumps(PORTABLE).encode()).text
    for shown in ("name=Tides", "type=http", "harbour=read"):
        assert shown in text


def test_a_signature_block_is_named(cardsign: Cardsign) -> None:
    """It is no signature, and what to do is said first."""
    block = {"algorithm": "ES256", "keyId": "k", "value": "x"}
    card = json.dumps({**PORTABLE, "signature": block}).encode()
    ended = cardsign("inspect", "-", stdin=card)
    assert (ended.status, "card.single_signature_block" in ended.text) == (1, True)


def test_keys_are_imported_and_listed(cardsign: Cardsign, keystore: FolderStore) -> None:
    """A published kid is kept; a second key of an algorithm signs nothing yet."""
    private = PrivateKey.generate("ES256")
    pem = _pem(private)
    ended = cardsign("keys", "import", "-", "--kid", "2024-key", "--json", stdin=pem)
    assert ended.status == 0
    assert (ended.json["kid"], ended.json["state"]) == ("2024-key", "prepublished")
    listed = cardsign("keys", "list", "--json").json
    assert [key["state"] for key in listed] == ["active", "prepublished"]
    assert listed[1]["thumbprint"] == private.public.thumbprint
    assert "2024-key" in cardsign("keys", "list").text
    published = cardsign("keys", "jwks").json
    assert "2024-key" in {key["kid"] for key in published["keys"]}
    assert all("d" not in key for key in published["keys"])


def _pem(private: PrivateKey) -> bytes:
    kind = "PRIVATE KEY"
    body = base64.encodebytes(private.to_pkcs8_der()).decode()
    return f"-----BEGIN {kind}-----\n{body}-----END {kind}-----\n".encode()


def test_published_cards_are_the_bytes_given(cardsign: Cardsign, signed: Path) -> None:
    """And publishing the same again makes no new generation."""
    first = cardsign("publish", signed, "-o", "pub", "--json").json
    assert (first["generation"], first["created"]) == (1, True)
    again = cardsign("publish", signed, "-o", "pub")
    assert "nothing changed" in again.err
    assert Path("pub/000001/agent-card.json").read_bytes() == signed.read_bytes()


def test_serve_says_where_it_serves(cardsign: Cardsign, signed: Path) -> None:
    """On stdout as JSON for a program that started it; a real server on a free port."""
    assert cardsign("publish", signed, "-o", "pub").status == 0
    command = [sys.executable, "-m", "cardsign", "serve", "pub", "--bind", "127.0.0.1:0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        assert said["generation"] == 1
        card = httpx.get(f"{said['url']}/.well-known/agent-card.json", trust_env=False)
        assert card.content == signed.read_bytes()
        verdict = cardsign("verify", said["url"], "--jwks", "jwks.json", "--insecure-loopback-http")
        assert verdict.status == 0
        assert cardsign("verify", said["url"], "--jwks", "jwks.json").status == 3
    finally:
        server.terminate()
        assert server.wait(timeout=120) == 0
        server.stdout.close()


def test_a_token_is_printed_once_and_its_digest_kept(cardsign: Cardsign) -> None:
    """The token file never holds a token."""
    create = ("tokens", "create", "--audience", "partners")
    first = cardsign(*create, "--token-file", "tokens.txt").text.strip()
    second = cardsign(*create, "--token-file", "tokens.txt", "--json").json
    kept = Path("tokens.txt").read_text()
    assert len(kept.splitlines()) == 2
    assert first not in kept
    assert second["token"] not in kept
    assert second["line"] in kept
    loose = cardsign(*create)
    assert loose.text.strip() not in loose.err


def test_a_token_in_a_file_is_for_its_owner_alone(cardsign: Cardsign) -> None:
    """Nothing of it is printed, and what is there stays."""
    create = ("tokens", "create", "--audience", "partners", "--token-file", "tokens.txt")
    made = cardsign(*create, "-o", "token")
    token = Path("token")
    assert (made.status, made.text) == (0, "")
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text().strip() not in made.err
    before = token.read_bytes()
    assert cardsign(*create, "-o", "token").status == 2
    assert token.read_bytes() == before
    assert len(Path("tokens.txt").read_text().splitlines()) == 1
    told = cardsign(*create, "-o", "other", "--json")
    assert set(told.json) == {"output", "line"}
    assert Path("other").read_text().strip() not in told.text + told.err
    Path("tokens").mkdir()  # cannot be read: no token is left without its digest
    assert cardsign(*create[:-1], "tokens", "-o", "third").status == 2
    assert not Path("third").exists()


def test_tokens_are_listed_and_revoked(cardsign: Cardsign) -> None:
    """By the beginning of their digest; never by themselves."""
    file = ("--token-file", "tokens.txt")
    create = ("tokens", "create", "--audience", "partners")
    made = cardsign(*create, *file, "--expires", "2999-01-01", "--json").json
    tokens = Path("tokens.txt")
    fresh = cardsign("tokens", "list", *file).text
    # As of a card, all of the day counts.
    assert fresh == f"{made['line'][:12]} partners until 2999-01-02 00:00 UTC\n"
    tokens.write_text(tokens.read_text().replace("2999-", "2020-"))  # the years have passed
    cardsign(*create, *file)
    listed = cardsign("tokens", "list", *file)
    assert listed.text.splitlines()[0] == (
        f"{made['line'][:12]} partners until 2020-01-02 00:00 UTC, expired"
    )
    assert made["token"] not in listed.text
    assert len(cardsign("tokens", "list", *file, "--json").json) == 2
    assert cardsign("tokens", "revoke", made["line"][:12], *file).status == 0
    assert made["line"][:64] not in tokens.read_text()
    assert cardsign("tokens", "revoke", made["line"][:12], *file).status == 2
    assert len(cardsign("tokens", "list", *file).text.splitlines()) == 1


def test_a_token_without_an_audience_is_not_made(cardsign: Cardsign) -> None:
    """It would open whichever card is the only one some day."""
    ended = cardsign("tokens", "create", "--token-file", "tokens.txt")
    assert ended.status == 2
    assert "--audience" in ended.err
    assert not Path("tokens.txt").exists()


def test_a_card_that_reads_two_ways_is_refused_by_every_command(
    cardsign: Cardsign, signed: Path
) -> None:
    """sign and canonicalize read what verify reads; `inspect` says what is wrong."""
    doubled = signed.read_bytes().replace(b'"name"', b'"name": "other", "name"', 1)
    Path("doubled.json").write_bytes(doubled)
    for command in (
        ("sign", "doubled.json", "-o", "x.json"),
        ("canonicalize", "doubled.json", "--profile", "served-as-is"),
    ):
        ended = cardsign(*command)
        assert ended.status == 1
        assert "json.duplicate_member" in ended.err
    assert cardsign("verify", "doubled.json", "--jwks", "jwks.json").status == 1
    assert Card.from_bytes(signed.read_bytes()).a2a_version == "1.0"


def test_settings_go_through_no_link_of_the_folder(cardsign: Cardsign, tmp_path: Path) -> None:
    """Not even through one that leads nowhere yet; without it the settings are written."""
    outside, settings = tmp_path / "outside.toml", tmp_path / "cardsign.toml"
    settings.symlink_to(outside)
    refused = cardsign("init", "--issuer", "https://tides.example")
    assert (refused.status, "file.exists" in refused.err) == (2, True)
    assert not outside.exists()
    assert not (tmp_path / "keys").exists()

    settings.unlink()
    assert cardsign("init", "--issuer", "https://tides.example").status == 0
    assert settings.is_file()
