"""The draft of a card: facts for a card of A2A 1.0, each with the place that it was taken from.

A fact is taken once, and later ones are ignored, so the order of the sources is their
precedence. Only members of the A2A 1.0 schema and the closed list of our extension can be
taken, and what is taken is cut down to the schema: nothing else of a source can leave.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from cardsign.build.reading import SourceValue
from cardsign.card.extensions import with_kept
from cardsign.card.schema import CARD_1_0, SKILL_1_0, A2aVersion, Field
from cardsign.card.security import authentication_schemes
from cardsign.card.values import Json
from cardsign.config import BuildSettings
from cardsign.errors import CardRefused
from cardsign.findings import Finding, Place, cut

#: Where a fact goes: names of members of A2A 1.0; under "skills", the skill's id comes second.
#: What A2A has no place for goes below :data:`OURS`.
Target = tuple[str, ...]
#: Where a member of A2A 1.0, or of our extension, comes from: the places in a source, of which the
#: first that says something counts. A dot leads deeper into the card, a space into the source.
Mappings: TypeAlias = Mapping[str, Sequence[str]]
#: The members of our extension that tables name, and how they are read.
_KEPT: Final[Mapping[str, type]] = {
    "id": str,
    "stateTransitionHistory": bool,
    "inputSchema": dict,
    "outputSchema": dict,
}
OURS: Final = "our extension"
#: The place of values that are in no source.
FILLED: Final = SourceValue("filled by a rule")
_USERINFO: Final = re.compile(r"\s*[a-z][a-z0-9+.-]*:[/\\]{2}[^/?#\\\s]*@", re.IGNORECASE)


def same(*names: str) -> Mappings:
    """Return the table of members that have their own names in a source."""
    return {name: [name] for name in names}


#: What a skill says in a list or a file; category and tags: see :meth:`Draft.take_listed_skill`.
SKILL: Final[Mappings] = {
    **same("description", "examples"),
    "name": ["display_name", "displayName", "display-name", "title", "name"],
    "inputModes": ["modes", "inputModes", "input_modes"],
    "outputModes": ["outputModes", "output_modes", "modes"],
}


class Draft:
    """A card in the making.

    Attributes:
        options: The options of the user.
        facts: What was taken, each value with the place that it comes from.
        notes: What was filled, changed or left out, in order.
        listen_path: The path after the base URL, if a source has one.
    """

    def __init__(self, options: BuildOptions) -> None:
        self.options = options
        self.facts: dict[Target, SourceValue] = {}
        self.notes: list[Finding] = []
        self.listen_path: str | None = None

    def take(self, target: Target, value: Json, place: SourceValue) -> bool:
        """Take a value, unless one is there already, or the whole of which it is a part.

        A null, an empty text and an empty list say nothing, nor does an empty object that is none
        of A2A. What the schema does not know inside the value is left out. Returns whether it was
        taken.

        Raises:
            BuildRefused: ``build.type``: the schema wants another type. ``build.unsupported``: a
                URL in it holds a user name or a password.
        """
        is_taken = any(target[:count] in self.facts for count in range(1, len(target) + 1))
        if is_taken or value in (None, "", []) or (target[0] == OURS and value == {}):
            return False
        name = ".".join(target)
        self._fit([*target], None, name, place)
        field = None if target[0] == OURS else field_of(target)
        self.facts[target] = replace(place, value=self._fit(value, field, name, place))
        return True

    def take_members(self, source: SourceValue, table: Mappings, *to: str) -> None:
        """Take members of one object of a source, by its table of mappings.

        Args:
            source: The object.
            table: What becomes of which member.
            to: Where its members go: of the card, or of one skill.
        """
        for member, paths in table.items():
            target = (*to, *member.split("."))
            kind = _KEPT.get(member) or field_of(target).expected[0]
            if member in _KEPT:
                target = (OURS, *target)
            for value in (source.get(*path.split()) for path in paths):
                if kind is str:
                    self.take(target, value.text(), value)
                elif kind is list:
                    self.take(target, [*value.texts()], value)
                else:
                    self.take(target, value.read(kind), value)

    def take_skill(
        self,
        skill: str,
        place: SourceValue,
        *,
        name: str | None = None,
        tags: Sequence[str] = (),
        tagged: SourceValue | None = None,
        tool: str | None = None,
    ) -> None:
        """Take what every skill has. Tags are unique without case, and never empty.

        A `tool` is a skill too; without a description it gets a sentence.
        """
        folded: dict[str, Json] = {}
        for tag in tags or ["skill" if tool is None else "tool"]:
            folded.setdefault(tag.casefold(), tag)
        self.take(("skills", skill, "id"), skill, place)
        self.take(("skills", skill, "name"), name or skill, place)
        self.take(("skills", skill, "tags"), [*folded.values()], tagged or place)
        if tool is not None:
            self.take(("skills", skill, "description"), f"Can use the {tool} tool", place)

    def take_listed_skill(self, skill: str, source: SourceValue) -> None:
        """Take a skill of a list or a file, with the place of each member."""
        self.take_members(source, SKILL, "skills", skill)
        categories, tags = source.texts("category"), source.texts("tags")
        tagged = source.get("category" if categories else "tags")
        self.take_skill(skill, source.get("name"), tags=categories + tags, tagged=tagged)

    def take_authentication(self, source: SourceValue) -> None:
        """Add the schemes of an `authentication`, and its requirements if there are none yet."""
        try:
            schemes, requirements = authentication_schemes(source.value)
        except CardRefused as refused:
            raise source.refuse_as(refused) from refused
        for name, scheme in schemes.items():
            self.take(("securitySchemes", name), scheme, source)
        self.take(("securityRequirements",), requirements, source)

    def take_prompt(self, prompt: SourceValue) -> None:
        """Take a missing description from a prompt's first sentence, if that was asked for."""
        words = " ".join((prompt.text() or "").split()) if self.options.prompt_excerpt else ""
        sentence, stop, _ = words.partition(". ")
        text = cut(sentence + stop.strip())
        if self.take(("description",), text, prompt):
            self.note("build.prompt", f"taken from the prompt: {text!r}", prompt)

    def fill_version(self, place: SourceValue) -> None:
        """Take 0.0.0 where no source has a version."""
        if self.take(("version",), "0.0.0", FILLED):
            self.note("build.filled", "no source has a version; filled in: 0.0.0", place)

    def note(self, code: str, message: str, place: SourceValue) -> None:
        """Add a note for the user."""
        self.notes.append(Finding(code, message, Place(str(place))))

    def value(self, *target: str) -> Json:
        """Return what was taken for a member; None where nothing was."""
        return self.facts[target].value if target in self.facts else None

    def document(self) -> dict[str, Json]:
        """Return the card of A2A 1.0 that the facts make; what is a part wins over the whole."""
        card: dict[str, Any] = {}
        for target in sorted(self.facts, key=rank):
            *above, last = target
            owner, value = card, self.value(*target)
            for token in above:
                owner = owner.setdefault(token, {})
            owner[last] = {**value, **owner.get(last, {})} if isinstance(value, dict) else value
        if "skills" in card:
            card["skills"] = list(card["skills"].values())
        return with_kept(card, card.pop(OURS, {}))

    def _fit(self, value: Json, field: Field | None, name: str, place: SourceValue) -> Json:
        """Return the value as its field allows it, without what the schema does not have."""
        if field is not None and not isinstance(value, field.expected[0]):
            raise place.refuse("build.type", f"{name}: expected {field.expected[1]}")
        part = None  # the field of what a list or map holds; without one it may be anything
        if field is not None and field.shape != "one":
            part = replace(field, shape="one", expected=field.element)
        if isinstance(value, list):
            return [self._fit(item, part, f"{name}[{at}]", place) for at, item in enumerate(value)]
        if isinstance(value, dict):
            self._fit([*value], None, name, place)  # names are as public as values
            if field is None or part is not None or field.message is None:
                return {key: self._fit(value[key], part, f"{name}.{key}", place) for key in value}
            fields = field.message.fields
            for member in value:
                if member not in fields:
                    self.note("build.left_out", f"{name}.{member} is not part of A2A 1.0", place)
            return {
                member: self._fit(value[member], field, f"{name}.{member}", place)
                for member, field in fields.items()
                if value.get(member) is not None
            }
        if isinstance(value, str) and _USERINFO.match(value):
            text = f"{name}: a URL holds a user name or a password, and a card is public"
            raise place.refuse("build.unsupported", text, hint="Write the URL without it.")
        return value


def rank(target: Target) -> tuple[int, str, int]:
    """Return the place in the order of the schema, skills by id, schemes by name, ours last."""
    first, *rest = target
    place = [*CARD_1_0.fields, OURS].index(first)
    if first == "skills":
        return place, rest[0], [*SKILL_1_0.fields].index(rest[1])
    return place, rest[0] if rest and first == "securitySchemes" else "", 0


def field_of(target: Target) -> Field:
    """Return the field of the schema that a target names.

    Raises:
        KeyError: There is none.
    """
    field = CARD_1_0.fields[target[0]]
    for name in target[1:]:
        if field.shape == "map" or (field.shape == "list" and field.name == "skills"):
            field = replace(field, shape="one", expected=field.element)
        elif field.shape == "list" or field.message is None:
            raise KeyError(name)
        else:
            field = field.message.fields[name]
    return field


# Options, and kinds of sources.


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
        settings: Those of a project, where these options say nothing.
        live: What MCP servers answered, taken after all sources; see :mod:`cardsign.build.live`.
    """

    a2a: A2aVersion | str | None = None
    base_url: str | None = None
    url: str | None = None
    members: Mapping[str, str] = field(default_factory=dict)
    agent: str | None = None
    prompt_excerpt: bool = False
    settings: BuildSettings = field(default_factory=BuildSettings)
    live: tuple[SourceValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of source: how it is recognised, and how its facts are taken.

    Attributes:
        name: As in ``KIND:PATH``.
        take: Takes the facts of all sources of the kind, in the order given.
        is_file: Whether a document that was read is of this kind.
        folder: A file that a folder of the kind has; ``*`` may stand for a name.
        mark: What that file holds somewhere, if files of other tools have such names.
        a2a: The form that its cards have unless another is asked for.
        modes: What input and output modes default to.
        path: What follows the base URL.
    """

    name: str
    take: Callable[[Sequence[Path], Draft], None]
    is_file: Callable[[SourceValue], bool]
    folder: tuple[str, ...] = ()
    mark: bytes = b""
    a2a: A2aVersion = "1.0"
    modes: tuple[str, ...] = ("text/plain",)
    path: Callable[[Draft], str] = lambda _: ""
