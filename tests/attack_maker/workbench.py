"""One directory about statements: a house, its first keyset and release, and an anchor to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corpus import JWKS_URL, Corpus, issuer, refused
from crafting import Json
from statements import UNTRUSTED, House, Statement, lock, pin, yes


class Bench:
    """One directory about statements: a house, his first keyset and release, an anchor to it."""

    def __init__(
        self,
        corpus: Corpus,
        number: int,
        name: str,
        title: str,
        why: str,
        *,
        source: str = "",
        anchor: Json | None = None,
        house: House | None = None,
        first: Statement | None = None,
        **policy: Any,
    ) -> None:
        told = source or (f"rule {'K' if number < 300 else 'V'}{number % 100}" * (number > 200))
        self.attack = corpus.attack(number, name, title, why, told)
        self.house = house or House()
        self.first = first or self.house.keyset()
        self.release = self.house.release(self.first)
        self.freshness = {"freshness": "required", **policy}
        self.attack.policy(issuer(anchor or pin(self.first), **self.freshness))

    def policy(self, file: str, anchor: Json | None = None, /, **members: Any) -> str:
        """Another policy beside the standard one."""
        said = {**self.freshness, **members}
        return self.attack.policy(issuer(anchor or pin(self.first), **said), name=file)

    def place(self, name: str, content: Any) -> str | Json:
        """Put an input into the directory."""
        return self.attack.place(name, content)

    def lock(self, name: str, keyset: Statement | None, release: Statement | None = None) -> str:
        """Put a lock there that has seen these."""
        return str(self.place(f"{name}.lock", lock(keyset, release)))

    def padded(self, statement: Statement, size: int) -> Statement:
        """The statement with white space behind it, up to a size."""
        assert isinstance(statement.data, bytes)
        blanks = {"text": " ", "times": size - len(statement.data)}
        return statement.sent({"pieces": [{"file": self.file(statement)}, blanks]})

    def file(self, statement: Statement) -> str | Json:
        """Put a statement there."""
        return self.place(statement.label, statement.data)

    def evidence(self, statements: Sequence[Statement], **more: Any) -> Json:
        """What is brought along, in this order."""
        found: Json = dict(more)
        for one in statements:
            found.setdefault(f"{one.kind}s", []).append(self.file(one))
        return found

    def step(
        self,
        expect: Json,
        *statements: Statement,
        card: tuple[str, Any] | None = None,
        by: str = "card",
        public: tuple[str, Any] | None = None,
        jwks: Json | None = None,
        jwks_url: str = JWKS_URL,
        contact: str | None = None,
        historic: bool = False,
        **more: Any,
    ) -> tuple[Json, Json]:
        """One step; the card is the house's, signed by the key `by`, where none is given."""
        name, content = card or (f"by-{by}", self.house.card(by))
        brought = self.evidence(statements)
        if contact is not None:
            brought["contact"] = contact
        if jwks is not None:
            brought |= {"jwks": self.place("jwks", jwks), "jwks_url": jwks_url}
        file = self.place(f"{name}.card", content)
        given = {"memory": "fresh", **more}
        said, about = self.attack.step(name, file, expect, evidence=brought, **given)
        if historic:
            said["historic"] = True
        if public is not None:
            said["public"] = self.place(f"{public[0]}.card", public[1])
        about = {name: one for name, one in about.items() if one != "none"}
        return said, about

    def steps(self, id_: str, title: str, *steps: tuple[Json, Json], twin: bool = False) -> None:
        """A case of several steps."""
        self.attack.case(id_, "twin" if twin else "attack", title, steps)

    def refused(
        self, id_: str, title: str, verdict: str, code: str, *brought: Statement, **more: Any
    ) -> None:
        """A card that must not be trusted, and why."""
        expect = refused(verdict, code, **more.pop("expecting", {}))
        self.steps(id_, title, self.step(expect, *brought, **more))

    def honest(
        self, id_: str, title: str, *brought: Statement, warnings: Sequence[str] = (), **more: Any
    ) -> None:
        """A card that must be trusted, four times yes, with these warnings at most."""
        self.steps(id_, title, self.step(yes(*warnings), *brought, **more), twin=True)

    def bad_successor(self, id_: str, title: str, code: str, bad: Statement, **more: Any) -> None:
        """A successor that breaks a rule: the honest card stays trusted, and its own is not.

        Its keys are to be `card2` and `rel`; `more` is for the second step.
        """
        harmless = self.step(yes(code, "statement.gap"), self.first, self.release, bad)
        verdict = more.pop("verdict", UNTRUSTED)
        theirs = self.step(
            refused(verdict, code), self.first, bad, self.house.release(bad), by="card2", **more
        )
        self.steps(id_, title, harmless, theirs)
