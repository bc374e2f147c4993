"""Gathers attacks and writes their directories; tests/attacks/README.md says what is in them."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from crafting import ORIGIN, Json, Key, dump, ec_key

from cardsign.card import parse_object
from cardsign.errors import JsonRefused

FORMAT: Final = "cardsign-attacks/1"
TRANSCRIPT_FORMAT: Final = "cardsign-fetch/1"
_COLUMNS: Final = 110
#: 2026-11-21 12:00:00 UTC
NOW: Final = 1_795_262_400
ISSUER: Final = "harbour"
SUBJECT: Final = {"issuer": ISSUER}
JWKS_URL: Final = f"{ORIGIN}/.well-known/jwks.json"
JWKS_ANCHOR: Final = {"jwks": JWKS_URL}
#: What an honest card gets with pinned keys alone.
WAIVED: Final = ("trust.freshness_waived",)

Input = Mapping[str, Any] | bytes


@dataclass(frozen=True, slots=True)
class Recipe:
    """An input that is too large to commit, as pieces that are repeated."""

    pieces: tuple[tuple[str | bytes, int], ...]


def recipe(*pieces: str | bytes | tuple[str | bytes, int]) -> Recipe:
    """Pieces in order; a pair says how many times."""
    return Recipe(tuple(one if isinstance(one, tuple) else (one, 1) for one in pieces))


# ------------------------------------------------------------------ policies


def pinned(*keys: Key | Json, holder: str = ISSUER) -> Json:
    """An anchor: these keys and no others."""
    jwks = [one.jwk() if isinstance(one, Key) else one for one in keys]
    return {"keys": [{"holder": holder, "public": jwk} for jwk in jwks]}


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


def _toml(value: Any, indent: str = "") -> str:
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_toml(one)}' for name, one in value.items())} }}"
    if any(isinstance(one, dict) for one in value):
        return "[\n" + "".join(f"  {_toml(one)},\n" for one in value) + "]"
    return f"[{', '.join(map(_toml, value))}]"


# ------------------------------------------------------------------ expectations


def refused(verdict: str, code: str, **members: Any) -> Json:
    """Not trusted, for this reason."""
    return {"verdict": verdict, "code": code, **members}


def trusted(*warnings: str, **members: Any) -> Json:
    """Trusted, with these warnings at most; without any, with that of pinned keys."""
    return {"verdict": "trusted", "warnings": list(warnings or WAIVED), **members}


# ------------------------------------------------------------------ the corpus


@dataclass
class Corpus:
    """All attacks, by number."""

    attacks: dict[int, Attack] = field(default_factory=dict)

    def attack(self, number: int, name: str, title: str, why: str, source: str = "") -> Attack:
        """Open a directory; `source` is told by the number where nobody says."""
        assert number not in self.attacks, number
        told = f"keys-and-trust {number}" if number <= 100 else f"finding {number - 100}"
        opened = Attack(number, name, title, why, source or told)
        self.attacks[number] = opened
        return opened

    def write(self, folder: Path) -> None:
        """Replace the directories of these attacks, and no others."""
        for attack in self.attacks.values():
            for stale in folder.glob(f"{attack.number:03}-*"):
                shutil.rmtree(stale)
            attack.write(folder / f"{attack.number:03}-{attack.name}")


class Attack:
    """One directory: an attack in its variants, and their honest twins."""

    def __init__(self, number: int, name: str, title: str, why: str, source: str) -> None:
        self.number = number
        self.name = name
        self.about: Json = {
            "format": FORMAT,
            "number": number,
            "title": title,
            "source": source,
            "why": " ".join(why.split()),
        }
        self.cases: list[Json] = []
        self.transcripts: list[Json] = []
        self.files: dict[str, bytes] = {}
        self.standard = "trust.toml"

    # -------------------------------------------------------------- files

    def file(self, name: str, data: bytes) -> str:
        """Put a file into the directory; equal bytes are one file. Returns its name."""
        for present, content in self.files.items():
            if content == data and Path(present).suffix == Path(name).suffix:
                return present
        assert name not in self.files, name
        self.files[name] = data
        return name

    def tests(self, *ids: str) -> None:
        """Tests of ours for what cannot be data, as pytest names them."""
        self.about["tests"] = list(ids)

    def policy(self, *issuers: Json, name: str = "trust.toml") -> str:
        """Put a policy into the directory."""
        return self.file(name, trust_toml(*issuers))

    def input(self, name: str, content: Input | Recipe | str) -> str | Json:
        """Put an input there; a text is the name of a file that is there already."""
        if isinstance(content, str):
            assert content in self.files, content
            return content
        if isinstance(content, Recipe):
            return {"pieces": [_piece(*one) for one in content.pieces]}
        data = content if isinstance(content, bytes) else dump(content)
        return self.file(f"{name}.{'json' if _is_strict(data) else 'bin'}", data)

    def place(self, name: str, content: Any) -> str | Json:
        """Put an input there; one of another content gets another name, pieces stay pieces."""
        if isinstance(content, Recipe) or (isinstance(content, dict) and "pieces" in content):
            return content if isinstance(content, dict) else self.input(name, content)
        data = content if isinstance(content, bytes) else dump(content)
        told, nth = name, 1
        while any(self.files.get(f"{told}.{end}", data) != data for end in ("json", "bin")):
            nth += 1
            told = f"{name}-{nth}"
        return self.input(told, data)

    # -------------------------------------------------------------- cases

    def attack(self, id_: str, title: str, card: Any, verdict: str, code: str, **more: Any) -> None:
        """A card that must not be trusted, and why it is not."""
        expect = refused(verdict, code, **more.pop("expecting", {}))
        self.case(id_, "attack", title, [self.step(id_, card, expect, **more)])

    def twin(self, id_: str, title: str, card: Any, *warnings: str, **more: Any) -> None:
        """The honest card beside it, which must be trusted."""
        expect = trusted(*warnings, **more.pop("expecting", {}))
        self.case(id_, "twin", title, [self.step(id_, card, expect, **more)])

    def bad_set(self, id_: str, title: str, card: Any, code: str, jwks: Any) -> None:
        """A key set that is refused whole: nothing can be said of the card."""
        self.attack(id_, title, card, "indeterminate", code, jwks=jwks)

    def case(
        self, id_: str, kind: str, title: str, steps: Sequence[tuple[Json, Json]], **more: Any
    ) -> None:
        """Any case: steps from :meth:`step`, `lock` and `memory` as the format has them."""
        about = {name: value for _, members in steps for name, value in members.items()} | more
        case = {"id": id_, "kind": kind, "title": title, "policy": self.standard, **about}
        self.cases.append({**case, "steps": [step for step, _ in steps]})

    def step(
        self,
        name: str,
        card: Any,
        expect: Json,
        *,
        subject: Mapping[str, str] = SUBJECT,
        now: int = NOW,
        jwks: Input | Recipe | str | None = None,
        jwks_url: str = JWKS_URL,
        evidence: Json | None = None,
        **case: Any,
    ) -> tuple[Json, Json]:
        """One step, and what besides is said of its whole case (`policy`, `lock`, `memory`)."""
        said: Json = {"card": self.input(f"{name}.card", card), "subject": dict(subject)}
        said["now"] = now
        brought = dict(evidence or {})
        if jwks is not None:
            brought |= {"jwks": self.input(f"{name}.jwks", jwks), "jwks_url": jwks_url}
        if brought:
            said["evidence"] = brought
        return {**said, "expect": expect}, case

    def write(self, folder: Path) -> None:
        """Write the directory."""
        folder.mkdir(parents=True)
        for name, data in self.files.items():
            (folder / name).write_bytes(data)
        text = json.dumps({**self.about, "cases": self.cases}, indent=1, ensure_ascii=False)
        (folder / "attack.json").write_text(text + "\n", encoding="utf-8")
        if self.transcripts:
            transcripts = {"format": TRANSCRIPT_FORMAT, "cases": self.transcripts}
            (folder / "fetch.json").write_text(_spread(transcripts) + "\n", encoding="utf-8")


def pinning(corpus: Corpus, number: int, name: str, title: str, why: str) -> tuple[Attack, Key]:
    """Open a directory whose policy pins one key, for ES256."""
    attack, key = corpus.attack(number, name, title, why), ec_key("harbour-1")
    attack.policy(issuer(pinned(key)))
    return attack, key


def fetching(corpus: Corpus, number: int, name: str, title: str, why: str) -> Attack:
    """Open a directory whose policy takes the keys of one URL."""
    attack = corpus.attack(number, name, title, why)
    attack.policy(issuer(JWKS_ANCHOR))
    return attack


def jwk_set(*keys: Key | Json) -> Json:
    """A JWK Set of keys, or of whatever an attacker calls so."""
    return {"keys": [one.jwk() if isinstance(one, Key) else one for one in keys]}


def _spread(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON in which whatever fits into a line stands on one."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + before + len(line) <= _COLUMNS or not isinstance(value, dict | list):
        return line
    inner = indent + " "
    if isinstance(value, list):
        parts = [_spread(one, inner) for one in value]
    else:
        names = {name: json.dumps(name, ensure_ascii=False) + ": " for name in value}
        parts = [names[n] + _spread(one, inner, len(names[n])) for n, one in value.items()]
    opened, closed = "[]" if isinstance(value, list) else "{}"
    return f"{opened}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{closed}"


def _is_strict(data: bytes) -> bool:
    try:
        parse_object(data)
    except JsonRefused:
        return False
    return True


def _piece(content: str | bytes, times: int) -> Json:
    if isinstance(content, bytes):
        return {"base64": base64.b64encode(content).decode(), "times": times}
    return {"text": content, "times": times}
