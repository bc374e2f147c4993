"""The guided commands as an operator types them: few, and they say what is left."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cardsign.keys.history import kept_keyset
from cardsign.keys.store import open_store
from cardsign.publish.generation import load_current
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release
from cardsign.testing import FakeIssuer
from cardsign.urls import CARD_PATH
from tests.cli.conftest import PASSPHRASE, Cardsign, Ended, revoke_in_log
from tests.cli.test_dry_run import files
from tests.cli.test_issuer_story import run
from tests.publish.publications import fast_forward, put_in_place
from tests.support import PORTABLE

ISSUER = "https://tides.example"
ALL_DUE = ("keys", "rotate")
NEW = "a passphrase that no thief has"
CRON = "that of cron's releases"
RECOVERY = {"CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely"}

pytestmark = pytest.mark.usefixtures("cheap")


def secret(name: str, text: str) -> Path:
    """A file that only its owner can read."""
    file = Path(name)
    file.write_text(text)
    file.chmod(0o600)
    return file


@pytest.fixture
def issuer(cardsign: Cardsign) -> Cardsign:
    """Set up, with a passphrase of its own for cron, and published by one command."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    words = ("--card", "card.json", "--recovery-out", "recovery.key")
    own = {"CARDSIGN_RELEASE_PASSPHRASE": CRON, **RECOVERY}
    run(cardsign("init", "--issuer", ISSUER, *words, **own))
    run(cardsign(*ALL_DUE, CARDSIGN_RELEASE_PASSPHRASE=CRON))
    return cardsign


def active(role: str) -> str:
    """The kid of the key that signs for a role."""
    keys = open_store(Path("keys")).state.active_keys(role)  # type: ignore[arg-type]
    return keys[0].kid


def listed() -> list[str]:
    """The URLs of the cards that the published release lists."""
    release = load_current(Path("public")).release
    assert release is not None
    return [card.url for card in read_release(release).cards]


def begun_apart(cardsign: Cardsign) -> tuple[Ended, tuple[str, str], dict[str, str]]:
    """An issuer whose root key is on a stick; its options, and each role's own passphrase."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    apart = ("--root-keystore", "usb")
    own = {"CARDSIGN_ROOT_PASSPHRASE": "that of the offline root"}
    own["CARDSIGN_RELEASE_PASSPHRASE"] = CRON
    words = ("--card", "card.json", "--recovery-out", "recovery.key", *apart)
    made = run(cardsign("init", "--issuer", ISSUER, *words, **own, **RECOVERY))
    return made, apart, own


def test_a_night_without_the_stick_begins_with_the_command_that_ends_it(cardsign: Cardsign) -> None:
    """It is short, leaves nothing that the next command does, and that command is enough."""
    _, apart, own = begun_apart(cardsign)
    run(cardsign(*ALL_DUE, *apart, **own))
    stolen = active("card")
    revoking = ("keys", "revoke", stolen, "--reason", "compromised", "--yes")
    own["CARDSIGN_CARD_PASSPHRASE"] = NEW

    night = cardsign(*revoking, **own)
    assert night.status == 1
    named, *told = night.err.splitlines()
    assert f"card key {stolen} will count as stolen for good, together with" in named
    assert told[0] == "cardsign: not finished. Do this: cardsign keys rotate --root-keystore DIR"
    left = [line for line in told if "left for" in line]
    assert [line.partition(",")[0] for line in left] == ["cardsign: left for owner"]
    assert "next:" not in night.err, "one command is enough"
    assert len(told) < 20

    # Replacements wait for the roots; doctor asks for no other key, since it would not help.
    findings = cardsign("keys", "doctor", "--json").json
    alarms = {one["message"]: one["hint"] for one in findings if one["severity"] == "error"}
    assert not any("make the next" in message for message in alarms)
    (hint,) = (alarms[message] for message in alarms if "with the root key" in message)
    assert "keys rotate --root-keystore DIR" in hint

    # Once the roots have signed, the card key alone is asked for.
    lacks = {**own, "CARDSIGN_CARD_PASSPHRASE": None, "CARDSIGN_PASSPHRASE": None}
    told_again = cardsign(*ALL_DUE, *apart, **lacks).err
    assert "not finished. Do this: cardsign keys rotate --root-keystore usb\n" in told_again
    asked = "no passphrase was given, and there is no terminal to ask on"
    assert f"sign the cards: {asked}; set CARDSIGN_CARD_PASSPHRASE\n" in told_again
    assert "still trust" not in run(cardsign(*ALL_DUE, **own)).err
    assert active("card") != stolen
    run(cardsign("keys", "doctor"))


def test_a_stick_that_is_not_mounted_stops_no_revocation(cardsign: Cardsign) -> None:
    """It is asked for, and nobody is told to forget what was seen on it."""
    _, apart, own = begun_apart(cardsign)
    run(cardsign(*ALL_DUE, *apart, **own))
    stolen = active("card")
    Path("usb").rename("drawer")
    Path("usb").mkdir()
    revoking = ("keys", "revoke", stolen, "--reason", "compromised", "--yes", *apart)
    looking = (
        (*ALL_DUE, *apart),
        *(("keys", name, "--keystore", "usb") for name in ("list", "doctor")),
    )
    for words, status in ((revoking, 1), *((words, 2) for words in looking)):
        ended = cardsign(*words, **{**own, "CARDSIGN_CARD_PASSPHRASE": NEW})
        assert (ended.status, "Is the stick mounted" in ended.err) == (status, True)
        assert "no key store in usb, where this machine saw one" in ended.err
        assert "rm " not in ended.err
    assert stolen not in load_current(Path("public")).kids
    ceased = ("keys", "revoke", active("release"), "--reason", "ceased", "--yes", *apart)
    assert cardsign(*ceased, **own).status == 2


def test_init_asks_for_each_passphrase_by_name(
    cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that several keys get names them all."""
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return NEW if len(asked) <= 2 else RECOVERY["CARDSIGN_RECOVERY_PASSPHRASE"]

    monkeypatch.setattr("getpass.getpass", answer)
    words = ("init", "--issuer", ISSUER, "--recovery-out", "recovery.key")
    run(cardsign(*words, at_terminal=True, CARDSIGN_PASSPHRASE=None))
    keys = ("card, root and release keys", "recovery key")
    questions = ((f"New passphrase of the {name}: ", "The same again: ") for name in keys)
    assert asked == [question for pair in questions for question in pair]


def test_after_the_end_of_the_keyset_the_first_command_is_the_one_that_works(
    issuer: Cardsign, clock: Callable[[datetime], None]
) -> None:
    """No release and no card can be signed before the roots have, so nothing else is asked for."""
    clock(datetime.now(UTC) + timedelta(days=91))
    cron = {"CARDSIGN_PASSPHRASE": None, "CARDSIGN_RELEASE_PASSPHRASE": CRON}
    for _ in range(2):
        ended = issuer(*ALL_DUE, "--quiet", **cron)
        assert (ended.status, "next:" in ended.err) == (1, False), ended.err
        first = ended.err.splitlines()[0].removeprefix("cardsign: not finished. Do this: cardsign ")
        assert first.startswith("keyset sign next-keyset.json --digest ")
        assert "a newer keyset: cardsign keys rotate" not in ended.err
    sign, rotate = first.replace("DIR", "keys").split(" && cardsign ")
    own = {"CARDSIGN_RELEASE_PASSPHRASE": CRON}
    run(issuer(*sign.split(), **own))
    run(issuer(*rotate.split(), **own))
    run(issuer("keys", "doctor"))


def test_who_types_passphrases_is_told_which(
    cardsign: Cardsign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is asked for once, and a new one twice."""
    _, apart, own = begun_apart(cardsign)
    run(cardsign(*ALL_DUE, *apart, **own))
    typed = {"card": PASSPHRASE, "root": own["CARDSIGN_ROOT_PASSPHRASE"]}
    answers = {f"Passphrase of the {role} keys: ": text for role, text in typed.items()}
    answers["New passphrase of the card keys (not the stolen one): "] = NEW
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return answers[question]

    def type_into(*words: str) -> tuple[int, list[str]]:
        asked.clear()
        nothing = dict.fromkeys(own) | {"CARDSIGN_PASSPHRASE": None}
        cron = {"CARDSIGN_RELEASE_PASSPHRASE": CRON}
        ended = cardsign(*words, *apart, at_terminal=True, **(nothing | cron))
        return ended.status, asked

    monkeypatch.setattr("getpass.getpass", answer)
    again = "The same again: "
    revoking = ("keys", "revoke", active("card"), "--reason", "compromised", "--yes")
    answers[again] = f"{NEW}, with a slip"
    status, _ = type_into(*revoking)
    assert (status, len(open_store(Path("keys")).state.keys)) == (1, 4)
    answers[again] = NEW
    status, questions = type_into(*ALL_DUE)
    assert questions == [*list(answers)[2:4], "Passphrase of the root keys: "]
    run(cardsign("keys", "doctor"))
    Path("card.json").write_text(json.dumps({**PORTABLE, "version": "9.9.9"}))
    answers["Passphrase of the card keys: "] = NEW
    assert type_into(*ALL_DUE) == (0, ["Passphrase of the card keys: "])


def test_a_thief_who_publishes_the_last_release_is_ended_by_one_command(issuer: Cardsign) -> None:
    """No release can follow it; the next keyset ends it, and its release begins where ours was."""
    store, kid = open_store(Path("keys")), active("release")
    newest = fast_forward(Path("public"), store.signer(store.state.find(kid), CRON.encode()))
    for command in (ALL_DUE, ("release", "renew", "--force")):
        refused = issuer(*command, CARDSIGN_RELEASE_PASSPHRASE=CRON)
        assert (refused.status, "revoke the release key" in refused.err) == (1, True)

    revoking = ("keys", "revoke", kid, "--reason", "compromised", "--json", "--yes")
    issuer(*revoking, CARDSIGN_RELEASE_PASSPHRASE=NEW)

    release = read_release(load_current(Path("public")).release or b"")
    assert (release.keyset.label, release.seq) == ("1.3", newest + 1)


def test_no_refusal_of_statements_keeps_a_stolen_key_published(issuer: Cardsign) -> None:
    """No release can follow the thief's, and no root is here: the key set goes out all the same."""
    store, stolen = open_store(Path("keys")), active("card")
    release = store.state.find(active("release"))
    fast_forward(Path("public"), store.signer(release, CRON.encode()))
    words = ("keys", "revoke", stolen, "--reason", "compromised", "--yes")
    own = {"CARDSIGN_ROOT_PASSPHRASE": "a slip of the pen", "CARDSIGN_RELEASE_PASSPHRASE": CRON}
    assert issuer(*words, **own).status == 1
    assert stolen not in load_current(Path("public")).kids


@pytest.mark.parametrize("name", ["current", "NEWEST/agent-card.json"])
def test_a_damaged_publication_lets_no_older_copy_sign_a_number_twice(
    issuer: Cardsign, name: str
) -> None:
    """What is whole of it still says which releases there were."""
    shutil.copytree("keys", "old")
    run(issuer("release", "renew", "--force", CARDSIGN_RELEASE_PASSPHRASE=CRON))
    generation = load_current(Path("public"))
    newest = read_release(generation.release or b"").seq
    file = Path("public") / name.replace("NEWEST", generation.folder)
    file.write_bytes(file.read_bytes()[:20])

    cron = {"CARDSIGN_RELEASE_PASSPHRASE": CRON}
    older = ("release", "renew", "--force", "--keystore", "old")
    assert issuer(*older, **cron).status == 1
    issuer("keys", "rotate", "--adopt", "--keystore", "old", **cron)
    run(issuer(*older, **cron))

    log = issuer("keys", "log", "--keystore", "old", "--json").json
    events = [event for line in log for event in line["events"]]
    numbers = [event["seq"] for event in events if event["event"] == "release"]
    assert numbers == sorted(set(numbers))
    assert newest in numbers


def _lead_nowhere(path: Path) -> None:
    if path.exists():
        path.rename(path.with_suffix(".aside"))
    path.symlink_to("x" * 300)  # a name too long for any file


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda newest: os.mkfifo(newest / "keyset/9.9.json"), id="a pipe"),
        pytest.param(lambda newest: _lead_nowhere(newest / "keyset/9.9.json"), id="no keyset"),
        pytest.param(lambda newest: _lead_nowhere(newest / "release.json"), id="no release"),
        pytest.param(lambda newest: _lead_nowhere(newest / "keyset"), id="no folder"),
    ],
)
def test_nothing_in_a_damaged_publication_holds_anybody_up(
    issuer: Cardsign, spoil: Callable[[Path], object]
) -> None:
    """It is left aside, and the work goes on."""
    newest = Path("public") / load_current(Path("public")).folder
    Path("public/current").write_bytes(b"{")
    spoil(newest)
    run(issuer("release", "renew", "--force", CARDSIGN_RELEASE_PASSPHRASE=CRON))


def newer_format(public: Path) -> None:
    """A generation of a later cardsign, or one that says so."""
    (public / "current").write_text('{"format": 2}')


def pipe(public: Path) -> None:
    """What is opened here, waits for ever, so it is refused."""
    (public / "current").unlink()
    os.mkfifo(public / "current")


def endless_card(public: Path) -> None:
    """More than any card may have."""
    os.truncate(public / "000001/agent-card.json", 50 * 2**20)


def strangers_chain(public: Path) -> None:
    """Statements whose numbers nobody here has ever used."""
    eve = FakeIssuer(datetime.now(UTC), origin=ISSUER)
    keyset = eve.keyset("ann", "bob", epoch=9)
    generation = load_current(public)
    files = {name: data for name, data in generation.files.items() if "/" not in name}
    files.pop("release.json")
    put_in_place(public, replace(generation, files={**files, "keyset/9.1.json": keyset}))


@pytest.mark.parametrize("hinder", [newer_format, pipe, endless_card, strangers_chain])
def test_nothing_published_stops_a_revocation(
    issuer: Cardsign, hinder: Callable[[Path], None]
) -> None:
    """Whatever lies there: the key is revoked in the store, and what is left is said."""
    stolen = active("card")
    hinder(Path("public"))

    revoking = ("keys", "revoke", stolen, "--reason", "compromised", "--yes")
    own = {"CARDSIGN_ROOT_PASSPHRASE": PASSPHRASE, "CARDSIGN_RELEASE_PASSPHRASE": CRON}
    ended = issuer(*revoking, CARDSIGN_PASSPHRASE=NEW, **own)

    store = open_store(Path("keys"))
    assert store.state.find(stolen).state == "revoked"
    assert (ended.status, "ELSEWHERE" in ended.err) == (1, True), ended.err
    assert kept_keyset(store).label == "1.3"  # type: ignore[union-attr]


def test_who_revokes_is_asked_about_the_whole_custody(issuer: Cardsign) -> None:
    """By name, before anything is done."""
    words = ("keys", "revoke", active("card"), "--reason", "compromised")
    before = Path("keys/log.jsonl").read_bytes()
    asked = issuer(*words)
    others = [key for key in open_store(Path("keys")).state.keys if "release" not in key.roles]
    assert len(others) == 3
    assert all(key.kid[:8] in asked.err for key in others), asked.err
    assert Path("keys/log.jsonl").read_bytes() == before


@pytest.mark.parametrize("role", ["card", "root", "release"])
def test_init_names_the_key_whose_passphrase_is_missing(cardsign: Cardsign, role: str) -> None:
    """And its variable, though those of all other keys are set."""
    variables = {f"CARDSIGN_{name.upper()}_PASSPHRASE": NEW for name in ("card", "root", "release")}
    del variables[missing := f"CARDSIGN_{role.upper()}_PASSPHRASE"]
    words = ("init", "--issuer", ISSUER, "--recovery-out", "recovery.key")
    told = cardsign(*words, **variables, **RECOVERY, CARDSIGN_PASSPHRASE=None)
    assert (told.status, f"no passphrase of the new {role} key" in told.err) == (2, True)
    assert f"Set {missing}, or CARDSIGN_PASSPHRASE" in told.err


def test_what_cron_runs_says_when_a_person_is_needed(cardsign: Cardsign) -> None:
    """An exit status alone reaches nobody; without need nothing is printed."""
    _, apart, own = begun_apart(cardsign)
    jobs = (("keys", "rotate", "--quiet"), ("keys", "doctor", "--quiet"))
    asked = [cardsign(*job) for job in jobs]
    run(cardsign(*ALL_DUE, *apart, **own))
    done = [cardsign(*job) for job in jobs]

    assert [(one.status, one.err == "") for one in (*asked, *done)] == [
        *[(1, False)] * 2,
        *[(0, True)] * 2,
    ]
    first, *_ = asked[0].err.splitlines()
    assert first == "cardsign: not finished. Do this: cardsign keys rotate --root-keystore DIR"
    assert "error: doctor." in asked[1].err


@pytest.mark.parametrize("named", [True, False], ids=["in cardsign.toml", "in no file"])
def test_cron_does_not_bring_back_a_withdrawn_card(issuer: Cardsign, *, named: bool) -> None:
    """Only a person who names the card does; until then nobody is needed."""
    if not named:
        settings = Path("cardsign.toml").read_text()
        Path("cardsign.toml").write_text(settings.partition("[[card]]")[0])
    cron = {"CARDSIGN_PASSPHRASE": None, "CARDSIGN_RELEASE_PASSPHRASE": CRON}
    told = run(issuer("release", "renew", "--withdraw", ISSUER + CARD_PATH, **cron))
    assert f"{ISSUER}{CARD_PATH} is withdrawn" in told.err
    assert "would not be trusted" not in told.err
    for words in (ALL_DUE, ("release", "renew"), ("release", "renew", "--force"), ALL_DUE):
        run(issuer(*words, **cron))
        assert listed() == []
    run(issuer("release", "renew", "--card", "signed.json", **cron))
    assert listed() == [ISSUER + CARD_PATH]
    run(issuer(*ALL_DUE, CARDSIGN_RELEASE_PASSPHRASE=CRON))
    assert listed() == [ISSUER + CARD_PATH]


def first_digest() -> tuple[str, str]:
    """What `init` printed, and a verifier pins."""
    return "--digest", read_keyset(load_current(Path("public")).keysets["1.1"]).digest


@pytest.mark.parametrize("digest", [(), ("--digest", "0" * 64)])
def test_a_lost_store_takes_up_no_history_that_nobody_vouches_for(
    digest: tuple[str, ...], issuer: Cardsign
) -> None:
    """A stranger's could list this recovery key beside one of theirs."""
    shutil.rmtree("keys")
    before = load_current(Path("public"))
    options = ("--recovery-file", "recovery.key", *digest, "-o", "next.json", "--yes")
    refused = issuer("keyset", "recover", *options, **RECOVERY)
    assert (refused.status, "statement.digest" in refused.err) == (2, True)
    assert "cardsign keyset recover --recovery-file FILE --digest SHA-256" in refused.err
    assert load_current(Path("public")) == before
    assert not Path("next.json").exists()


@pytest.mark.parametrize("lost", [True, False], ids=["keys lost", "keys kept"])
def test_a_recovered_issuer_that_ends_offers_no_key(issuer: Cardsign, *, lost: bool) -> None:
    """Neither those that a lost store had, before any card is signed again, nor those of now."""
    cron = {} if lost else {"CARDSIGN_RELEASE_PASSPHRASE": CRON}
    before = load_current(Path("public")).kids
    if lost:
        shutil.rmtree("keys")
    options = ("--recovery-file", "recovery.key", *first_digest(), "-o", "next.json", "--yes")
    run(issuer("keyset", "recover", *options, **RECOVERY))
    told = run(issuer("keyset", "publish", "next.json", **cron)).err
    assert told.count("next: cardsign keys rotate") == lost, "what comes next, and that once"
    assert load_current(Path("public")).kids == (() if lost else before)
    rotating = [key.kid for key in open_store(Path("keys")).state.keys if key.rotates]
    run(issuer("keys", "revoke", *rotating, "--reason", "ceased", "--yes", **cron))
    assert load_current(Path("public")).kids == ()


def test_a_slip_in_a_recovery_leaves_nothing_half_made(issuer: Cardsign) -> None:
    """A passphrase that is not there ends it before anything is written; then it goes as ever."""
    shutil.rmtree("keys")
    options = ("--recovery-file", "recovery.key", *first_digest(), "-o", "next.json", "--yes")
    slip = issuer("keyset", "recover", *options, **RECOVERY, CARDSIGN_PASSPHRASE=None)
    assert (slip.status, "passphrase.none" in slip.err, Path("keys").exists()) == (2, True, False)
    run(issuer("keyset", "recover", *options, **RECOVERY))
    run(issuer("keyset", "publish", "next.json"))
    run(issuer(*ALL_DUE))
    assert {
        role for key in run(issuer("keys", "list", "--json")).json for role in key["roles"]
    } == {*("root", "card", "release")}


@pytest.mark.parametrize("home", ["home", "elsewhere"])
def test_a_machine_without_the_key_store_is_not_told_to_begin_anew(
    issuer: Cardsign, home: str
) -> None:
    """Whether it has seen the store or not: a new key would be nobody's."""
    shutil.rmtree("keys")
    for words in (ALL_DUE, ("keys", "doctor"), ("keys", "list")):
        ended = issuer(*words, HOME=str(Path(home).absolute()))
        assert (ended.status, "keystore.missing" in ended.err) == (2, True)
        hint = "If it is lost: cardsign keyset recover --recovery-file FILE --digest SHA-256\n"
        assert (hint in ended.err, "generate" in ended.err) == (True, False)
        whose = f"public holds keysets of {ISSUER}, and their key store is not here"
        assert (whose in ended.err) == (home == "elsewhere"), ended.err


def test_a_recovery_in_a_strange_folder_writes_nothing(issuer: Cardsign) -> None:
    """Nor does one with the wrong passphrase; both say so before a store is made."""
    shutil.rmtree("keys")
    before = files()
    options = (
        "keyset",
        "recover",
        "--recovery-file",
        "recovery.key",
        *first_digest(),
        "-o",
        "next.json",
        "--yes",
    )
    wrong = issuer(*options, CARDSIGN_RECOVERY_PASSPHRASE="a slip of the pen")
    assert (wrong.status, "passphrase.wrong" in wrong.err) == (2, True)
    Path("cardsign.toml").unlink()
    shutil.rmtree("public")
    strange = issuer(*options, **RECOVERY)
    assert (strange.status, "keystore.no_keyset" in strange.err) == (2, True)
    assert files() == {name: data for name, data in before.items() if name in files()}


def test_the_passphrase_of_a_role_is_changed(issuer: Cardsign) -> None:
    """Of that role alone; the old one opens nothing any more."""
    new = secret("new", "a new one for cron, and longer")
    words = ("keys", "passwd", "--role", "release", "--new-passphrase-file", new, "--json")
    assert "passphrase.wrong" in issuer(*words).err  # that of the card key
    ended = run(issuer(*words, CARDSIGN_RELEASE_PASSPHRASE=CRON))
    assert active("release") in ended.json["changed"]
    assert "`release` of [passphrase_files]" in ended.json["also_in"]
    renew = ("release", "renew", "--force")
    assert "passphrase.wrong" in issuer(*renew, CARDSIGN_RELEASE_PASSPHRASE=CRON).err
    run(issuer(*renew, CARDSIGN_RELEASE_PASSPHRASE=new.read_text()))


def test_a_mistyped_passphrase_replaces_no_key(issuer: Cardsign) -> None:
    """The key is revoked at once; the one in its place has the passphrase that it had."""
    for key in open_store(Path("keys")).state.keys:
        if key.state == "prepublished" and "card" in key.roles:
            revoke_in_log(key.kid, "superseded")
    stolen = active("card")
    words = ("keys", "revoke", stolen, "--reason", "superseded", "--yes", "--json")
    told = issuer(*words, CARDSIGN_PASSPHRASE="a slip of the pen", CARDSIGN_RELEASE_PASSPHRASE=CRON)
    assert told.status == 1
    refusal = f"the passphrase does not open key `{stolen}`"
    assert any(refusal in gap["what"] for gap in told.json["left"])
    state = open_store(Path("keys")).state
    assert state.find(stolen).state == "revoked"
    assert not state.active_keys("card")
    run(issuer(*words, CARDSIGN_RELEASE_PASSPHRASE=CRON))
    run(issuer("sign"))


def test_the_reason_of_a_revocation_stays(issuer: Cardsign) -> None:
    """Another one is refused by name, so that nobody believes that it was noted."""
    key = active("card")
    issuer("keys", "revoke", key, "--reason", "superseded", "--yes")
    told = issuer("keys", "revoke", key, "--reason", "compromised", "--yes")
    assert (told.status, "as superseded" in told.err) == (2, True)
