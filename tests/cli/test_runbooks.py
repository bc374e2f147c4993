"""Each runbook of docs/guides/runbooks.md, under a virtual clock, as verifying peers see it.

A section has a folder of its own. Comments of the page say what happens between the blocks:

* ``cron 5d``: cron runs daily for so long; it may need a person, and exits 1 then;
  ``idle 5d``: it needs nobody, though it runs every eight hours in the first three days;
  ``needed 3d``: it runs every eight hours until it needs a person, within so long;
* ``theft``: a thief takes the active card key; ``lost NAME...``: these folders are gone;
* ``believed 600s``: from so long after the theft or the end on, no peer that follows keysets
  believes that card; ``ended``: the card is not the issuer's any more;
* ``two holders``: what the page says of another holder has been done;
* ``rotated``: no key that signed cards at the beginning is listed now.

After every command and every run of cron a peer that follows keysets trusts the live card, and
one whose key set is a day old does, but after a theft or a loss.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cardsign import sign_card
from cardsign.keys.store import open_store
from cardsign.publish.generation import load_current
from cardsign.statements.keyset import read_keyset
from cardsign.urls import CARD_PATH, JWKS_PATH, KEYSET_PATH, RELEASE_PATH
from tests.cli.conftest import PASSPHRASE, Cardsign, Ended
from tests.simulation.peers import Copies, KeysetPeer, Site, believes
from tests.support import PORTABLE, dump

PAGE = Path(__file__).parents[2] / "docs/guides/runbooks.md"
HOME = "https://tides.example"
CRON = "that of cron's releases"
DAY = 24 * 3600
NEW = "a passphrase that no thief has"
PART = re.compile(
    r"^<!-- (?P<event>(?:two|cron|idle|needed|theft|lost|believed|ended|rotated)[^>]*?) -->$|"
    r"^```console\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

#: Each runbook by its heading.
SECTIONS = {
    part.partition("\n")[0]: part
    for part in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
}
pytestmark = pytest.mark.usefixtures("cheap")


@dataclass
class Story:
    """One runbook under way, at the time that every command and peer takes for now."""

    cardsign: Cardsign
    clock: Callable[[datetime], None]
    now: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)
    site: Site = field(default_factory=Site)
    peer: KeysetPeer = field(init=False)
    keysets_only: bool = False
    over: bool = False
    forged: bytes = b""
    since: datetime | None = None
    old: set[str] = field(default_factory=set)
    first: str = ""
    card: str = PASSPHRASE

    def begin(self) -> None:
        """An issuer that has published a card an hour ago."""
        self.clock(self.now)
        Path("card.json").write_text(json.dumps(PORTABLE))
        words = "--card card.json --recovery-out recovery.key --root-keystore usb"
        self.run(f"cardsign init --issuer {HOME} {words}")
        self.run("cardsign keys rotate --root-keystore usb")
        self.deploy()
        first = read_keyset(load_current(Path("public")).keysets["1.1"])
        self.first = first.digest
        copies = Copies(self.site, 300)
        self.peer = KeysetPeer(copies, HOME, first.id, at=lambda t: datetime.fromtimestamp(t, UTC))
        self.old = {key.kid for key in open_store(Path("keys")).state.active_keys("card")}
        self.sleep(3600)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)
        self.clock(self.now)

    def play(self, section: str) -> None:
        """Everything of a runbook, in order."""
        for part in PART.finditer(section):
            if part["event"]:
                word, *rest = part["event"].split()
                getattr(self, word)(*rest)
            for line in (part["block"] or "").splitlines():
                if line.startswith("$ "):
                    self.run(line[2:])
                    self.sleep(60)
                    self.look()

    def run(self, line: str) -> None:
        """One command; where the page shows that it fails, it must."""
        line, fails, _ = line.partition(" || ")
        if not line.startswith("cardsign "):
            subprocess.run(["bash", "-c", line], check=True)
            return
        ended = self.call(*self.typed(line))
        assert (ended.status != 0) is bool(fails), (line, ended.err)

    def typed(self, line: str) -> list[str]:
        """The words of a command, as a reader would type them."""
        draft = next((word for word in line.split() if word.endswith(".json")), "")
        return [new for word in shlex.split(line)[1:] for new in self.meant(word, draft)]

    def meant(self, word: str, draft: str) -> list[str]:
        """What a reader would type in the place of a word in capitals."""
        if word == "DIGEST":
            return [self.call("keyset", "show", draft, "--json").json["digest"]]
        if word == "SHA-256":
            return [self.first]
        if word == "KID":
            return list(self.old)
        if word not in ("BOB", "EVE", "ALL"):
            return [word]
        keys = open_store(Path("keys" if word == "ALL" else word.lower())).state.keys
        usable = ("active", "prepublished", "generated")
        return [key.kid for key in keys if word != "ALL" or (key.state in usable and key.rotates)]

    def call(self, *words: str) -> Ended:
        """As the person who knows every passphrase."""
        secrets = {
            "CARDSIGN_PASSPHRASE": PASSPHRASE,
            "CARDSIGN_CARD_PASSPHRASE": self.card,
            "CARDSIGN_RELEASE_PASSPHRASE": CRON,
            "CARDSIGN_ROOT_PASSPHRASE": "that of the offline root",
            "CARDSIGN_RECOVERY_PASSPHRASE": "another horse entirely",
        }
        return self.cardsign(*words, **secrets)

    # What the page says happens.

    def cron(self, span: str, needed: tuple[int, ...] = (0, 1)) -> None:
        """It runs each day, or every third in a long span, with one passphrase."""
        days = int(span.removesuffix("d"))
        step = 3 if days > 10 else 1
        for _ in range(0, days, step):
            assert self.cron_once(step * DAY) in needed

    def cron_once(self, later: int) -> int:
        """One run after so many seconds; gives its exit status."""
        self.sleep(later)
        only = {"CARDSIGN_PASSPHRASE": None, "CARDSIGN_RELEASE_PASSPHRASE": CRON}
        ended = self.cardsign("keys", "rotate", "--quiet", **only)
        assert ended.status in (0, 1), ended.err
        self.look()
        return ended.status

    def needed(self, span: str) -> None:
        """A person comes at the first alarm, which is early enough for a fault to show."""
        times = 3 * int(span.removesuffix("d"))
        assert any(self.cron_once(8 * 3600) for _ in range(times))

    def two(self, _: str) -> None:
        """Bob holds a root key as well."""
        self.play(SECTIONS["Another holder of a root key"])

    def idle(self, span: str) -> None:
        """So long nobody is needed: cron does all by itself."""
        days = int(span.removesuffix("d"))
        soon = min(days, 3)
        assert not any(self.cron_once(8 * 3600) for _ in range(3 * soon))
        if days > soon:
            self.cron(f"{days - soon}d", needed=(0,))

    def theft(self) -> None:
        """The thief signs the issuer's own words with the card key."""
        store = open_store(Path("keys"))
        signer = store.signer(store.state.active_keys("card")[0], PASSPHRASE.encode())
        self.forged = sign_card(dump(PORTABLE), signer)
        assert self.peer.verify(self.t, self.forged).verdict == "trusted"
        self.since, self.keysets_only, self.card = self.now, True, NEW

    def ended(self) -> None:
        """From now on the card that was published is nobody's."""
        self.forged, self.over = load_current(Path("public")).card, True
        self.since, self.keysets_only, self.card = self.now, True, NEW

    def lost(self, *names: str) -> None:
        """A burnt laptop; whoever has an old key set knows no new key."""
        for name in names:
            shutil.rmtree(name)
        self.keysets_only = self.over = True

    def believed(self, span: str) -> None:
        """No longer than this."""
        assert self.since
        end = self.since + timedelta(seconds=int(span.removesuffix("s")))
        self.sleep(max(0, (end - self.now).total_seconds()))
        assert self.peer.verify(self.t, self.forged).verdict != "trusted"

    def rotated(self) -> None:
        """The keys of the beginning are gone from what is listed, and the card is trusted."""
        self.over = False
        self.look()
        listed = self.call("keyset", "show", "--json").json
        assert self.old.isdisjoint(key["kid"] for key in listed["keys"])

    @property
    def t(self) -> int:
        """The time in seconds."""
        return int(self.now.timestamp())

    def deploy(self) -> None:
        """What is published is live."""
        generation = load_current(Path("public"))
        files = {CARD_PATH: generation.card, JWKS_PATH: generation.jwks}
        files[RELEASE_PATH] = generation.release or b""
        for number, data in generation.keysets.items():
            epoch, _, version = number.partition(".")
            files[KEYSET_PATH.format(epoch=epoch, version=version)] = data
        for path, data in files.items():
            self.site.show(path, data, self.t)

    def look(self) -> None:
        """The peers' verdicts of the live card."""
        self.deploy()
        if self.over:
            return
        card = load_current(Path("public")).card
        report = self.peer.verify(self.t, card)
        assert report.verdict == "trusted", [reason.message for reason in report.reasons]
        if not self.keysets_only:
            day_old = self.site.live(JWKS_PATH, self.t - DAY) or self.site.live(JWKS_PATH, self.t)
            assert believes(day_old or b"", card)


@pytest.fixture
def story(cardsign: Cardsign, clock: Callable[[datetime], None]) -> Story:
    """An issuer an hour after its first publication."""
    story = Story(cardsign, clock)
    story.begin()
    return story


@pytest.mark.parametrize("section", SECTIONS.values(), ids=SECTIONS)
def test_a_runbook_goes_as_it_is_told(section: str, story: Story) -> None:
    """No command fails that should not, no peer refuses an honest card or believes a thief."""
    story.play(section)


@pytest.mark.parametrize(
    "section",
    [
        "<!-- theft -->\n<!-- believed 600s -->\n",
        "```console\n$ cardsign keys revoke nobody\n```\n",
        "<!-- rotated -->",
    ],
)
def test_a_runbook_that_is_not_true_is_seen(section: str, story: Story) -> None:
    """A theft that nobody ends, a command that fails, keys that are listed still."""
    with pytest.raises(AssertionError):
        story.play(section)
