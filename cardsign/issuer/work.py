"""What an issuer works with in one call, which keys sign, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from cardsign.config import NO_CONFIG, ProjectConfig
from cardsign.errors import PassphraseFault, PublishRefused, SignerFault, SigningRefused, UsageFault
from cardsign.jose.jws import Signer
from cardsign.jose.keys import PublicKey
from cardsign.keys import history
from cardsign.keys.ledger import Role
from cardsign.keys.signers import Access, open_signer
from cardsign.keys.store import KeyStore, StoreUser
from cardsign.publish.generation import Generation, newest_generation
from cardsign.statements.keyset import KeysetStatement
from cardsign.statements.release import ReleaseStatement

#: Where `keys rotate` drafts: one name, so there is one draft. Those of people have others.
DRAFT_FILE: Final = "next-keyset.json"
#: The words of the command that begins a recovery, see :meth:`Work.command`.
RECOVER: Final = "keyset recover --recovery-file FILE"
#: What a person can put right, with another passphrase, another key or another card.
NEEDS_A_PERSON: Final = PassphraseFault, SignerFault, SigningRefused, PublishRefused
#: How long before something ends someone must act; of a card at most a quarter of its time.
NOTICE: Final = timedelta(days=14)


@dataclass(slots=True)
class Work:
    """One call: what an issuer works with in it.

    Attributes:
        store: The key store.
        now: The time, with its zone, in whole seconds.
        config: The project: its issuer, cards, publication directory and timeline.
        access: What signers may use.
        roots: The same of another key store with root keys, such as on a USB stick.
        draft: Where a draft of the next keyset statement is or goes.
        options: The options that the commands for what is left have to repeat: ``--keystore DIR``.
        root_option: And where the root keys are apart: ``--root-keystore usb``.
        drops_others: Publish no extended card that the project does not name.
        adopts: Add to the log what another copy of the key store has published.
        is_dry_run: Close no gap, and say which would be closed; the store is a preview.
        agent: Whose work it is, where the project has several agents; see :meth:`by_agent`.
        agents: The names of all of them.
    """

    store: KeyStore
    now: datetime
    config: ProjectConfig = NO_CONFIG
    access: Access = field(default_factory=partial(Access.by_passphrase, b""))
    roots: Work | None = None
    draft: Path = Path(DRAFT_FILE)
    options: str = ""
    root_option: str = ""
    drops_others: bool = False
    adopts: bool = False
    is_dry_run: bool = False
    agent: str = ""
    agents: tuple[str, ...] = ()

    @property
    def keyset(self) -> KeysetStatement | None:
        """The newest keyset statement that the key store keeps."""
        return history.kept_keyset(self.store)

    @property
    def release(self) -> ReleaseStatement | None:
        """The newest release that the key store keeps."""
        return history.kept_release(self.store)

    @property
    def published(self) -> Generation | None:
        """The newest generation that is published."""
        return newest_generation(self.config.publish)

    def by_agent(self) -> tuple[Work, ...]:
        """Return the work of each agent: its cards, published in a folder of its name.

        That of an only agent is the work itself.
        """
        config, works = self.config, []
        for name in config.agents:
            cards = tuple(card for card in config.cards if card.agent_name == name)
            place = config.publish and config.publish / name
            own = config.model_copy(update={"publish": place, "cards": cards})
            works.append(replace(self, config=own, agent=name, agents=config.agents))
        return tuple(works) or (self,)

    def path_of(self, path: str, agent: str = "") -> str:
        """Return where the server has a well-known path of this agent, or of another."""
        name = agent or self.agent
        return (self.config.agent_path.rstrip("/").replace("{name}", name) if name else "") + path

    def command(self, words: str) -> str:
        """Return a command for the same key store, as a person types it."""
        return " ".join(filter(None, ("cardsign", words, self.options)))

    def list_signing_commands(self) -> list[str]:
        """Return the commands with which a person signs their own cards again, and publishes them.

        They name no published file: whoever had a stolen key may have put it there.
        """
        sign, publish = ["sign CARD -o SIGNED"], "publish SIGNED"
        newest = self.published
        for audience in newest.extended if newest else ():
            seq = max(1, self.store.state.release_seq)
            sign.append(f"sign CARD -o FILE --extended {audience} --seq {seq} --expires 90d")
            publish += f" --extended {audience}=FILE"
        renew = ["release renew --card SIGNED"] if self.keyset else []
        publish += "" if self.config.publish else " -o DIR"
        return [self.command(words) for words in (*sign, *renew, publish)]

    @property
    def again(self) -> str:
        """The command that goes on, with the root keys where they were brought."""
        return " ".join(filter(None, (self.command("keys rotate"), self.root_option)))


class PreviewStore(KeyStore):
    """A key store whose next lines stay in memory, for a dry run; the store itself is only read.

    With the first of them it stays as it was, whatever other processes do.
    """

    def __init__(self, store: KeyStore) -> None:
        super().__init__(store.place, StoreUser(store.user.actor))
        self._store, self._lines = store, list[bytes]()
        self._blobs: dict[str, bytes] = {}
        self.load()

    def read_lines(self, start: int = 1) -> list[bytes]:
        return self._lines[start - 1 :] if self._lines else self._store.read_lines(start)

    def append(self, seq: int, lines: Sequence[bytes], blobs: Mapping[str, bytes]) -> bool:
        self._lines = [*self.read_lines()[: seq - 1], *lines]
        self._blobs |= blobs
        return True

    def read_blob(self, name: str) -> bytes:
        return self._blobs[name] if name in self._blobs else self._store.read_blob(name)

    def drop_blobs(self, names: Collection[str]) -> None:
        pass

    def list_blobs(self) -> frozenset[str]:
        return self._store.list_blobs().union(self._blobs)


class Gap(NamedTuple):
    """Something that is missing, and who can close it.

    Attributes:
        what: What is to be done. With `who` it is the gap's name: a second one is the same gap.
        why: What is wrong as long as it is not done, for people.
        who: Whose passphrase or key it takes, where this machine cannot.
        command: What that person types.
        until: When it does harm if nobody does it; None: it does already, or nobody can know.
        close: Closes it, and returns what was done if that is worth a line; None: only a person
            can.
        awaits_roots: What hinders it is gone once the next keyset is published.
    """

    what: str
    who: str = "you"
    command: str = ""
    until: datetime | None = None
    close: Callable[[], Sequence[str] | None] | None = None
    awaits_roots: bool = False
    why: str = ""

    @property
    def name(self) -> tuple[str, str]:
        """What makes two gaps the same."""
        return self.what, self.who

    @property
    def text(self) -> str:
        """What is to be done, and why."""
        return f"{self.what}: {self.why}" if self.why else self.what


def key_holder(role: Role) -> str:
    """Return who is asked where a key of a role has to be opened."""
    return f"the person with the passphrase of the {role} key"


# Which keys sign a card, and where their private keys are.


@dataclass(frozen=True, slots=True)
class _OpenedLate:
    """A signer that is opened when it first signs, so that nobody is asked for nothing."""

    public: PublicKey
    open: Callable[[], Signer]

    def sign(self, signing_input: bytes) -> bytes:
        return self.open().sign(signing_input)


def _refuse_to_open() -> Signer:
    raise PassphraseFault("passphrase.none", "the key was not opened")


def card_signers(
    store: KeyStore, access: Access | bytes | None, *, now: datetime
) -> tuple[Signer, ...]:
    """Return the card keys of a store that sign now: the active ones, and those beside a successor.

    The older ones come first. A key is opened when it first signs.

    Args:
        store: The key store. Its public keys count; what a signer shows is never believed.
        access: What signers may use; a passphrase is enough for keys in files. None: a key that
            would have to sign raises PassphraseFault ``passphrase.none``.
        now: The time, with its zone.

    Raises:
        SigningRefused: ``sign.no_key``: none is active.
        StoreFault: ``keystore.not_listed``: the roots have not listed the key.
    """
    active = store.load().signing_keys(now)
    if not active:
        message = "the key store has no active card key"
        raise SigningRefused("sign.no_key", message, path=store.place)
    keys = history.find_listed(store, active, "card")
    if access is None:
        return tuple(_OpenedLate(key.public, _refuse_to_open) for key in keys)
    return tuple(_OpenedLate(key.public, cache(partial(store.signer, key, access))) for key in keys)


def named_signers(
    uris: Sequence[str],
    access: Access,
    *,
    now: datetime,
    store: KeyStore | None = None,
    public: PublicKey | None = None,
    kid: str | None = None,
) -> tuple[Signer, ...]:
    """Open the keys that some URIs name, in a key store or not.

    Args:
        uris: Where the private keys are.
        access: What signers may use.
        now: The time, with its zone.
        store: The issuer's key store, if there is one. A key that lies at a URI has the public
            key of the store, and the roots must have listed each key.
        public: The public key; needed for a key that is in no store, unless its URI is ``env:``
            or ``file:``.
        kid: The published kid of a key that is in no store.

    Raises:
        StoreFault: ``keystore.not_listed``.
        UsageFault: ``usage.conflict``: the key store knows the key by another kid.
        SignerFault, PassphraseFault, FileFault: As
            :func:`cardsign.keys.signers.open_signer`.
    """
    enrolled = store.state.signing_keys(now) if store is not None and public is None else ()
    signers = list[Signer]()
    for uri in uris:
        record = next((key for key in enrolled if key.custody == uri), None)
        if record is None or store is None:
            signers.append(open_signer(uri, public, access, kid=kid))
        elif kid not in (None, record.kid):
            raise UsageFault("usage.conflict", f"the key store calls this key {record.kid!r}")
        else:
            signers.append(store.signer(record, access))
    if store is not None:
        for signer in signers:
            history.find_listed(store, [signer.public], "card")
    return tuple(signers)
