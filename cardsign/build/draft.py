"""The draft of a card: facts for a card of A2A 1.0, each with the place that it was taken from.

A fact is taken once, and later ones are ignored, so the order of the sources is their
precedence. Only members of the A2A 1.0 schema and the closed list of our extension can be
taken, and what is taken is cut down to the schema: nothing else of a source can leave.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from cardsign.build.reading import SURROGATE, SourceDocument, SourcePlace, refusal
from cardsign.card.extensions import KEPT_OF_CARD, KEPT_OF_SKILL, with_kept
from cardsign.card.schema import CARD_1_0, SKILL_1_0, A2aVersion, Field
from cardsign.card.security import DerivedSecurity
from cardsign.card.values import Json, members_of
from cardsign.config import BuildSettings, OrlojSettings
from cardsign.files import leads_outside
from cardsign.findings import Finding, Place
from cardsign.tomltext import Location

#: Where a fact goes: names of members of A2A 1.0; under "skills", the skill's id comes second.
Target = tuple[str, ...]
#: The member of A2A 1.0, or of our extension, by the member of a source. Several names lead deeper
#: into the source, a dot leads deeper into the card.
Mappings: TypeAlias = Mapping[str | Location, str]
#: How members of our extension are read.
_READ_KEPT: Final[Mapping[str, Callable[..., Json]]] = {
    "id": SourceDocument.text,
    "stateTransitionHistory": SourceDocument.flag,
    "inputSchema": SourceDocument.table,
    "outputSchema": SourceDocument.table,
}
#: The place of values that are in no source.
FILLED: Final = SourcePlace("filled by a rule")
#: The version of a card where no source has one.
DEFAULT_VERSION: Final = "0.0.0"
_SKILL: Final = list(SKILL_1_0.fields)
_OURS: Final = "our extension"
_LISTED: Final[Mappings] = {
    name: name for name in ("name", "description", "examples", "inputModes", "outputModes")
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One value of the card, and where it was taken from."""

    target: Target
    value: Json
    place: SourcePlace


class Draft:
    """A card in the making.

    Attributes:
        options: The options of the user.
        reasons: What was changed or left out, in order.
        filled: Defaults that were filled in; the form of 0.2 has none of them.
        listen_path: The path after the base URL, if a source has one.
    """

    def __init__(self, options: BuildOptions) -> None:
        self.options = options
        self.reasons: list[Finding] = []
        self.filled: list[Finding] = []
        self.listen_path: str | None = None
        self._facts: dict[Target, Fact] = {}

    def take(self, target: Target, value: Json, place: SourcePlace) -> bool:
        """Take a value, unless one is there already, or the whole of which it is a part.

        A null, an empty text and an empty list say nothing. What the schema does not know inside
        the value is left out. Returns whether it was taken.

        Raises:
            BuildRefused: ``build.type``: the schema wants another type, or JSON has no such value.
                ``build.unsupported``: a URL in it holds a user name or a password.
        """
        is_taken = any(target[:count] in self._facts for count in range(1, len(target) + 1))
        if value is None or value in ("", []) or is_taken:
            return False
        _check_json([*target, value], ascii(".".join(target))[1:-1], place)
        if target[0] != _OURS:
            value = _fit(value, field_of(target), ".".join(target), self, place)
        self._facts[target] = Fact(target, value, place)
        return True

    def keep(self, name: str, value: Json, place: SourcePlace, skill: str | None = None) -> None:
        """Keep a member of the card or of a skill that A2A 1.0 has no place for, in our extension.

        An empty object of a skill says nothing.
        """
        if skill is None and name in KEPT_OF_CARD:
            self.take((_OURS, name), value, place)
        elif skill is not None and name in KEPT_OF_SKILL and value != {}:
            self.take((_OURS, "skills", skill, name), value, place)

    def take_members(
        self, document: SourceDocument, table: Mappings, *, at: Location = (), to: Target = ()
    ) -> None:
        """Take members of one object of a source, by its table of mappings.

        Args:
            document: The source.
            table: What becomes of which member.
            at: Where the object stands.
            to: Where its members go: of the card, or of one skill.
        """
        for name, member in table.items():
            place = (*at, *([name] if isinstance(name, str) else name))
            if document.get(*place) is None:
                continue
            if member in _READ_KEPT:
                value = _READ_KEPT[member](document, *place)
                self.keep(member, value, document.place(*place), *to[1:])
                continue
            target = (*to, *member.split("."))
            field = field_of(target)
            value = document.get(*place)
            if field.kind == "string" and field.shape == "one":
                value = document.text(*place)
            elif field.kind == "string" and field.shape == "list":
                value = list(document.texts(*place))
            elif field.kind == "bool":
                value = document.flag(*place)
            self.take(target, value, document.place(*place))

    def take_skill(
        self,
        skill: str,
        *,
        place: SourcePlace,
        name: str | None = None,
        description: str | None = None,
        tags: Sequence[str] = (),
        tagged: SourcePlace | None = None,
        tool: str | None = None,
    ) -> None:
        """Take the required members of a skill. Tags are unique without case, and never empty.

        A `tool` is a skill too; without a description it gets a sentence.
        """
        to = ("skills", skill)
        if tool is not None:
            description = description or f"Can use the {tool} tool"
        self.take((*to, "id"), skill, place)
        self.take((*to, "name"), name or skill, place)
        self.take((*to, "description"), description, place)
        folded: dict[str, Json] = {}
        for tag in tags or ["skill" if tool is None else "tool"]:
            folded.setdefault(tag.casefold(), tag)
        self.take((*to, "tags"), list(folded.values()), tagged or place)

    def take_listed_skill(self, document: SourceDocument, at: Location) -> None:
        """Take a skill of a source's list, in the words of A2A, with the place of each member.

        Raises:
            BuildRefused: ``build.missing``: it has neither id nor name.
        """
        skill = document.text(*at, "id") or document.text(*at, "name")
        if skill is None:
            raise document.refuse("build.missing", "the skill has neither id nor name", *at)
        self.take_members(document, _LISTED, at=at, to=("skills", skill))
        self.take_skill(
            skill,
            tags=document.texts(*at, "tags"),
            place=document.place(*at),
            tagged=document.place(*at, "tags"),
        )

    def take_security(
        self,
        derived: DerivedSecurity,
        place: SourcePlace,
        places: Mapping[str, SourcePlace] = MappingProxyType({}),
    ) -> None:
        """Add schemes to those that are there, and requirements if there are none.

        Args:
            derived: Both.
            place: Of the requirements, and of the schemes that `places` does not name.
            places: Of schemes, by name.
        """
        schemes, requirements = derived
        for name, scheme in schemes.items():
            self.take(("securitySchemes", name), scheme, places.get(name, place))
        self.take(("securityRequirements",), requirements, place)

    def warn(self, code: str, message: str, place: SourcePlace) -> None:
        """Add a warning for the user."""
        self.reasons.append(Finding(code, message, Place(str(place))))

    def fill(self, target: Target, value: Json, message: str, place: SourcePlace) -> None:
        """Take a default, unless there is a value, and add a note if there is a message."""
        if self.take(target, value, FILLED) and message:
            self.filled.append(Finding("build.filled", message, Place(str(place))))

    def has(self, member: str) -> bool:
        """Return whether something was taken for a member of the card, or below it."""
        return any(target[0] == member for target in self._facts)

    def value(self, *target: str) -> Json:
        """Return what was taken for a member; None where nothing was."""
        fact = self._facts.get(target)
        return fact.value if fact else None

    def skill_ids(self) -> list[str]:
        """Return the ids of the skills, sorted."""
        return sorted({target[1] for target in self._facts if target[0] == "skills"})

    def replace(self, target: Target, value: Json, place: SourcePlace) -> None:
        """Take a value of the options in place of the value that is there."""
        for fact in [fact for fact in self._facts if fact[: len(target)] == target]:
            del self._facts[fact]
        self.take(target, value, place)

    def facts(self, *, filled: bool = True) -> tuple[Fact, ...]:
        """Return what was taken, in the order of the schema, skills by id.

        Args:
            filled: Include defaults.
        """
        facts = (fact for fact in self._facts.values() if filled or fact.place != FILLED)
        return tuple(sorted(facts, key=_rank))

    def document(self, *, filled: bool = True) -> dict[str, Json]:
        """Return the card of A2A 1.0 that the facts make."""
        card: dict[str, Any] = {}
        for fact in self.facts(filled=filled):
            *above, last = fact.target
            owner = card
            for token in above:
                owner = owner.setdefault(token, {})
            owner[last] = fact.value
        if "skills" in card:
            card["skills"] = list(card["skills"].values())
        return with_kept(card, card.pop(_OURS, {}))


def _rank(fact: Fact) -> tuple[int, str, int]:
    """Return the place in the order of the schema, skills by id, schemes by name, ours last."""
    first, *rest = fact.target
    names = list(CARD_1_0.fields)
    place = names.index(first) if first in names else len(names)
    if first == "skills":
        return place, rest[0], _SKILL.index(rest[1])
    return place, rest[0] if rest and first == "securitySchemes" else "", 0


def field_of(target: Target) -> Field:
    """Return the field of the schema that a target names.

    Raises:
        KeyError: There is none.
    """
    first, *rest = target
    field = CARD_1_0.fields[first]
    if first == "skills":
        rest = rest[1:]
    if field.shape == "map" and rest:
        return replace(field, name=rest[0], shape="one", expected=field.element)
    for name in rest:
        if field.message is None:
            raise KeyError(name)
        field = field.message.fields[name]
    return field


def describe_hint(skill: str) -> str:
    """Return what to do about a skill without a description."""
    return f"Write one into the source, or pass --set 'skills.{skill}.description=...'"


def _check_json(value: object, name: str, place: SourcePlace) -> None:
    """Refuse what JSON cannot hold, such as TOML's dates, and URLs with a credential."""
    if isinstance(value, Mapping | list):
        for part in [*value, *value.values()] if isinstance(value, Mapping) else value:
            _check_json(part, name, place)
    elif isinstance(value, str) and _USERINFO.match(value):
        text = f"{name}: a URL holds a user name or a password, and a card is public"
        raise refusal("build.unsupported", text, place, hint="Write the URL without it.")
    elif isinstance(value, str) and SURROGATE.search(value):
        raise refusal("build.type", f"{name}: the text contains an unpaired surrogate", place)
    elif not isinstance(value, str | int | float | None) or value in (inf, -inf) or value != value:
        kind = type(value).__name__
        raise refusal("build.type", f"{name}: JSON has no such value ({kind})", place)


_USERINFO: Final = re.compile(r"\s*[a-z][a-z0-9+.-]*:[/\\]{2}[^/?#\\\s]*@", re.IGNORECASE)


def _fit(value: Json, field: Field, name: str, draft: Draft, place: SourcePlace) -> Json:
    """Return the value as its field allows it, without what the schema does not have."""
    expected, words = field.expected
    if not isinstance(value, expected):
        raise refusal("build.type", f"{name}: expected {words}", place)
    if field.shape != "one":
        field = replace(field, shape="one", expected=field.element)
        if isinstance(value, list):
            return [
                _fit(element, field, f"{name}[{index}]", draft, place)
                for index, element in enumerate(value)
            ]
        parts = members_of(value).items()
        return {key: _fit(part, field, f"{name}.{key}", draft, place) for key, part in parts}
    if field.message is None or not isinstance(value, dict):
        return value
    fields = field.message.fields
    for member in value:
        if member not in fields:
            draft.warn("build.left_out", f"{name}.{member} is no member of A2A 1.0", place)
    return {
        member: _fit(value[member], field, f"{name}.{member}", draft, place)
        for member, field in fields.items()
        if value.get(member) is not None
    }


# Options, kinds of sources, and the search for files.

#: Files of one source; a card of more skills would be refused for its size.
MAX_FILES: Final = 20_000


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """The options of a build; they win over every source.

    Attributes:
        a2a: The form of the card; ``both`` gives 1.0 and 0.3. None: as the first source has it.
        base_url: Where the server is reached; the kind of the first source adds its path.
        url: Where the agent is called, with ``{name}`` for the card's name.
        members: Values by member of A2A 1.0, such as ``provider.url`` or ``skills.ID.name``.
        agent: Which of several agents in the sources; None where there is one.
        prompt_excerpt: Take a missing description from the first sentence of a prompt.
        orloj: What Orloj takes from its server.
        live: What MCP servers answered, taken after all sources; see :mod:`cardsign.build.live`.
    """

    a2a: A2aVersion | str | None = None
    base_url: str | None = None
    url: str | None = None
    members: Mapping[str, str] = field(default_factory=dict, hash=False)
    agent: str | None = None
    prompt_excerpt: bool = False
    orloj: OrlojSettings = field(default_factory=OrlojSettings)
    live: tuple[SourceDocument, ...] = ()

    def with_settings(self, settings: BuildSettings) -> BuildOptions:
        """Return these options with those of a project where there are none."""
        return replace(
            self,
            a2a=self.a2a or settings.a2a,
            base_url=self.base_url or settings.base_url,
            url=self.url or (None if self.base_url else settings.url),
            orloj=settings.orloj,
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of source: how it is recognised, and how its facts are taken.

    Attributes:
        name: As in ``KIND:PATH``.
        take: Takes the facts of all sources of the kind, in the order given.
        is_file: Whether a document that was read is of this kind.
        folder: A file that a folder of the kind has; ``*`` may stand for a name.
        a2a: The form that its cards have unless another is asked for.
        modes: What input and output modes default to.
        path: What follows the base URL; ``{name}`` is the card's name.
    """

    name: str
    take: Callable[[Sequence[Path], Draft], None]
    is_file: Callable[[SourceDocument], bool]
    folder: tuple[str, ...] = ()
    a2a: A2aVersion = "1.0"
    modes: tuple[str, ...] = ("text/plain",)
    path: str | Callable[[Draft], str] = ""


def found_in(folder: Path, patterns: Sequence[str]) -> Iterator[Path]:
    """Yield the files of a folder that fit a pattern, each once, sorted by path.

    A link that leads out of the folder is refused: the folder may be a stranger's.

    Raises:
        BuildRefused: ``build.limit``; ``build.unsupported`` for such a link.
    """
    paths: set[Path] = set()
    for pattern in patterns:
        for path in folder.glob(pattern):
            paths.add(path)
            if len(paths) > MAX_FILES:
                message = f"more than {MAX_FILES} files"
                raise refusal("build.limit", message, SourcePlace(str(folder)))
    for path in sorted(paths):
        if leads_outside(folder, path):
            message = "it is a link that leads out of its folder"
            hint = "Put the file itself there."
            raise refusal("build.unsupported", message, SourcePlace(str(path)), hint=hint)
        if os.path.isfile(path):
            yield path


def first_in(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the first of these files that a folder has; links as in :func:`found_in`."""
    return next((file for name in names for file in found_in(folder, (name,))), None)


def take_prompt(document: SourceDocument, at: Location, draft: Draft) -> None:
    """Take a missing description from a prompt's first sentence, if that was asked for."""
    words = " ".join((document.text(*at) or "").split()) if draft.options.prompt_excerpt else ""
    sentence, stop, _ = words.partition(". ")
    text = sentence + stop.strip()
    text = text if len(text) <= 200 else f"{text[:197]}..."
    place = document.place(*at)
    if draft.take(("description",), text, place):
        draft.warn("build.prompt", f"taken from the prompt: {text!r}", place)
