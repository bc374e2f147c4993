"""`cardsign lint`: status, streams, files."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cardsign import sign_card
from cardsign.jose.keys import PrivateKey
from tests.cli.conftest import Cardsign
from tests.cli.local_site import local_site
from tests.lint.examples import example_card
from tests.support import LAX, PORTABLE, WITH_DEFAULTS, dump, put, without

WITHOUT_SCHEMES = without(PORTABLE, "/securitySchemes")


def card(name: str, document: Any) -> str:
    """A card in the working directory."""
    Path(name).write_text(json.dumps(document), encoding="utf-8")
    return name


def signed_portable() -> bytes:
    """A card with nothing to fix."""
    return sign_card(json.dumps(PORTABLE).encode(), PrivateKey.generate("ES256"))


def test_a_clean_card(cardsign: Cardsign) -> None:
    """Status 0 and one line; the same on standard input."""
    name = card("card.json", without(WITHOUT_SCHEMES, "/securityRequirements"))

    assert cardsign("lint", name, "--group", "portable").text == "clean: card.json\n"
    ended = cardsign("lint", "-", stdin=Path(name).read_bytes())
    assert (ended.status, ended.err) == (0, "")
    assert cardsign("lint", name).text == "clean: card.json\n"


def test_findings_for_a_person(cardsign: Cardsign) -> None:
    """Status 1; each rule once, with its places, why and what to do."""
    ended = cardsign("lint", card("card.json", put(LAX, "/x-lock", 1)))
    lines = ended.text.splitlines()

    assert ended.status == 1
    assert lines[0] == "2 warnings, 3 notes: card.json; --fix fixes 1"
    assert [
        line.partition("  ")[0] for line in (one.strip() for one in lines) if line[0] == "/"
    ] == [
        "/x-berth (line 1)",
        "/x-lock (line 1)",
        "/securityRequirements/0/schemes/harbour/list (line 1)",
        "/skills/0/examples (line 1)",
        "/iconUrl (line 1)",
    ]
    rules = [line for line in lines if " portable." in line]
    assert len(rules) == len(set(rules)) == 4
    assert [line[:10] for line in lines].count("      why ") == 4
    assert [line[:10] for line in lines].count("      fix ") == 4
    assert max(map(len, lines)) <= 100


def test_many_places_of_one_rule(cardsign: Cardsign) -> None:
    """Some are shown and the rest counted; --json has all."""
    name = card("card.json", {**PORTABLE, **{f"x-{index}": 1 for index in range(20)}})
    shown = cardsign("lint", name).text

    assert shown.count("    /x-") + 14 == 20
    assert "    and 14 more; see --json" in shown
    (answer,) = cardsign("lint", name, "--json").json["cards"]
    assert len(answer["findings"]) == 20


def test_the_cards_own_words_are_escaped(cardsign: Cardsign) -> None:
    """No name in a card moves the cursor."""
    ended = cardsign("lint", card("card.json", {**PORTABLE, "\x1b[2J\u202e": 1}))

    assert "\\u{1b}[2J\\u{202e}" in ended.text
    assert "\x1b" not in ended.text


def test_findings_for_a_program(cardsign: Cardsign) -> None:
    """Whether all is clean, and each card's findings whole."""
    ended = cardsign("lint", card("card.json", put(PORTABLE, "/iconUrl", "")), "--json")
    (answer,) = ended.json["cards"]
    (finding,) = answer["findings"]

    assert ended.status == 0
    assert set(ended.json) == {"schema", "clean", "cards"}
    assert (answer["name"], ended.json["clean"]) == ("card.json", False)
    assert (finding["code"], finding["path"]) == ("portable.empty-value", "/iconUrl")
    members = {"code", "severity", "path", "line", "column", "message", "why", "hint", "fixable"}
    assert set(finding) == members


@pytest.mark.parametrize(("level", "status"), [("error", 0), ("warning", 1), ("note", 1)])
def test_what_fails_can_be_chosen(cardsign: Cardsign, level: str, status: int) -> None:
    """A warning is no error."""
    name = card("card.json", put(PORTABLE, "/version", "two"))
    assert cardsign("lint", name, "--fail-on", level).status == status


def test_B22_settings_of_the_project(cardsign: Cardsign) -> None:
    """Severities, ignored rules and waivers stand in cardsign.toml."""
    name = card("card.json", put(put(PORTABLE, "/version", "two"), "/x", 1))
    settings = """format = 1
[lint]
ignore = ["portable.unknown-member"]
severity = {"meaning.version" = "error"}
"""
    Path("cardsign.toml").write_text(settings)
    assert cardsign("lint", name).text.startswith("1 error: card.json\n  error: meaning.version")
    waiver = """[[lint.waiver]]
rule = "meaning.version"
reason = "renamed with 2.0.0"
expires = 2999-01-01
"""
    Path("cardsign.toml").write_text(settings + waiver)
    ended = cardsign("lint", name, "--json")
    assert ended.status == 0
    assert ended.json["cards"][0]["waived"][0]["reason"] == "renamed with 2.0.0"
    Path("cardsign.toml").write_text(settings + waiver.replace("2999", "2001"))
    assert "its waiver ended on 2001-01-01" in cardsign("lint", name).text


@pytest.mark.parametrize("line", ["ignore = [1]", "groups = 3", "mystery = 1", "waiver = [{}]"])
def test_settings_that_do_not_fit(cardsign: Cardsign, line: str) -> None:
    """Refused as a whole."""
    Path("cardsign.toml").write_text(f"format = 1\n[lint]\n{line}\n")
    ended = cardsign("lint", card("card.json", PORTABLE))
    assert ended.status == 2
    assert "config.malformed" in ended.err


UNKNOWN = {
    "of the file": ("owner = 1", "unknown member 'owner'; known are format, issuer, keystore"),
    "of a table in a list": (
        "[[lint.waiver]]\nuntil = 2026-12-01",
        "unknown member 'lint.waiver.0.until'; known are rule, reason, expires, path",
    ),
    "of a table in a table": (
        "[build.orloj]\nprotocol = 1",
        "unknown member 'build.orloj.protocol'; did you mean 'protocol_version'?",
    ),
    "a date in quotes": (
        '[lint]\nlegacy_sunset = "9999-12-31"',
        "'lint.legacy_sunset' must be a date without quotes, such as 2027-01-31",
    ),
    "a rule": (
        '[[lint.waiver]]\nrule = "meaning.verson"\nreason = "r"',
        "there is no rule 'meaning.verson'; did you mean 'meaning.version'?",
    ),
}


@pytest.mark.parametrize(("text", "told"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_a_project_misspells_is_told_its_name(
    cardsign: Cardsign, text: str, told: str
) -> None:
    """Or those that the very table knows."""
    Path("cardsign.toml").write_text(f"format = 1\n{text}\n")
    assert told in cardsign("lint", card("card.json", PORTABLE)).err


def test_sarif_is_what_code_scanning_takes(cardsign: Cardsign) -> None:
    """One rule for each kind of finding, one result for each place."""
    document = json.dumps(put(put(PORTABLE, "/version", "two"), "/x", 1), indent=1)
    Path("card.json").write_text(document)
    ended = cardsign("lint", "card.json", "--format", "sarif")
    (run,) = ended.json["runs"]
    assert {one["id"] for one in run["tool"]["driver"]["rules"]} == {
        one["ruleId"] for one in run["results"]
    }
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "card.json"}
    assert '"version"' in document.splitlines()[place["region"]["startLine"] - 1]


def test_annotations_of_github(cardsign: Cardsign) -> None:
    """One for each finding, which no text of a card can end."""
    bad = card("bad.json", put(PORTABLE, "/version", "two\n::error::x"))
    good = card("good.json", PORTABLE)
    lines = cardsign("lint", bad, good, "--format", "github").text.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("::warning file=bad.json,line=1,col=")


# ------------------------------------------------------------------ folders, URLs, git


def agent(name: str, document: Any) -> Path:
    """A contract card where the standard wants it."""
    folder = Path("repo/agents", name)
    (folder / ".well-known").mkdir(parents=True)
    (folder / ".well-known/agent-card.json").write_text(json.dumps(document))
    return folder


def in_folder(cardsign: Cardsign) -> dict[str, list[str]]:
    """What is found in the folder, by card."""
    answer = cardsign("lint", "repo", "--json").json
    return {one["name"]: [f["code"] for f in one["findings"]] for one in answer["cards"]}


def test_B2_every_agent_has_a_card(cardsign: Cardsign) -> None:
    """In a folder of agents; one without is named, a hidden folder is none."""
    folder = agent("iam-tides", PORTABLE)
    found: dict[str, list[str]] = {str(folder / ".well-known/agent-card.json"): []}
    assert in_folder(cardsign) == found
    Path("repo/agents/iam-new").mkdir()
    Path("repo/agents/.hidden").mkdir()
    assert in_folder(cardsign) == {**found, "repo/agents/iam-new": ["contract.no-card"]}


def test_a_folder_without_cards_is_not_clean(cardsign: Cardsign) -> None:
    """A mistyped folder in a pipeline would pass for ever; also beside one that has cards."""
    agent("iam-tides", PORTABLE)
    Path("none").mkdir()
    Path("none/package.json").write_text('{"private": true}')
    for sources in (["none"], ["repo", "none"]):
        ended = cardsign("lint", *sources)
        assert (ended.status, ended.out) == (2, b"")
        assert "usage.invalid: the folder holds no card (none)" in ended.err
        assert "or name the cards" in ended.err
    assert cardsign("lint", "repo").status == 0


def test_a_folder_of_more_cards_than_are_read_is_refused(
    cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beyond the limit would pass unread."""
    monkeypatch.setattr("cardsign.projects.MAX_CARDS", 2)
    Path("many").mkdir()
    for number in (1, 2):
        Path(f"many/{number}.json").write_bytes(dump(PORTABLE))
    assert cardsign("lint", "many").status == 0
    Path("many/3.json").write_bytes(dump(PORTABLE))
    ended = cardsign("lint", "many")
    assert (ended.status, ended.out) == (2, b"")
    assert "the folder holds more than 2 cards (many)" in ended.err


def test_B4_the_card_is_under_version_control(cardsign: Cardsign) -> None:
    """In a git repository alone; the twin is a tracked card."""
    folder = agent("iam-tides", example_card({}, "contract"))
    (name,) = in_folder(cardsign)
    assert "contract.untracked" not in in_folder(cardsign)[name]
    for words in (["init", "-q"], ["add", "--", str(folder.relative_to("repo") / ".well-known")]):
        assert ("contract.untracked" in in_folder(cardsign)[name]) is (words[0] != "init")
        subprocess.run(["git", "-C", "repo", *words], check=True)
    assert "contract.untracked" not in in_folder(cardsign)[name]


def test_a_card_that_is_named_is_told_what_stands_beside_it(cardsign: Cardsign) -> None:
    """As in its folder: a pre-commit hook names files. Of other cards it cannot know."""
    document = example_card({"/metadata": {"foreman": "iam-lead"}}, "contract")
    folder = agent("iam-tides", document)
    (folder / "agent.py").write_text("card = None\n")
    subprocess.run(["git", "init", "-q", "repo"], check=True)
    (name,) = found = in_folder(cardsign)
    assert set(found[name]) > {"contract.path-constant", "contract.untracked"}
    (alone,) = cardsign("lint", name, "--json").json["cards"]
    rules = [one["code"] for one in alone["findings"]]
    assert rules == [one for one in found[name] if one != "contract.reference"]
    assert len(rules) == len(found[name]) - 1
    both = cardsign("lint", name, name, "--json").json["cards"]
    assert "contract.reference" in [one["code"] for one in both[0]["findings"]]


def test_a_repository_starts_nothing(cardsign: Cardsign) -> None:
    """Its index is sparse, a tree is missing, and it says by which program that is to be had."""
    agent("iam-tides", example_card({}, "contract"))
    Path("repo/other").mkdir()
    Path("repo/other/file").touch()

    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@e.example")
        return subprocess.check_output(["git", "-C", "repo", *who, *words], text=True).strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "x")
    git("sparse-checkout", "set", "--cone", "--sparse-index", "agents")
    tree = git("rev-parse", "HEAD:other")
    Path("repo/.git/objects", tree[:2], tree[2:]).unlink()
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialclone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(Path("repo").absolute()),
        "remote.origin.uploadpack": f"touch {Path('ran').absolute()}; false",
    }.items():
        git("config", name, value)
    assert in_folder(cardsign)
    assert not Path("ran").exists()


def test_what_stands_beside_many_cards_is_read_once(cardsign: Cardsign) -> None:
    """And in linear time: a stranger's pyproject.toml of 64 KB cost a minute for each card."""
    folder = agent("iam-tides", example_card({}, "contract"))
    Path("repo/pyproject.toml").write_text(".".join(["a"] * 32_000) + " = 1\n")
    (card,) = folder.glob("*/agent-card.json")
    for number in range(20):
        card.with_name(f"{number}.card.json").write_bytes(card.read_bytes())
    began = time.process_time()
    assert len(in_folder(cardsign)) == 21
    assert time.process_time() - began < 30


def test_a_link_beside_a_card_is_not_followed(cardsign: Cardsign) -> None:
    """A cloned folder may link anywhere; nothing of there is told."""
    agent("iam-tides", example_card({}, "contract"))
    Path("outside.toml").write_text('[project]\nversion = "of another project"\n')
    Path("repo/pyproject.toml").symlink_to("../outside.toml")
    assert "another project" not in cardsign("lint", "repo").text


def test_B5_B36_what_stands_beside_a_contract(cardsign: Cardsign) -> None:
    """agent.py names the card, and the application has its version."""
    folder = agent("iam-tides", example_card({}, "contract"))
    (name,) = in_folder(cardsign)
    beside = {"contract.path-constant", "contract.app-version"}
    assert not beside & set(in_folder(cardsign)[name])
    (folder / "agent.py").write_text("card = None\n")
    Path("repo/pyproject.toml").write_text('[project]\nversion = "1.3.0"\n')
    assert beside <= set(in_folder(cardsign)[name])
    (folder / "agent.py").write_text("AGENTCARD_PATH = 1\n")
    Path("repo/pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    assert not beside & set(in_folder(cardsign)[name])


#: The auth chain of the seed's example, and a provider of a type that no table knows.
FORGE = """\
agent_id: tides
auth:
  providers:
    - type: static_token
    - type: KIND
"""


@pytest.mark.parametrize(
    ("kind", "scheme", "message"),
    [
        pytest.param(
            "kerberos",
            "static_token",
            "callers may be asked for 'kerberos', and no security scheme says so",
            id="no scheme",
        ),
        pytest.param("oidc", "static_token", None, id="a type that has a scheme"),
        pytest.param("kerberos", "kerberos", None, id="a scheme by hand"),
    ],
)
def test_F23_what_is_enforced_and_not_advertised_is_found(
    cardsign: Cardsign, kind: str, scheme: str, message: str | None
) -> None:
    """forge.yaml beside a card names a provider that the card does not."""
    bearer = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
    folder = Path("repo/tides")
    folder.mkdir(parents=True)
    (folder / "agent-card.json").write_text(
        json.dumps(put(PORTABLE, f"/securitySchemes/{scheme}", bearer))
    )
    (folder / "forge.yaml").write_text(FORGE.replace("KIND", kind))
    for source in ("repo", "repo/tides/agent-card.json"):
        (found,) = cardsign("lint", source, "--json").json["cards"]
        about = [one for one in found["findings"] if one["code"] == "meaning.not-advertised"]
        assert [one["message"] for one in about] == ([message] if message else [])


@pytest.mark.parametrize("content", ["auth: {providers: 7}", "auth: [", "- auth\n", ""])
def test_F23_a_configuration_that_cannot_be_read_says_nothing(
    cardsign: Cardsign, content: str
) -> None:
    """`build` is the command that refuses it."""
    Path("repo").mkdir()
    Path("repo/agent-card.json").write_text(json.dumps(PORTABLE))
    Path("repo/forge.yaml").write_text(content)
    assert in_folder(cardsign) == {"repo/agent-card.json": []}


def test_a_folder_with_what_is_no_card(cardsign: Cardsign) -> None:
    """Other JSON is passed over, an unreadable card among good ones is a finding."""
    agent("iam-tides", PORTABLE)
    Path("repo/package.json").write_text("{}")
    for name in ("node_modules", ".old"):
        Path("repo", name).mkdir()
        Path("repo", name, "agent-card.json").write_text("{}")
    Path("repo/loop").symlink_to("..")
    Path("repo/broken").mkdir()
    Path("repo/broken/agent-card.json").mkdir()
    Path("repo/other.card.json").write_text("{,}")
    found = in_folder(cardsign)
    assert len(found) == 2
    assert found["repo/other.card.json"] == ["json.syntax"]


def test_a_url_and_a_revision(cardsign: Cardsign) -> None:
    """By the loader that `diff` uses."""
    with local_site() as site:
        site.answers["/card"] = json.dumps(put(PORTABLE, "/version", "two")).encode()
        ended = cardsign("lint", f"{site.origin}/card", "--insecure-loopback-http", "--json")
        assert [one["code"] for one in ended.json["cards"][0]["findings"]] == ["meaning.version"]
    assert cardsign("lint", "HEAD:card.json").status == 2
    assert cardsign("lint", "absent.json").status == 2


# ------------------------------------------------------------------ fixing


def test_a_card_is_fixed(cardsign: Cardsign) -> None:
    """Status 0 where nothing is left; the fixed card lints clean."""
    name = card("card.json", WITH_DEFAULTS)
    ended = cardsign("lint", name, "--fix", "-o", "fixed.json")

    assert (ended.status, ended.text) == (0, "clean: fixed.json\n")
    assert ended.err == "cardsign: fixed 2 findings\n"
    assert json.loads(Path("fixed.json").read_bytes()) == PORTABLE
    assert cardsign("lint", "fixed.json").status == 0
    assert json.loads(Path(name).read_bytes()) == WITH_DEFAULTS


def test_a_card_is_fixed_in_part(cardsign: Cardsign, signed: Path) -> None:
    """Status 1 for what is left; signatures that no longer fit are off, and that is said."""
    ended = cardsign("lint", signed, "--fix", "-o", "fixed.json", "--json")
    fixed = json.loads(Path("fixed.json").read_bytes())

    assert ended.status == 1
    assert "sign it again" in ended.err
    assert fixed == without(LAX, "/skills/0/examples")
    assert [one["path"] for one in ended.json["fixed"]] == ["/skills/0/examples"]
    assert len(ended.json["cards"][0]["findings"]) == 3
    assert ended.json["cards"][0]["name"] == "fixed.json", "the lines are those of that file"
    assert ended.json["signatures_removed"] == len(json.loads(signed.read_bytes())["signatures"])


@pytest.mark.parametrize("output", [(), ("-o", "fixed.json"), ("-o", "-")])
def test_a_dry_run_says_what_would_be_fixed(cardsign: Cardsign, output: tuple[str, ...]) -> None:
    """Each place, and what was wrong there; nothing is written."""
    name = card("card.json", put(PORTABLE, "/supportedInterfaces/0/protocolBinding", "grpc"))
    before = sorted(Path().iterdir())
    ended = cardsign("lint", name, "--fix", "--dry-run", *output)

    assert ended.status == 0
    assert "would fix /supportedInterfaces/0/protocolBinding: 'grpc' is no" in ended.err
    assert "(meaning.binding)" in ended.err
    assert "dry run: nothing was changed" in ended.err
    assert b"GRPC" not in ended.out
    assert sorted(Path().iterdir()) == before


def test_a_card_with_nothing_to_fix(cardsign: Cardsign, signed: Path) -> None:
    """It arrives byte for byte, signatures and all."""
    document = signed_portable()
    ended = cardsign("lint", "-", "--fix", "-o", "-", stdin=document)

    assert (ended.status, ended.out) == (0, document)
    assert ended.err == "cardsign: fixed 0 findings\nclean: -\n"


CONFLICTS = {
    "--fix to nowhere": ("--fix",),
    "a dry run of what changes nothing": ("--dry-run",),
    "a place and nothing for it": ("-o", "out.json"),
    "two things on one stream": ("--fix", "-o", "-", "--json"),
    "an unknown target": ("--for", "everybody"),
    "an unknown group": ("--group", "everything"),
    "an unknown rule": ("--ignore", "meaning.verison"),
    "standard input among files": ("-",),
}


@pytest.mark.parametrize("options", CONFLICTS.values(), ids=CONFLICTS)
def test_options_that_do_not_fit(cardsign: Cardsign, options: tuple[str, ...]) -> None:
    """Status 2, and nothing is written."""
    ended = cardsign("lint", card("card.json", WITH_DEFAULTS), *options)

    assert (ended.status, ended.results) == (2, b"")
    assert not Path("out.json").exists()


def test_a_report_goes_to_stdout(cardsign: Cardsign) -> None:
    """-o is where the fixed card goes; the message has the command for either."""
    name = card("card.json", WITH_DEFAULTS)
    ended = cardsign("lint", name, "--format", "sarif", "-o", "out.sarif")
    assert "cardsign lint card.json --format sarif > out.sarif" in ended.err
    assert "cardsign lint card.json --fix -o out.sarif" in ended.err


def test_what_cannot_be_read_one_way_only(cardsign: Cardsign) -> None:
    """A finding for lint; nothing to fix for --fix, and nothing is written."""
    name = card("card.json", {**PORTABLE, "icon_url": "", "iconUrl": ""})
    ended = cardsign("lint", name)
    assert ended.status == 1
    assert "  error: members.two-spellings" in ended.text
    ended = cardsign("lint", name, "--fix", "-o", "out.json")

    assert (ended.status, ended.out) == (1, b"")
    assert "card.two_spellings" in ended.err
    assert not Path("out.json").exists()
