"""One attack while it is made: its files, and its cases."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from cardsign.card import parse_object
from cardsign.errors import JsonRefused
from tests.attack_maker.signing import ORIGIN, Json, Key, dump

#: 2026-11-21 12:00:00 UTC
NOW: Final = 1_795_262_400
ISSUER: Final = "harbour"
SUBJECT: Final = {"issuer": ISSUER}
JWKS_URL: Final = f"{ORIGIN}/.well-known/jwks.json"
JWKS_ANCHOR: Final = {"jwks": JWKS_URL}
#: What an honest card gets with pinned keys alone, and how the questions are answered then.
WAIVED: Final = "trust.freshness_waived"
UNASKED: Final = "yes yes unknown yes"

_QUESTIONS: Final = ("integrity", "authorised", "current", "complete")
_OF_CASE: Final = ("policy", "lock", "memory")

# ------------------------------------------------------------------ policies


def pinned(*keys: Key | Json, holder: str = ISSUER) -> Json:
    """An anchor: these keys and no others."""
    return {"keys": [{"holder": holder, "public": jwk} for jwk in jwk_set(*keys)["keys"]]}


def jwk_set(*keys: Key | Json) -> Json:
    """A JWK Set of keys, or of whatever an attacker calls so."""
    return {"keys": [one.jwk() if isinstance(one, Key) else one for one in keys]}


def issuer(anchor: Json, name: str = ISSUER, **members: Any) -> Json:
    """One issuer of a policy; freshness is waived unless a member says otherwise."""
    said = {"name": name, "origins": [ORIGIN], "freshness": "waived", **members}
    return {**{k: v for k, v in said.items() if v is not None}, "anchor": anchor}


def trust_toml(*issuers: Json) -> bytes:
    """A policy as a verifier's file."""
    lines = ["format = 1"]
    for one in issuers:
        lines += ["", "[[issuer]]"]
        lines += [f"{name} = {_toml(value)}" for name, value in one.items() if name != "anchor"]
        lines += ["", "[issuer.anchor]"]
        lines += [f"{name} = {_toml(value)}" for name, value in one["anchor"].items()]
    return "\n".join(lines).encode() + b"\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(one)}' for name, one in value.items())} }}"
    if any(isinstance(one, dict) for one in value):
        return "[\n" + "".join(f"  {_toml(one)},\n" for one in value) + "]"
    return f"[{', '.join(map(_toml, value))}]"


# ------------------------------------------------------------------ expectations


def answered(text: str) -> Json:
    """The four answers: integrity, authorised, current and complete, as `yes yes unknown no`."""
    return dict(zip(_QUESTIONS, text.split(), strict=True))


def refused(verdict: str, code: str, answers: str, **members: Any) -> Json:
    """Not trusted, for this reason."""
    return {"verdict": verdict, "code": code, "answers": answered(answers), **members}


def trusted(*warnings: str, answers: str = UNASKED, **members: Any) -> Json:
    """Trusted, with these warnings at most."""
    said = {"verdict": "trusted", "warnings": list(warnings)}
    return {**said, "answers": answered(answers), **members}


# ------------------------------------------------------------------ attacks


class Attack:
    """An attack in its variants, and their honest twins.

    Args:
        number: Unique in the corpus; 400 + N for break N.
        name: What follows the number in the file's name.
        title: What it is, in a few words.
        why: Why it matters, and what must stop it.
        source: From where it is; break N where nothing is said.
    """

    def __init__(self, number: int, name: str, title: str, why: str, source: str = "") -> None:
        self.number = number
        self.name = f"{number:03}-{name}"
        self.head: Json = {"number": number, "title": title}
        self.head |= {"source": source or f"break {number - 400}", "why": " ".join(why.split())}
        self.cases: list[Json] = []
        self.transcripts: list[Json] = []
        self.files: dict[str, bytes] = {}
        #: The policy of a case that names none.
        self.standard = "trust.toml"

    @property
    def about(self) -> Json:
        """Its file, but for `format` and `files`."""
        return {**self.head, "cases": self.cases, "transcripts": self.transcripts}

    def tests(self, *ids: str) -> None:
        """Tests of ours for what cannot be data, as pytest names them."""
        self.head["tests"] = list(ids)

    def file(self, name: str, data: bytes) -> str:
        """Add a file and return its name; equal bytes are one file, others get another name."""
        stem, _, ending = name.rpartition(".")
        for present, content in self.files.items():
            if content == data and present.endswith(f".{ending}"):
                return present
        nth = 1
        while name in self.files:
            nth += 1
            name = f"{stem}-{nth}.{ending}"
        self.files[name] = data
        return name

    def policy(self, *issuers: Json, name: str = "trust.toml") -> str:
        """Add a policy."""
        return self.file(name, trust_toml(*issuers))

    def input(self, name: str, content: bytes | Json | str) -> str | Json:
        """Add an input; a text names a file that is there, `{"pieces": ...}` stays as it is."""
        if isinstance(content, str):
            assert content in self.files, content
            return content
        if isinstance(content, dict) and "pieces" in content:
            return content
        data = content if isinstance(content, bytes) else dump(content)
        return self.file(f"{name}.{'json' if _is_strict(data) else 'bin'}", data)

    def step(
        self,
        card: Any,
        expect: Json,
        *,
        name: str,
        subject: Mapping[str, str] = SUBJECT,
        now: int = NOW,
        supplied: Json | None = None,
        jwks: Any = None,
        jwks_url: str = JWKS_URL,
        public: Any = None,
        **more: Any,
    ) -> Json:
        """One step; `name` is that of the card's file."""
        said: Json = {"card": self.input(f"{name}.card", card)}
        if public is not None:
            said["public"] = self.input(f"{name}.public.card", public)
        brought = dict(supplied or {})
        if jwks is not None:
            brought |= {"jwks": self.input(f"{name}.jwks", jwks), "jwks_url": jwks_url}
        said |= {"subject": dict(subject), "now": now}
        said |= {"evidence": brought} if brought else {}
        return {**said, **more, "expect": expect}

    def case(self, id_: str, kind: str, title: str, *steps: Json, **about: Any) -> None:
        """Any case of steps from :meth:`step`; `policy`, `lock` and `memory` as in README.md."""
        told = {name: about[name] for name in _OF_CASE if about.get(name) not in (None, "none")}
        head = {"id": id_, "kind": kind, "title": title, "policy": self.standard}
        self.cases.append({**head, **told, "steps": list(steps)})

    def attack(
        self, id_: str, title: str, card: Any, verdict: str, code: str, answers: str, **more: Any
    ) -> None:
        """A card that must not be trusted, and why it is not."""
        about = self.about_case(more)
        expect = refused(verdict, code, answers, **more.pop("expecting", {}))
        self.case(id_, "attack", title, self.step(card, expect, name=id_, **more), **about)

    def twin(self, id_: str, title: str, card: Any, *warnings: str, **more: Any) -> None:
        """The honest card beside it, which must be trusted; with pinned keys, freshness waived."""
        about = self.about_case(more)
        expect = trusted(WAIVED, *warnings, **more.pop("expecting", {}))
        self.case(id_, "twin", title, self.step(card, expect, name=id_, **more), **about)

    @staticmethod
    def about_case(members: Json) -> Json:
        """Take out of keywords what is said of a whole case."""
        return {name: members.pop(name) for name in _OF_CASE if name in members}


def _is_strict(data: bytes) -> bool:
    try:
        parse_object(data)
    except JsonRefused:
        return False
    return True
