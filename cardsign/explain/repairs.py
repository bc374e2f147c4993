"""The bounded search for what a signature was made over, where it fits nothing that is there.

A signature does not reveal the signer's payload. But the usual mistakes are few: one member
more or less than was signed, a default that one side writes out and the other leaves away, and
JSON that is not canonical. Each is undone in turn and the signature checked against what comes
out; one that fits is a proof, and nothing short of it is reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice, product
from typing import Any, Final, Literal, TypeAlias, get_args

from cardsign.card.canonical import PROFILES, Payload, Payloads, canonicalize
from cardsign.card.document import parse_card, unsigned
from cardsign.card.schema import CARD_0_3, CARD_1_0, Field, Message
from cardsign.card.serialize import jcs
from cardsign.card.spots import walk
from cardsign.card.tree import Source
from cardsign.card.values import Json, children_of, count_values, elements_of, pointer
from cardsign.errors import CanonicalizationError, JsonRefused, SignatureRefused
from cardsign.explain.report import Edit, Signed, shown
from cardsign.jose.jws import Entry, check_entry
from cardsign.jose.keys import PublicKey

# The ways in which signers write JSON that is not canonical: the mistakes of old SDKs.


Order = Literal["utf-16", "code points", "as received"]
Characters = Literal["as they are", "ascii", "html", "slashes"]
Numbers = Literal["ecmascript", "python", "floats"]
Spacing = Literal["none", "spaces"]

_SAYING: Final[dict[str, str]] = {
    "code points": "members in the order of code points, not of UTF-16 units",
    "as received": "members in the order received, not sorted",
    "ascii": "all but ASCII as \\u escapes, as Python's json and others write it",
    "html": "<, > and & as \\u escapes, as Go's encoding/json writes them",
    "slashes": "/ as \\/ and all but ASCII as \\u escapes, as PHP writes them",
    "python": "numbers as Python prints them, such as 1.0 and 1e-07",
    "floats": "every number as a Python float, such as 1.0 for 1",
    "spaces": "a space after each comma and colon, as Python's json writes by default",
}
_HTML: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write a JSON value; all defaults together are RFC 8785."""

    order: Order = "utf-16"
    characters: Characters = "as they are"
    numbers: Numbers = "ecmascript"
    spacing: Spacing = "none"

    @property
    def deviations(self) -> tuple[str, ...]:
        """In what it deviates from RFC 8785, in words; empty for RFC 8785 itself."""
        chosen = (getattr(self, field.name) for field in fields(self))
        return tuple(_SAYING[one] for one in chosen if one in _SAYING)

    def deviations_in(self, value: Json) -> tuple[str, ...]:
        """Those of them that this value shows: without one of them its bytes would be others."""
        plainest = self
        for field in fields(self):
            default: dict[str, Any] = {field.name: field.default}
            plainer = replace(plainest, **default)
            if plainer.write(value) == self.write(value):
                plainest = plainer
        return plainest.deviations

    def write(self, value: Json) -> bytes:
        """The bytes, in UTF-8; `value` came through the strict reader."""
        return self._spelt(value).encode("utf-8")

    def _spelt(self, value: Json) -> str:
        comma, colon = (", ", ": ") if self.spacing == "spaces" else (",", ":")
        if isinstance(value, dict):
            names = list(value)
            if self.order != "as received":
                by_units: Callable[[str], bytes] = lambda name: name.encode("utf-16-be")  # noqa: E731
                names.sort(key=by_units if self.order == "utf-16" else None)
            members = (self._text(name) + colon + self._spelt(value[name]) for name in names)
            return "{" + comma.join(members) + "}"
        if isinstance(value, list):
            return "[" + comma.join(map(self._spelt, value)) + "]"
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return json.dumps(value)
        if self.numbers == "ecmascript":
            return jcs(value).decode("ascii")
        return repr(float(value) if self.numbers == "floats" else value)

    def _text(self, text: str) -> str:
        if self.characters == "html":
            return json.dumps(text, ensure_ascii=False).translate(_HTML)
        if self.characters == "slashes":
            return json.dumps(text).replace("/", "\\/")
        return json.dumps(text, ensure_ascii=self.characters == "ascii")


_CHOICES: Final = (get_args(Order), get_args(Characters), get_args(Numbers), get_args(Spacing))
_ALL: Final = tuple(Spelling(*chosen) for chosen in product(*_CHOICES))
#: All of them but RFC 8785, those with the fewest deviations first.
SPELLINGS: Final = tuple(
    sorted((one for one in _ALL if one.deviations), key=lambda one: len(one.deviations))
)
#: What the standard libraries of Python, JavaScript and Go write, with sorted members and without.
COMMON: Final = (
    Spelling("as received"),
    Spelling("code points", "ascii", "python"),
    Spelling("code points", "ascii", "python", "spaces"),
    Spelling("as received", "ascii", "python", "spaces"),
    Spelling("code points", "html"),
)


# A card with one thing less, or one thing more: the edits that the search tries.


Edited: TypeAlias = "tuple[Edit, dict[str, Json]]"
_Absent: Final = object()

#: What the models of 0.3 SDKs put in where the card says nothing.
_DEFAULTS_0_3: Final = {"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}


def single_edits(document: Mapping[str, Json], *, is_0_3: bool) -> Iterator[Edited]:
    """Every card that is one member or element less than this one, or one default more.

    Args:
        document: The card as received; its `signatures` are left out.
        is_0_3: Whether members of A2A 0.3 are put in; those of 1.0 are otherwise.

    Yields:
        What was received in place of what would have been signed, and the card that would
        have been. First what is left out, in document order, then REQUIRED members at their
        default, then the others.
    """
    card = unsigned(document)
    for spot in walk(card):
        yield Edit(spot.pointer, None, shown(spot.value)), _changed(card, spot.tokens, _Absent)
    schema = CARD_0_3 if is_0_3 else CARD_1_0
    absent = list(_absent(card, schema, ()))
    for wanted in (True, False):
        for above, field, default in absent:
            if field.required is wanted:
                tokens = (*above, field.name)
                yield Edit(pointer(*tokens), shown(default), None), _changed(card, tokens, default)


def _absent(
    value: Json, message: Message, tokens: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Field, Json]]:
    """Members that an object of the schema might have besides, and their defaults."""
    if not isinstance(value, dict):
        return
    for name, field in message.fields.items():
        child = value.get(name, value.get(field.snake_name))
        if name in value or field.snake_name in value:
            if field.message is None:
                continue
            where = (*tokens, name if name in value else field.snake_name)
            if field.shape == "one":
                yield from _absent(child, field.message, where)
            else:
                for token, below in children_of(child):
                    yield from _absent(below, field.message, (*where, str(token)))
        elif not field.oneof and name != "signatures":
            yield tokens, field, _default(field, tokens, message)


def _default(field: Field, tokens: tuple[str, ...], message: Message) -> Json:
    if message is CARD_0_3 and not tokens and field.name in _DEFAULTS_0_3:
        return _DEFAULTS_0_3[field.name]
    if field.shape != "one":
        return [] if field.shape == "list" else {}
    if field.kind == "bool":
        return False
    return "" if field.kind == "string" else {}


def _changed(value: Json, tokens: tuple[str, ...], put: Any) -> Any:
    """A copy with another value at a place, or with none; what the way does not touch is shared."""
    copy: Any = dict(value) if isinstance(value, dict) else list(elements_of(value))
    at = tokens[0] if isinstance(value, dict) else int(tokens[0])
    if len(tokens) > 1:
        copy[at] = _changed(copy[at], tokens[1:], put)
    elif put is _Absent:
        del copy[at]
    else:
        copy[at] = put
    return copy


#: Signature checks for one card, shared by its signatures; one takes 0.1 ms. One signature on a
#: card of 3 KiB needs some 700 to go through everything.
MAX_TRIES: Final = 2_000
#: Bytes read for one card, to make payloads and to check signatures over them. To make one costs
#: :data:`VALUE_BYTES` more for each JSON value of the card: many small values cost the most.
#: Beyond cards of some 2 KiB this limit ends the search.
MAX_READ_BYTES: Final = 8 * 1024 * 1024
VALUE_BYTES: Final = 100


@dataclass(slots=True, eq=False)
class Suspect:
    """A well-formed signature by a known key that fits no payload of the card.

    Attributes:
        entry: The signature.
        key: The key that its kid names.
        signed: What it was made over, once that is found.
        tried: How many payloads the search checked it against.
        exhausted: All that the search knows was tried in vain.
    """

    entry: Entry
    key: PublicKey
    signed: Signed | None = None
    tried: int = 0
    exhausted: bool = False

    def fits(self, payload: bytes) -> bool:
        """Whether the signature was made over these bytes."""
        try:
            check_entry(self.entry, payload, self.key)
        except SignatureRefused:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Candidate:
    """Bytes that a signer may have signed, and what tells them from the card's payloads.

    Attributes:
        payload: Made by a profile, from the card or from an edit of it.
        data: Its bytes, as the profile or as a spelling writes them.
        spelling: The spelling; None for the profile's own bytes.
        change: The edit, if there is one.
    """

    payload: Payload
    data: bytes
    spelling: Spelling | None = None
    change: Edit | None = None

    @property
    def deviations(self) -> tuple[str, ...]:
        """In what the bytes are written otherwise than the profile writes them."""
        return () if self.spelling is None else self.spelling.deviations_in(self.payload.value)

    @property
    def signed(self) -> Signed:
        """The candidate as a finding, once a signature fits it."""
        changes = () if self.change is None else (self.change,)
        return Signed("search", self.payload.profile, self.deviations, changes)


def search(payloads: Payloads, suspects: Iterable[Suspect], *, is_0_3: bool) -> None:
    """Look for what each signature was made over; stops when all are found, or at the limits.

    What is found is noted on the suspects.

    Args:
        payloads: Those of the card as received, read strictly.
        suspects: The signatures; of the card's own payloads they are known to fit none.
        is_0_3: Whether to try defaults of A2A 0.3 rather than of 1.0.
    """
    left = list(suspects)
    as_received = made_by(payloads)
    seen = {payload.data for payload in as_received}
    size = max(map(len, seen)) + VALUE_BYTES * count_values(payloads.members)
    tries = bytes_read = 0
    for candidate in _candidates(payloads.members, as_received, is_0_3=is_0_3):
        bytes_read += size
        if not left or bytes_read > MAX_READ_BYTES or tries + len(left) > MAX_TRIES:
            break
        if candidate.data in seen:
            continue
        seen.add(candidate.data)
        for one in left:
            one.tried += 1
            one.signed = candidate.signed if one.fits(candidate.data) else None
        tries += len(left)
        bytes_read += len(left) * len(candidate.data)
        left = [one for one in left if one.signed is None]
    else:
        for one in left:
            one.exhausted = True


def made_by(payloads: Payloads) -> tuple[Payload, ...]:
    """The card's payload under each profile that has one."""
    return tuple(payload for profile in PROFILES if (payload := payloads.of(profile)))


def respelt(payloads: Iterable[Payload], spellings: Iterable[Spelling]) -> Iterator[Candidate]:
    """Payloads written otherwise than their profiles do, the likeliest spellings first."""
    distinct: dict[str, Payload] = {}
    for payload in payloads:
        distinct.setdefault(json.dumps(payload.value), payload)
    for spelling in spellings:
        for payload in distinct.values():
            yield Candidate(payload, spelling.write(payload.value), spelling)


def _candidates(
    document: Mapping[str, Json], as_received: Sequence[Payload], *, is_0_3: bool
) -> Iterator[Candidate]:
    """All that the search knows, cheapest first; the same bytes may come again."""
    yield from respelt(as_received, COMMON)
    for change, card in single_edits(document, is_0_3=is_0_3):
        for payload in made_by(Payloads(card)):
            yield Candidate(payload, payload.data, None, change)
    yield from respelt(as_received, SPELLINGS)
    # Who does not write canonical JSON prunes nothing either, but for the SDKs whose writing is
    # part of their profile.
    for change, card in single_edits(document, is_0_3=is_0_3):
        for one in respelt([canonicalize(card, "served-as-is")], COMMON):
            yield Candidate(one.payload, one.data, one.spelling, change)


# A true difference of two JSON values, and of a card from a file that is said to be the signed one.

MAX_CHANGES: Final = 100  # listed; beyond that the two are different cards
_Difference: TypeAlias = "tuple[Source, Any, Any]"


def differences(signed: Json, received: Json) -> Iterator[Edit]:
    """The topmost values that differ, in the order of `signed`, then what `received` adds.

    Lists are compared by place, from both ends, so that one element more or less is one
    difference. Numbers are equal if their values are: 1 and 1.0 are, 1 and true are not.
    """
    for source, *values in differing(signed, received, Source()):
        before, after = (None if value is _Absent else shown(value) for value in values)
        yield Edit(source.pointer, before, after)


def differing(signed: Json, received: Json, at: Source) -> Iterator[_Difference]:
    """The same with the values themselves."""
    before: Any
    after: Any
    if isinstance(signed, dict) and isinstance(received, dict):
        before, after = signed, received
    elif isinstance(signed, list) and isinstance(received, list):
        shorter = min(len(signed), len(received))
        head = tail = 0
        while head < shorter and _is_same(signed[head], received[head]):
            head += 1
        while tail < shorter - head and _is_same(signed[-1 - tail], received[-1 - tail]):
            tail += 1
        before, after = (
            dict(enumerate(one[head : len(one) - tail], head)) for one in (signed, received)
        )
    else:
        if not _is_same(signed, received):
            yield at, signed, received
        return
    for token in before | after:
        if token in before and token in after:
            yield from differing(before[token], after[token], Source(at, token))
        else:
            yield Source(at, token), before.get(token, _Absent), after.get(token, _Absent)


def _is_same(one: Json, other: Json) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[n], other[n]) for n in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def compare(
    untrusted_bytes: bytes, received: Mapping[str, Json], suspects: Iterable[Suspect]
) -> None:
    """Note of each signature what it was made over, if a file holds it, and how that differs.

    Args:
        untrusted_bytes: The card as its issuer claims to have signed it, or the payload
            itself; nothing in it makes this function raise.
        received: The card that carries the signatures.
        suspects: Those that fit nothing of it.
    """
    card = unsigned(received)
    try:
        document: dict[str, Json] | None = parse_card(untrusted_bytes)
    except JsonRefused:
        document = None
    payloads = made_by(Payloads(document)) if document is not None else ()
    candidates = [*(Candidate(one, one.data) for one in payloads), *respelt(payloads, COMMON)]

    def as_it_is() -> Signed:
        """The file itself was signed: its difference from the nearest payload of the card."""
        if document is None:
            return Signed("against", None)
        values = [one.value for one in made_by(Payloads(card))] or [card]
        found = [_listed_changes(document, value) for value in values]
        return Signed("against", None, (), *min(found, key=lambda one: len(one[0]) + one[1]))

    def as_made(number: int) -> Signed:
        payload = candidates[number].payload
        try:
            value = canonicalize(card, payload.profile).value
        except CanonicalizationError:
            value = card
        changes = _listed_changes(payload.value, value)
        return Signed("against", payload.profile, candidates[number].deviations, *changes)

    told: dict[int | None, Signed] = {}  # by candidate, and None for the file itself
    for one in suspects:
        fitting = (at for at, each in enumerate(candidates) if one.fits(each.data))
        number = None if one.fits(untrusted_bytes) else next(fitting, -1)
        if number == -1:
            continue
        if number not in told:
            told[number] = as_it_is() if number is None else as_made(number)
        one.signed = told[number]


def _listed_changes(signed: Json, received: Json) -> tuple[tuple[Edit, ...], int]:
    """The first `MAX_CHANGES`, and how many more there are."""
    found = differences(signed, received)
    return tuple(islice(found, MAX_CHANGES)), sum(1 for _ in found)
