"""`trust add` compares before it writes (E14), and proposes what a partner's card needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cardsign.jose.keys import JwkSet
from cardsign.publish.generation import load_current
from cardsign.statements.keyset import KeysetId, read_keyset
from cardsign.testing.fake_issuer import digest_of
from cardsign.trust.enroll import read_digest
from cardsign.trust.policy import KeysetAnchor
from cardsign.trust.policyfile import read_policy
from tests.cli import peer
from tests.cli.conftest import Cardsign, Network
from tests.statements.making import key, thumbprint
from tests.support import PORTABLE, dump, signed
from tests.trust import histories

HOME = "https://tides.example"


@pytest.fixture
def tides(network: Network) -> bytes:
    """A peer that publishes keyset 1.1 and a release; the keyset."""
    keyset = peer.keyset()
    network[f"{HOME}/.well-known/cardsign/release.json"] = peer.release(keyset, PORTABLE)
    network[f"{HOME}/.well-known/cardsign/keyset/1.1.json"] = keyset
    return keyset


def nothing_is_written(folder: Path) -> bool:
    """Neither policy nor lock nor state."""
    return not [path for path in folder.rglob("*") if path.is_file()]


DIGEST = "0123456789abcdef" * 4
TOLD = {
    "in capitals": DIGEST.upper(),
    "with its algorithm": f"sha256:{DIGEST}",
    "in groups": f" {DIGEST[:32]} {DIGEST[32:]} ",
    "with colons": ":".join(DIGEST[at : at + 2] for at in range(0, 64, 2)),
}


@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
def test_a_digest_is_read_however_it_was_told(told: str) -> None:
    """On paper, by phone, or from another tool."""
    assert read_digest(told) == DIGEST


NO_DIGESTS = {
    "a prefix": (DIGEST[:8], "you gave 8"),
    "a prefix with its algorithm": (f"sha256:{DIGEST[:10]}", "you gave 10"),
    "one digit too many": (DIGEST + "0", "you gave 65"),
    "nothing": ("", "you gave 0"),
    "no hex": (f"g{DIGEST[1:]}", "you gave 'g"),
}


@pytest.mark.parametrize(("told", "said"), NO_DIGESTS.values(), ids=NO_DIGESTS)
def test_what_is_no_whole_digest_is_asked_for_again(
    cardsign: Cardsign, tmp_path: Path, told: str, said: str
) -> None:
    """It is no difference, so nobody is warned of the issuer; nothing is compared or written."""
    ended = cardsign("trust", "add", HOME, "--digest", told)
    assert (ended.status, "usage.invalid" in ended.err) == (2, True)
    assert f"a digest has 64 hex digits; {said}" in ended.err
    assert "Ask the issuer for the whole digest." in ended.err
    assert nothing_is_written(tmp_path)


def test_a_difference_refuses_before_anything_is_written(
    cardsign: Cardsign, tides: bytes, tmp_path: Path
) -> None:
    """`--yes` does not help: what the issuer said is not to be waved through."""
    digest = read_keyset(tides).digest
    other = digest[:-1] + ("0" if digest[-1] > "0" else "1")
    for more in ((), ("--yes",)):
        ended = cardsign("trust", "add", HOME, "--digest", other, *more)
        assert (ended.status, "statement.digest" in ended.err) == (1, True)
        assert nothing_is_written(tmp_path)


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("", 2)], ids=["yes", "no"])
def test_a_person_is_shown_the_digest_and_asked(
    cardsign: Cardsign, tides: bytes, tmp_path: Path, answer: str, status: int
) -> None:
    """The digest is on the screen before the question; only a yes writes."""
    words = ("trust", "add", HOME, "--name", "tides")
    ended = cardsign(*words, stdin=f"{answer}\n".encode(), at_terminal=True)
    shown, asked, _ = ended.err.partition("Go on? [y/N]:")
    assert (ended.status, bool(asked)) == (status, True)
    assert f"digest      {read_keyset(tides).digest}" in shown
    if status:
        assert nothing_is_written(tmp_path)
        assert "Nothing was added or changed." in ended.err
    else:
        assert [one.name for one in read_policy(Path("trust.toml")).issuers] == ["tides"]


# ------------------------------------------------------------------ a peer without statements

KEYS_URL = f"{HOME}/.well-known/jwks.json"
FIRST_KEYSET = f"{HOME}/.well-known/cardsign/keyset/1.1.json"
CARD_URL = f"{HOME}/.well-known/agent-card.json"


def keys(*names: str) -> bytes:
    """A key set of these keys."""
    return JwkSet.of([key(name).public for name in names]).to_bytes()


def test_the_keys_of_a_peer_without_statements_are_pinned(
    cardsign: Cardsign, network: Network, tmp_path: Path
) -> None:
    """As they are seen now, after a question; another key later is refused."""
    network[KEYS_URL] = keys("card")
    network[CARD_URL] = dump(signed(PORTABLE, key("card")))
    piped = cardsign("trust", "add", HOME, "--name", "tides")
    assert (piped.status, "usage.unanswered" in piped.err) == (2, True)
    assert thumbprint("card") in piped.err
    assert nothing_is_written(tmp_path)

    assert cardsign("trust", "add", HOME, "--name", "tides", "--yes").status == 0
    (entry,) = cardsign("trust", "list", "--json").json
    assert (list(entry["anchor"]), entry["freshness"]) == (["keys"], "waived")
    assert cardsign("verify", HOME).status == 0
    network[KEYS_URL] = keys("mallory")
    network[CARD_URL] = dump(signed(PORTABLE, key("mallory")))
    assert cardsign("verify", HOME).status == 1


NOT_PINNED: dict[str, Callable[[], dict[str, bytes]]] = {
    "no key": lambda: {KEYS_URL: keys()},
    "no key set": lambda: {KEYS_URL: b"{}"},
    "nothing at all": dict,
    "a keyset that cannot be read": lambda: {KEYS_URL: keys("card"), FIRST_KEYSET: b"{}"},
    "a keyset that its own roots have not signed": lambda: {
        KEYS_URL: keys("card"),
        FIRST_KEYSET: histories.keyset("ann", "eve"),
    },
    "a release whose keyset is not there": lambda: {
        KEYS_URL: keys("card"),
        f"{HOME}/.well-known/cardsign/release.json": peer.release(peer.keyset(), PORTABLE),
    },
    "a keyset of the future": lambda: {
        KEYS_URL: keys("card"),
        FIRST_KEYSET: peer.keyset(iat=peer.T0 + 3650 * 86400, exp=peer.T0 + 3700 * 86400),
    },
}


@pytest.mark.parametrize("published", NOT_PINNED.values(), ids=NOT_PINNED)
def test_keys_are_pinned_only_where_there_is_no_keyset(
    cardsign: Cardsign, network: Network, tmp_path: Path, published: Callable[[], dict[str, bytes]]
) -> None:
    """A keyset that cannot be believed is not passed over for the keys beside it."""
    network |= published()
    refused = cardsign("trust", "add", HOME, "--yes")
    assert (refused.status, "trust.no_keys" in refused.err) == (3, True)
    assert nothing_is_written(tmp_path)


AGENTS = """
[a2a]
listen_path = "/a2a"

[[a2a.external_agents]]
name = "Research Agent"
url = "https://research.example.com"

[[a2a.external_agents]]
name = "data-analyst"
url = "https://data.example.com/agents/one/"
"""


def test_O26_a_list_of_agents_is_proposed(
    cardsign: Cardsign, network: Network, tmp_path: Path
) -> None:
    """Nobody is trusted without a yes; those whom the policy has are left out (O26)."""
    Path("config.toml").write_text(AGENTS)
    for name in ("research", "data"):
        network[f"https://{name}.example.com/.well-known/jwks.json"] = keys(name)
    before = sorted(tmp_path.rglob("*"))
    shown = cardsign("trust", "import", "config.toml")
    assert (shown.status, "usage.unanswered" in shown.err) == (2, True)
    assert 'name = "research-agent"' in shown.text
    assert sorted(tmp_path.rglob("*")) == before

    assert cardsign("trust", "import", "config.toml", "--yes").status == 0
    listed = cardsign("trust", "list", "--json").json
    assert [(one["name"], one["origins"], one["cards"]) for one in listed] == [
        ("research-agent", ["https://research.example.com"], ["https://research.example.com/"]),
        ("data-analyst", ["https://data.example.com"], ["https://data.example.com/agents/one/"]),
    ]
    again = cardsign("trust", "import", "config.toml", "--yes")
    assert (again.status, "has all of these agents" in again.err) == (0, True)


def test_a_list_is_imported_whole_or_not_at_all(
    cardsign: Cardsign, network: Network, tmp_path: Path
) -> None:
    """Where two agents would get one name nothing is written; with names of their own all are."""
    for name in ("first", "dup", "third"):
        network[f"https://{name}.example/.well-known/jwks.json"] = keys(name)
    names = ["first", "dup", "DUP"]
    agent = '[[a2a.external_agents]]\nname = "{}"\nurl = "https://{}.example"\n'
    for names[2], is_refused in (("DUP", True), ("third", False)):
        Path("config.toml").write_text("".join(agent.format(one, one.lower()) for one in names))
        before = sorted(tmp_path.rglob("*"))
        ended = cardsign("trust", "import", "config.toml", "--yes")
        assert (ended.status, sorted(tmp_path.rglob("*")) == before) == (2 * is_refused, is_refused)
        assert ("two agents would be named 'dup'" in ended.err) == is_refused
    assert [one["name"] for one in cardsign("trust", "list", "--json").json] == names


NO_LISTS = {
    "no TOML": ("[[", "usage.invalid: this is no list"),
    "no agents": ("[a2a]\n", "usage.invalid: this is no list"),
    "agents that are no list": ("a2a.external_agents = 1\n", "usage.invalid: this is no list"),
    "no URL": ('[[a2a.external_agents]]\nname = "x"\n', "usage.invalid: this is no list"),
    "no URL that may be asked": (
        '[[a2a.external_agents]]\nname = "x"\nurl = "https://x.example/../y"\n',
        "card.interface_url: 'https://x.example/../y'",
    ),
}


@pytest.mark.parametrize(("text", "said"), NO_LISTS.values(), ids=NO_LISTS)
def test_what_is_no_list_of_agents(cardsign: Cardsign, text: str, said: str) -> None:
    """The file and what it lacks."""
    Path("config.toml").write_text(text)
    ended = cardsign("trust", "import", "config.toml", "--yes")
    assert (ended.status, said in ended.err, "config.toml" in ended.err) == (2, True, True)
    assert not Path("trust.toml").exists()


def test_an_origin_that_was_not_asked_gets_the_cause_as_its_hint(cardsign: Cardsign) -> None:
    """That it publishes nothing is not known, so no weaker anchor is proposed."""
    refused = cardsign("trust", "add", "https://127.0.0.1:1/", "--name", "here")
    assert (refused.status, "trust.no_keys" in refused.err) == (3, True)
    assert "--insecure-loopback-http" in refused.err
    assert "--jwks" not in refused.err


# A digest that was told long ago.


def serve(network: Network, *keysets: bytes, release: bytes | None = None) -> None:
    """Publish keysets, and a release under the last of them."""
    release = release or peer.release(keysets[-1], PORTABLE)
    network[f"{HOME}/.well-known/cardsign/release.json"] = release
    for keyset in keysets:
        path = f"/.well-known/cardsign/keyset/{read_keyset(keyset).label}.json"
        network[HOME + path] = keyset


def history() -> tuple[bytes, ...]:
    """Three versions, and a recovery."""
    first = peer.keyset()
    second = peer.keyset(2, first)
    third = peer.keyset(3, second)
    return first, second, third, peer.PEER.keyset_recovered(third)


def pinned() -> str:
    """The number of the keyset that the policy pins."""
    anchor = read_policy(Path("trust.toml")).issuers[0].anchor
    assert isinstance(anchor, KeysetAnchor)
    assert isinstance(anchor.pin, KeysetId)
    return anchor.pin.label


@pytest.mark.usefixtures("cheap")
def test_the_digest_that_init_prints_stays_good(cardsign: Cardsign, network: Network) -> None:
    """The first rotation makes keyset 1.2, which follows from what the verifiers were told."""
    Path("card.json").write_text(json.dumps(PORTABLE))
    own = ("--card", "card.json", "--recovery-out", "recovery.key")
    begun = cardsign("init", "--issuer", HOME, *own).err
    told = begun.partition("tell your verifiers the digest of keyset 1.1")[2].splitlines()[1]
    assert cardsign("keys", "rotate").status == 0
    published = load_current(Path("public"))
    assert len(published.keysets) == 2
    serve(network, *published.keysets.values(), release=published.release)

    ended = cardsign("trust", "add", HOME, "--digest", told)

    assert ended.status == 0, ended.err
    assert pinned() == "1.2"


@pytest.mark.parametrize("age", range(4))
def test_every_digest_of_a_history_leads_to_the_newest(
    cardsign: Cardsign, network: Network, age: int
) -> None:
    """Also across a recovery; what is pinned is the newest."""
    keysets = history()
    serve(network, *keysets)
    ended = cardsign("trust", "add", HOME, "--digest", read_keyset(keysets[age]).digest)
    assert (ended.status, pinned()) == (0, "2.1"), ended.err


def test_files_of_a_history_may_be_named_in_any_order(cardsign: Cardsign) -> None:
    """A digest of any of them will do."""
    keysets = history()
    words = ["tides", "--origin", HOME, "--digest", read_keyset(keysets[0]).digest]
    for number in (2, 0, 3, 1):
        Path(f"{number}.json").write_bytes(keysets[number])
        words += ["--keyset", f"{number}.json"]
    assert cardsign("trust", "add", *words).status == 0
    assert pinned() == "2.1"


def forged(previous: bytes, **changes: object) -> bytes:
    """A next version that only a thief's own root has signed."""
    evil = {"root": peer.PEER.quorum(1, "eve"), **changes}
    return peer.PEER.keyset("eve", version=2, prev=digest_of(previous), **evil)


UNLAWFUL: dict[str, Callable[[], tuple[bytes, tuple[bytes, ...]]]] = {
    "a digest of another history": lambda: (
        peer.keyset(origins=[HOME, "https://b.example"]),
        history(),
    ),
    "the honest one of a forked number": lambda: (
        peer.keyset(2, peer.keyset()),
        (peer.keyset(), forged(peer.keyset())),
    ),
    "a step that its roots have not signed": lambda: (
        peer.keyset(),
        (peer.keyset(), forged(peer.keyset())),
    ),
    "a step that is missing": lambda: (history()[0], (history()[0], history()[2])),
    "a recovery by a stranger": lambda: (
        peer.keyset(),
        (peer.keyset(), peer.PEER.keyset_recovered(peer.keyset(), "dan", "eve")),
    ),
}


@pytest.mark.parametrize("case", UNLAWFUL.values(), ids=UNLAWFUL)
def test_a_keyset_that_does_not_follow_from_the_digest_is_refused(
    cardsign: Cardsign,
    network: Network,
    tmp_path: Path,
    case: Callable[[], tuple[bytes, tuple[bytes, ...]]],
) -> None:
    """Whoever publishes it: without the digest it would be asked about, with it nothing helps."""
    told, keysets = case()
    serve(network, *keysets)

    ended = cardsign("trust", "add", HOME, "--digest", read_keyset(told).digest, "--yes")

    assert (ended.status, "Do not add it" in ended.err) == (1, True), ended.err
    assert nothing_is_written(tmp_path)
