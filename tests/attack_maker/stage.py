"""Transcripts: a verifier, the house that he asks, and who else is on the network.

The world of a case is the honest one of :meth:`Stage.world`, changed; tests/attacks/README.md says
what its members mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from ipaddress import ip_address
from typing import Any, Final, Literal

from tests.attack_maker.attack import (
    JWKS_URL,
    NOW,
    WAIVED,
    Attack,
    issuer,
    jwk_set,
    pinned,
    refused,
    trusted,
)
from tests.attack_maker.signing import ORIGIN, Json
from tests.attack_maker.statements import URL, YES, House, Statement, pin

HOST: Final = "tides.example"
#: Where the house is. Public in form; nothing is ever sent there.
HOME: Final = "93.184.215.14"
EVIL_HOST: Final = "evil.example"
EVIL_HOME: Final = "93.184.215.66"
EVIL: Final = f"https://{EVIL_HOST}"
STATEMENTS: Final = f"{ORIGIN}/.well-known/cardsign"
RELEASE_URL: Final = f"{STATEMENTS}/release.json"

#: Seconds for which an answer may be used without asking, at most.
CEILING: Final = 300
LATER: Final = NOW + CEILING + 1

Kind = Literal["pin", "url", "keyset"]


def at(address: str) -> str:
    """Where a server of TLS listens."""
    plain = ip_address(address)
    return f"[{plain}]:443" if plain.version == 6 else f"{plain}:443"


def keyset_url(statement: Statement) -> str:
    """Where a keyset statement lies."""
    return f"{STATEMENTS}/keyset/{statement.members['epoch']}.{statement.members['version']}.json"


def text(content: str | bytes, times: int = 1) -> Json:
    """An input that stands in the transcript itself."""
    if isinstance(content, bytes):
        content = content.decode()
    piece: Json = {"text": content}
    return {"pieces": [piece | ({"times": times} if times != 1 else {})]}


def turns(*answers: Any) -> Json:
    """One after the other; the last is repeated."""
    return {"turns": list(answers)}


def tls(*names: str, flaw: str = "") -> Json:
    """A server with a certificate."""
    return {"certificate": {"names": list(names or [HOST]), **({"flaw": flaw} if flaw else {})}}


def status(code: int, *headers: Sequence[str | None], **more: Any) -> Json:
    """An answer without a body."""
    return {
        "status": code,
        **({"headers": [list(one) for one in headers]} if headers else {}),
        **more,
    }


class Stage:
    """The transcripts of one directory.

    There are policies for it: `by-pin.toml` pins the house's card key, `by-url.toml` the URL of
    his key set, `by-keyset.toml` his first keyset statement, with freshness required.
    """

    def __init__(
        self, attack: Attack, house: House | None = None, first: Statement | None = None
    ) -> None:
        self.attack = attack
        self.house = house or House()
        self.first = first or self.house.keyset()
        self.release = self.house.release(self.first)
        self._kinds: dict[str, Kind] = {}

    @cached_property
    def card(self) -> str | Json:
        """The house's card."""
        return self.place("card", self.house.card())

    @cached_property
    def jwks(self) -> str | Json:
        """The house's key set."""
        return self.place("jwks", jwk_set(self.house.key("card")))

    # -------------------------------------------------------------- files

    def place(self, name: str, content: Any) -> str | Json:
        """Put an input into the directory."""
        return self.attack.input(name, content)

    def pinned(self, file: str = "by-pin.toml", **members: Any) -> str:
        """The policy that pins the card key."""
        return self._policy("pin", file, issuer(pinned(self.house.key("card")), **members))

    def by_url(self, file: str = "by-url.toml", url: str = JWKS_URL, **members: Any) -> str:
        """The policy that names the URL of the key set."""
        return self._policy("url", file, issuer({"jwks": url}, **members))

    def by_keyset(self, file: str = "by-keyset.toml", **members: Any) -> str:
        """The policy that pins the first keyset statement; freshness is required."""
        said = {"freshness": "required", **members}
        return self._policy("keyset", file, issuer(pin(self.first), **said))

    def by_first_contact(self, file: str = "by-first-contact.toml", **members: Any) -> str:
        """The policy that keeps what it meets first; freshness is required."""
        said = {"freshness": "required", **members}
        return self.attack.policy(issuer({"tofu": True}, **said), name=file)

    def by_roots(self, file: str = "by-roots.toml") -> str:
        """The policy that pins his root set; freshness is required."""
        anchor = self.house.root_pin(1, ann="ann")
        return self._policy("keyset", file, issuer(anchor, freshness="required"))

    def _policy(self, kind: Kind, file: str, one: Json) -> str:
        name = self.attack.policy(one, name=file)
        self._kinds[name] = kind
        return name

    # -------------------------------------------------------------- the world

    def said(self, content: Any, name: str = "card", **more: Any) -> Json:
        """An answer with a body; a text is the name of a file that is there."""
        body = (
            content if isinstance(content, str) or _is_input(content) else self.place(name, content)
        )
        return {"body": body, **more}

    def statements(self, *statements: Statement) -> Json:
        """Where each of them lies."""
        return {
            RELEASE_URL if one.kind == "release" else keyset_url(one): self.said(
                one.data, one.label
            )
            for one in statements
        }

    def world(self, policy: str, changed: Json) -> Json:
        """The honest world, with what a policy needs of it, but for what is changed."""
        answers: Json = changed.get("answers", {})
        if URL not in answers:
            answers = {URL: self.said(self.card), **answers}
        if self._kinds.get(policy) == "url" and JWKS_URL not in answers:
            answers = {JWKS_URL: self.said(self.jwks), **answers}
        if self._kinds.get(policy) == "keyset":
            both = {keyset_url(self.first): self.first, RELEASE_URL: self.release}
            lacking = (one for url, one in both.items() if url not in answers)
            answers = {**self.statements(*lacking), **answers}
        return {
            "names": {HOST: [HOME], **changed.get("names", {})},
            "servers": {f"{HOME}:443": tls(), **changed.get("servers", {})},
            "answers": answers,
        }

    def revoking(self, **changes: Any) -> Statement:
        """The next release, which revokes the card key."""
        revoked = self.house.thumbprints("card")
        return self.house.release(self.first, seq=6, revoked=revoked, label="release-6", **changes)

    # -------------------------------------------------------------- cases

    def step(
        self,
        expect: Json,
        *,
        url: str = URL,
        now: int = NOW,
        names: Json | None = None,
        servers: Json | None = None,
        answers: Json | None = None,
        asked: Sequence[str] | None = None,
        **more: Any,
    ) -> Json:
        """One step; what of the world is different, and what may be asked."""
        said: Json = {"url": url, "now": now, **more}
        for name, members in (("names", names), ("servers", servers), ("answers", answers)):
            if members:
                said[name] = members
        return {**said, "expect": {**expect, **({} if asked is None else {"asked": list(asked)})}}

    def case(
        self,
        id_: str,
        title: str,
        *steps: Json,
        policy: str,
        twin: bool = False,
        memory: str | None = None,
        **more: Any,
    ) -> None:
        """A case of one or more steps; the first is in the honest world, changed."""
        asked = [URL]
        if self._kinds.get(policy) == "url":
            asked.append(JWKS_URL)
        if self._kinds.get(policy) == "keyset":
            asked.append(f"{STATEMENTS}/*")
        first, *later = steps
        told = [_ordered(one, asked) for one in ({**first, **self.world(policy, first)}, *later)]
        about = {"id": id_, "kind": "twin" if twin else "attack", "title": title, "policy": policy}
        if told_memory := memory or ("fresh" if self._kinds.get(policy) == "keyset" else ""):
            more["memory"] = told_memory
        self.attack.transcripts.append({**about, **more, "steps": told})

    def refused(
        self,
        id_: str,
        title: str,
        verdict: str,
        code: str,
        said: str,
        *,
        policy: str,
        expecting: Mapping[str, Any] | None = None,
        memory: str | None = None,
        **more: Any,
    ) -> None:
        """A card that must not be trusted, and why; `said` is what the four answers are."""
        step = self.step(refused(verdict, code, said, **(expecting or {})), **more)
        self.case(id_, title, step, policy=policy, memory=memory)

    def honest(
        self,
        id_: str,
        title: str,
        *,
        policy: str,
        warnings: Sequence[str] = (),
        expecting: Mapping[str, Any] | None = None,
        memory: str | None = None,
        **more: Any,
    ) -> None:
        """A card that must be trusted."""
        step = self.step({**self.good(policy, *warnings), **(expecting or {})}, **more)
        self.case(id_, title, step, policy=policy, twin=True, memory=memory)

    def good(self, policy: str, *warnings: str) -> Json:
        """What an honest card gets under one of the three policies."""
        if self._kinds.get(policy) == "keyset":
            return trusted(*warnings, answers=YES)
        return trusted(WAIVED, *warnings)


def _is_input(content: Any) -> bool:
    return isinstance(content, dict) and "pieces" in content


def _ordered(step: Json, asked: list[str]) -> Json:
    """The members in the order of README.md, the expectation last."""
    expect = {**step["expect"]}
    expect.setdefault("asked", asked)
    order = ("url", "subject", "now", "elapsed", "restart", "lost", "repeat")
    order += ("names", "servers", "answers")
    return {**{name: step[name] for name in order if name in step}, "expect": expect}
