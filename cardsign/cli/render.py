"""A verdict for a person: what is true, what is not, what to do next.

The subject comes first, in the policy's own words; what the card says of itself is marked as
its own words and escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cardsign.card.strictjson import Json
from cardsign.cli.talk import safe
from cardsign.reasons import Reason
from cardsign.verdict import Report, SignatureReport

_QUESTIONS: Final = {
    "integrity": "are the bytes as they were signed?",
    "authorised": "may the key speak for the subject, and for these endpoints?",
    "current": "is it known that the card is not revoked or outdated?",
    "complete": "is everything in the card signed?",
}
_MAX_REASONS: Final = 12  # lines; --json has them all


def render_verdict(name: str, report: Report) -> str:
    """Several lines of text, without a newline at the end."""
    return "\n".join(_lines(name, report))


def _lines(name: str, report: Report) -> Iterator[str]:
    yield f"{report.verdict}: {safe(name)}"
    yield f"  subject     {safe(report.subject) if report.subject else 'nobody was named'}"
    if report.card is not None:
        yield f"  card says   {_claims(report.card)}"
    for question, answer in report.answers.to_json().items():
        yield f"  {question:<11} {answer:<8} {_QUESTIONS[question]}"
    for signature in report.signatures:
        yield f"  signature {signature.index} {_signature(signature)}"
    grouped = _grouped(report.reasons)
    for reason, paths in grouped[:_MAX_REASONS]:
        yield from _reason(reason, paths)
    if len(grouped) > _MAX_REASONS:
        yield f"  and {len(grouped) - _MAX_REASONS} more; see --json"


def _grouped(reasons: tuple[Reason, ...]) -> list[tuple[Reason, list[str]]]:
    """Reasons that differ in their place alone, said once."""
    places: dict[tuple[str, str], tuple[Reason, list[str]]] = {}
    for reason in reasons:
        _, paths = places.setdefault((reason.code, reason.message), (reason, []))
        paths.append(reason.path)
    return list(places.values())


def _claims(card: dict[str, Json]) -> str:
    name, version = (safe(str(card.get(member, ""))) for member in ("name", "version"))
    return f'"{name}", version {version or "not given"}'


def _signature(signature: SignatureReport) -> str:
    kid = safe(signature.kid, limit=64) if signature.kid is not None else "no kid"
    profiles = f" under {', '.join(signature.profiles)}" if signature.profiles else ""
    counts = "" if signature.counts else ", does not count"
    return f"{signature.verdict} ({signature.alg or 'no alg'}, {kid}){profiles}{counts}"


def _reason(reason: Reason, paths: list[str]) -> Iterator[str]:
    shown = safe(reason.message, limit=300)
    # The message names the place already where it is about a part of the card.
    places = [safe(path, limit=120) for path in paths if path and safe(path) not in shown]
    where = f" ({', '.join(places)})" if places else ""
    yield f"  {reason.code}: {shown}{where}"
    if reason.hint:
        yield f"      {reason.hint}"
