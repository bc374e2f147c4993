"""Explanation: what a card's signatures cover, and why one does not fit. No verdict is given.

:func:`explain_card` says for each signature which profiles it fits, where our own profiles
part and at which member, and whether one that fits nothing was made over the card in a known
spelling that is not canonical. What a named SDK would say is predicted and labelled so.

What is *not* said: that a card is trusted. That takes a subject and a policy
(:mod:`cardsign.verify`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations, zip_longest
from typing import Any, Final, TypeAlias

from cardsign.card.canonical import DEFAULT_PROFILES, PROFILES, Payload, Payloads, ProfileName
from cardsign.card.coverage import left_open
from cardsign.card.document import (
    MAX_SIGNATURES,
    A2aVersion,
    Card,
    has_too_many_values,
    parse_card,
    unsigned,
)
from cardsign.card.profiles.verifiers import VERIFIERS, SdkVerifier
from cardsign.card.strictjson import MAX_CARD_BYTES, MAX_DEPTH
from cardsign.card.tree import Node, Source, read, sources_held, write
from cardsign.card.values import (
    Json,
    children_of,
    elements_of,
    is_deeper,
    jcs,
    members_of,
    value_at,
)
from cardsign.errors import (
    CanonicalizationError,
    CardRefused,
    JsonRefused,
    SignatureRefused,
)
from cardsign.explain.report import (
    Explanation,
    HeldAt,
    Parting,
    PredictedOutcome,
    Prediction,
    ProfilePayload,
    SignatureExplanation,
    lines_around,
    members_around,
    shown,
)
from cardsign.explain.spellings import SPELLINGS, find_spellings
from cardsign.findings import Finding, Place, describe_code
from cardsign.jose.jwks import JwkSet
from cardsign.jose.jws import decode_part, header_members
from cardsign.lint.portability import find_unportable
from cardsign.lint.rules import LintedCard
from cardsign.trust.policy import Holder, Limits, Policy
from cardsign.trust.resolve import resolve_issuer
from cardsign.trust.supplied import NO_STATEMENTS
from cardsign.verify.signature import examine_signature

#: Entries of `signatures` that are explained; four times as many as a verifier looks at, so that
#: a card with some too many is explained whole.
MAX_LISTED: Final = 4 * MAX_SIGNATURES

_USUAL: Final = frozenset({"alg", "kid", "typ", "jku"})  # what A2A 1.0 8.4.2 names
_HOLDER: Final = "the holder of the keys named"
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
#: What crewAI's signatures are refused for, whatever they fit: typ JWS, and a kid that the
#: unprotected header repeats.
_CREWAI: Final = frozenset({"sig.typ_forbidden", "sig.header_overlap"})
# Said of what a card leaves open or is; this is about what its signatures are.
_ABOUT_THE_CARD: Final = ("coverage.", "extended.")


def explain_card(untrusted_bytes: bytes, *, jwks: JwkSet | None, name: str = "") -> Explanation:
    """Explain a card and its signatures.

    Args:
        untrusted_bytes: The card as received, before any conversion.
        jwks: The keys by which signatures are checked; without them nothing can be said of
            which payload one fits.
        name: For the report.

    Returns:
        The explanation. Nothing in the card makes this function raise.
    """
    document, begun = _read(untrusted_bytes)
    begun = replace(begun, name=name)
    if document is None:
        return begun
    known = Payloads(document)
    try:
        jcs(known.members)
    except CanonicalizationError as refusal:  # read on, past a number that no double holds
        known = Payloads(document, refusal)
    payloads = {name: known.payload_or_refusal(name) for name in PROFILES}
    made = {name: one for name, one in payloads.items() if isinstance(one, Payload)}
    entries = elements_of(document.get("signatures"))[:MAX_LISTED]
    signatures = tuple(_signatures(entries, known, made, jwks))
    if jwks is not None and made:
        # Around an ambiguous text there is nothing to search.
        most = 0 if begun.read_on else MAX_SIGNATURES
        signatures = _with_spellings(signatures, entries, known, jwks, most=most)
    default = [made[name] for name in DEFAULT_PROFILES if name in made]
    partings, partings_left_out = _partings(known, default)
    predictable = jwks is not None and begun.a2a_version is not None and not begun.read_on
    all_listed = not begun.signatures_left_out
    return replace(
        begun,
        portable=len(default) == len(DEFAULT_PROFILES) and not partings,
        profiles=tuple(_profiles(payloads)),
        partings=partings,
        partings_left_out=partings_left_out,
        signatures=signatures,
        predictions=tuple(
            _predict(document, payloads, signatures, all_listed=all_listed) if predictable else ()
        ),
    )


# ------------------------------------------------------------------ payloads


def _profiles(
    payloads: Mapping[ProfileName, Payload | CanonicalizationError],
) -> Iterator[ProfilePayload]:
    first: dict[bytes, str] = {}
    for name, payload in payloads.items():
        if isinstance(payload, CanonicalizationError):
            yield ProfilePayload(name, refusal=payload.finding)
            continue
        same_as = first.setdefault(payload.data, name)
        found = left_open(payload).listed
        yield ProfilePayload(
            name,
            size=len(payload.data),
            sha256=payload.sha256,
            same_as=same_as if same_as != name else None,
            uncovered=found.pointers,
            uncovered_count=found.count,
        )


# ------------------------------------------------------------------ partings

# Where the payloads of our default profiles differ, and which member is responsible.

MAX_PARTINGS: Final = 50  # members; a person fixes the first few, and --json is read by tools

_ABSENT: Final = object()

_Tokens: TypeAlias = tuple[str, ...]
_Pattern: TypeAlias = tuple[int, ...]


class _Reading:
    """What one payload made of the received values.

    Under which names it holds a value is a number that stands for the names from the root,
    whatever the indices between them. `patterns` has the numbers, and all readings share it.
    """

    def __init__(
        self, payload: Payload, tree: Node, patterns: dict[tuple[_Pattern, str], _Pattern]
    ) -> None:
        self.payload = payload
        self._tree = payload.rewritten or tree
        self._held = sources_held(self._tree)  # or anything below them
        self._names: dict[Source, _Pattern] = {}
        pending: list[tuple[Node, _Pattern]] = [(self._tree, (0,))]
        while pending:
            node, pattern = pending.pop()
            if node.source is not None:
                others = self._names.get(node.source)  # most have one place, and share a tuple
                self._names[node.source] = tuple(sorted(others + pattern)) if others else pattern
            for token, child in node.children():
                name = token if isinstance(token, str) else "*"
                below = patterns.setdefault((pattern, name), (len(patterns) + 1,))
                pending.append((child, below))

    def fate(self, source: Source) -> _Pattern | None:
        """Under which names it holds a value; () if only something inside of it."""
        found = self._names.get(source)
        return found if found is not None else () if source in self._held else None

    def held_at(self, wanted: Sequence[Source]) -> dict[Source, HeldAt | None]:
        """Where it holds some values, and what it holds there."""
        found: dict[Source, list[tuple[Source, Node]]] = {source: [] for source in wanted}
        pending = [(Source(), self._tree)]
        while pending:
            at, node = pending.pop()
            if node.source in found:
                found[node.source].append((at, node))
            pending.extend((Source(at, token), child) for token, child in node.children())
        places: dict[Source, HeldAt | None] = {}
        for source, held in found.items():
            if held:
                held.sort(key=lambda one: one[0].pointer)
                pointers = tuple(at.pointer for at, _ in held)
                places[source] = HeldAt(pointers, shown(write(held[0][1])))
            else:
                places[source] = None if self.fate(source) is None else HeldAt((), "")
        return places


def _partings(received: Payloads, payloads: Sequence[Payload]) -> tuple[tuple[Parting, ...], int]:
    """The members at which payloads of one card part, and how many more than are listed.

    There are none exactly if all payloads have the same bytes.
    """
    if len({payload.data for payload in payloads}) < 2:
        return (), 0
    patterns: dict[tuple[_Pattern, str], _Pattern] = {}
    readings = [_Reading(payload, received.tree, patterns) for payload in payloads]
    parted, made_up = list(_parted(received.tree, readings)), list(_made_up(received, readings))
    left_out = max(0, len(parted) + len(made_up) - MAX_PARTINGS)
    named = {source: tuple(map(str, source.tokens)) for source in parted[:MAX_PARTINGS]}
    findings = _findings_about({*named.values()}, find_unportable(LintedCard(received.members)))
    places = {one.payload.profile: one.held_at(tuple(named)) for one in readings}
    listed = []
    for source, tokens in named.items():
        finding = findings.get(tokens)
        rule, why = (finding.code, describe_code(finding.code).title) if finding else ("", "")
        held = {profile: found[source] for profile, found in places.items()}
        around = members_around(received.members, tokens)
        listed.append(Parting(source.pointer, rule, why, held, around))
    for source in made_up[: MAX_PARTINGS - len(listed)]:
        held = {}
        for payload in payloads:
            try:
                value = shown(value_at(payload.value, source.tokens))
                held[payload.profile] = HeldAt((source.pointer,), value)
            except KeyError:
                held[payload.profile] = None
        listed.append(Parting(source.pointer, "", "", held, ()))
    return tuple(listed), left_out


def _parted(node: Node, readings: Sequence[_Reading]) -> Iterator[Source]:
    """Where the payloads part inside a value that all of them hold."""
    for _, child in node.children():
        assert child.source is not None  # noqa: S101 - a received node
        fates = [reading.fate(child.source) for reading in readings]
        if any(fate != fates[0] for fate in fates):
            yield child.source
        elif fates[0] is not None and isinstance(child.value, dict | list):
            yield from _parted(child, readings)


def _made_up(received: Payloads, readings: Sequence[_Reading]) -> Iterator[Source]:
    """Where they part and no member is responsible: something that one profile puts in."""
    distinct = {one.payload.data: one for one in readings}.values()
    seen: set[tuple[str | int, ...]] = set()
    for pair in combinations(distinct, 2):
        if next(_parted(received.tree, pair), None) is not None:
            continue
        for source in _differing(pair[0].payload.value, pair[1].payload.value, Source()):
            if source.tokens not in seen:
                seen.add(source.tokens)
                yield source


def _differing(one: Any, other: Any, at: Source) -> Iterator[Source]:
    """The topmost places at which two values differ; 1 and 1.0 do not, 1 and true do."""
    if isinstance(one, dict) and isinstance(other, dict):
        children = [
            (name, one.get(name, _ABSENT), other.get(name, _ABSENT)) for name in one | other
        ]
    elif isinstance(one, list) and isinstance(other, list):
        pairs = zip_longest(one, other, fillvalue=_ABSENT)
        children = [(index, *pair) for index, pair in enumerate(pairs)]
    else:
        if one != other or isinstance(one, bool) != isinstance(other, bool):
            yield at
        return
    for token, before, after in children:
        yield from _differing(before, after, Source(at, token))


def _findings_about(places: Set[_Tokens], findings: Iterable[Finding]) -> dict[_Tokens, Finding]:
    """What lint says of each place, else of something inside it, else of what it stands in."""
    lengths = {len(tokens) for tokens in places}
    above = {tokens[:length] for tokens in places for length in range(len(tokens))}
    at: dict[_Tokens, Finding] = {}
    inside: dict[_Tokens, Finding] = {}
    for one in findings:
        if one.place.tokens in places or one.place.tokens in above:
            at.setdefault(one.place.tokens, one)
        for length in lengths:
            if length < len(one.place.tokens) and one.place.tokens[:length] in places:
                inside.setdefault(one.place.tokens[:length], one)
    found = {}
    for tokens in places:
        around = (at.get(tokens[:length]) for length in range(len(tokens)))
        if nearest := next(filter(None, (at.get(tokens), inside.get(tokens), *around)), None):
            found[tokens] = nearest
    return found


# ------------------------------------------------------------------ signatures


def _signatures(
    entries: Sequence[Json],
    known: Payloads,
    payloads: Mapping[ProfileName, Payload],
    jwks: JwkSet | None,
) -> Iterator[SignatureExplanation]:
    policy = Policy() if jwks is None else Policy.from_jwks(jwks, name=_HOLDER)
    expect, trust = Holder(), None
    if (issuer := policy.find(expect)) is not None:
        # Pinned keys have no deadlines, so that the time decides nothing.
        trust = resolve_issuer(issuer, Limits(), NO_STATEMENTS, None, now=_ANY_TIME)
    for index, entry in enumerate(entries):
        report = examine_signature(index, entry, known, expect=expect, policy=policy, trust=trust)
        # A signature fits one byte string, and so all the profiles that make it.
        fitted = payloads[report.profile].data if report.profile else None
        yield SignatureExplanation(
            index,
            _header(entry),
            report.verdict,
            tuple(name for name, payload in payloads.items() if payload.data == fitted),
            tuple(one for one in report.reasons if not one.code.startswith(_ABOUT_THE_CARD)),
        )


def _header(untrusted_entry: Json) -> dict[str, Json] | None:
    """The protected header, whatever it says; None where there is none that can be read."""
    protected = members_of(untrusted_entry).get("protected")
    if not isinstance(protected, str):
        return None
    try:
        return header_members(protected)
    except SignatureRefused:
        return None


def _with_spellings(
    signatures: Sequence[SignatureExplanation],
    entries: Sequence[Json],
    known: Payloads,
    jwks: JwkSet,
    *,
    most: int,
) -> tuple[SignatureExplanation, ...]:
    """Say of signatures that fit nothing how the card was written when they were made.

    At most as many entries as `most` are tried.
    """
    completed = {one.index: one for one in signatures}
    checks: dict[int, Callable[[bytes], None]] = {}
    for index, signature in enumerate(signatures):
        is_refused = any(one.code in _CREWAI for one in signature.reasons)
        entry, header = members_of(entries[index]), signature.header or {}
        key = jwks.find(str(header.get("kid")))
        if signature.verdict != "invalid" and not is_refused:
            continue
        if key is None or header.get("alg") != key.alg:
            continue
        data = decode_part(str(entry["signature"]), "signature")
        try:
            key.check_length(data)
        except SignatureRefused as refusal:  # by its length it could not fit anything
            reason = refusal.finding.at(f"/signatures/{index}{refusal.path}")
            reasons = signature.reasons if is_refused else (reason,)
            completed[index] = replace(signature, reasons=reasons)
            continue
        if index < most:
            checks[index] = partial(key.check, str(entry["protected"]), signature=data)
    fitting = find_spellings(checks, known.members)
    for index in checks:
        if (spelling := fitting.get(index)) is not None:
            completed[index] = replace(
                completed[index], spelling=spelling.name, advice=spelling.advice
            )
        elif completed[index].verdict == "invalid":
            completed[index] = replace(completed[index], spellings_tried=len(SPELLINGS))
    return tuple(completed.values())


# ------------------------------------------------------------------ predictions

# What verifiers of other make would say: predicted from measured behaviour, nobody is asked. Where
# a card has something that an SDK treats in an odd way, the outcome is `unknown`, never a guess.


def _predict(
    document: Mapping[str, Json],
    payloads: Mapping[ProfileName, Payload | CanonicalizationError],
    signatures: Sequence[SignatureExplanation],
    *,
    all_listed: bool,
) -> Iterator[Prediction]:
    """Each verifier's outcome, if it accepts the keys by which `signatures` was examined."""
    for verifier in VERIFIERS:
        outcome, because = _outcome(verifier, document, payloads[verifier.profile], signatures)
        if outcome == "refused" and not all_listed:
            outcome, because = "unknown", "not all signatures were looked at"
        yield Prediction(verifier.name, verifier.profile, outcome, because)


def _outcome(
    verifier: SdkVerifier,
    document: Mapping[str, Json],
    payload: Payload | CanonicalizationError,
    signatures: Sequence[SignatureExplanation],
) -> tuple[PredictedOutcome, str]:
    odd = next((name for name in _names(document) if verifier.trips_over.fullmatch(name)), None)
    if odd is not None:
        return "unknown", f"the card has a member called {odd}, which it treats in its own way"
    if isinstance(payload, CanonicalizationError):
        if verifier.converts:
            return "unknown", f"it converts what is of a wrong type; {payload.message}"
        parses = _parses(document, verifier.profile)
        return ("refused" if parses else "cannot-parse"), payload.message
    if verifier.wants_content and not payload.value:
        return "refused", "nothing of the card is left to sign"
    unread = [one for one in signatures if one.verdict == "refused" and not one.profiles]
    if any(reason.code == "sig.shape" for one in unread for reason in one.reasons):
        shape = "an entry of `signatures` has the wrong shape, and the rest may go with it"
        return "unknown", shape
    return _of_signatures(verifier, signatures, unread)


def _of_signatures(
    verifier: SdkVerifier,
    signatures: Sequence[SignatureExplanation],
    unread: Sequence[SignatureExplanation],
) -> tuple[PredictedOutcome, str]:
    fitting = [one for one in signatures if verifier.profile in one.profiles]
    typed = [one for one in fitting if not verifier.wants_typ or "typ" in (one.header or {})]
    sure = [one for one in typed if not verifier.any_library or _USUAL.issuperset(one.header or {})]
    doubtful = [
        one for one in unread if all(reason.code != "key.alg_mismatch" for reason in one.reasons)
    ]
    if sure:
        return "accepted", f"signature {sure[0].index} fits {verifier.profile}"
    if doubtful:
        return "unknown", f"signature {doubtful[0].index} is one that we refuse to read"
    if typed:
        return "unknown", f"the header of signature {typed[0].index} has unusual members"
    if fitting:
        return "refused", f"the header of signature {fitting[0].index} has no typ"
    if not signatures:
        return "refused", "the card is not signed"
    return "refused", f"no signature by a known key fits {verifier.profile}"


def _parses(document: Mapping[str, Json], profile: ProfileName) -> bool:
    """Whether a profile reads the card, so that it is only the bytes that it does not have."""
    received, rewrite = Payloads(document), PROFILES[profile]
    received.tree = read(dict(document))  # an SDK reads the signatures, too
    try:
        if rewrite is not None:
            rewrite(received)
    except CanonicalizationError:
        return False
    return True


def _names(document: Mapping[str, Json]) -> Iterator[str]:
    """Every member name, at any depth; those in `signatures` are not the card's."""
    pending: list[Json] = [unsigned(document)]
    while pending:
        value = pending.pop()
        yield from members_of(value)
        pending.extend(child for _, child in children_of(value))


# ------------------------------------------------------------------ reading


def _read(untrusted_bytes: bytes) -> tuple[Mapping[str, Json] | None, Explanation]:
    """Read a card strictly; where that fails say why, and read on as others would.

    The document is None where not even a lenient reader sees an object. The version is None
    where the card is ambiguous or unreadable.
    """
    problems: list[Finding] = []
    context: tuple[str, ...] = ()
    try:
        document: Mapping[str, Json] | None = parse_card(untrusted_bytes)
    except JsonRefused as refusal:
        problems.append(refusal.finding)
        context = lines_around(untrusted_bytes, refusal.finding.place)
        document = _read_leniently(untrusted_bytes)
    if document is None:
        return None, Explanation(None, False, None, tuple(problems), context)
    read_on = bool(problems)
    a2a_version, refusals = _a2a_version(document)
    problems.extend(refusal.finding for refusal in refusals)
    if "signature" in document and not document.get("signatures"):
        message = "the `signature` member is not an A2A signature and is ignored"
        problems.append(Finding("card.single_signature_block", message, Place("/signature")))
    left_out = len(elements_of(document.get("signatures"))[MAX_LISTED:])
    found = tuple(problems), context
    return document, Explanation(a2a_version, read_on, None, *found, signatures_left_out=left_out)


def _a2a_version(document: Mapping[str, Json]) -> tuple[A2aVersion | None, list[CardRefused]]:
    refusals: list[CardRefused] = []
    for form in (document, unsigned(document)):
        try:
            return Card.from_object(form).a2a_version, refusals
        except CardRefused as refusal:
            refusals.append(refusal)
    return None, refusals[:1]  # what is ambiguous is so with signatures or without


def _read_leniently(untrusted_bytes: bytes) -> dict[str, Json] | None:
    """The object that most JSON readers would see: the last of two members, any number.

    For the explanation alone. Nothing that is read so is ever called trusted.
    """
    if len(untrusted_bytes) > MAX_CARD_BYTES:
        return None
    try:
        text = untrusted_bytes.decode("utf-8-sig").lstrip(" \t\r\n")
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or is_deeper(value, MAX_DEPTH):
        return None
    return None if has_too_many_values(value) else value
