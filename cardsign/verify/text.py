"""A verdict for a person, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from cardsign.card.values import Json
from cardsign.findings import Finding, cut
from cardsign.times import second
from cardsign.urls import is_url
from cardsign.verify.report import Report, SignatureReport

_ANSWERS: Final = {
    "integrity": {
        "yes": "the card is as it was signed",
        "no": "no signature fits the card as it is",
        "unknown": "no signature is by a key that you accept",
    },
    "authorised": {
        "yes": "the key may sign for the subject, and every endpoint is within its origins",
        "no": "the key may not sign this card for the subject, or an endpoint is elsewhere",
        "unknown": "not checked, because no signature could be",
    },
    "current": {
        "yes": "the issuer lists this card as current",
        "no": "the key is revoked, or the issuer no longer lists this card as current",
        "unknown": "not known, because there is no valid statement of the issuer",
    },
    "complete": {
        "yes": "everything in the card is signed",
        "no": "not everything in the card is signed as the policy demands",
        "unknown": "not checked, because no signature could be",
    },
}
# It would read like tampering otherwise, which a signature that fits does not show.
_FITS_OTHERWISE: Final = "a signature fits what it covers, but by rules that do not count here"
_OF_ANOTHER_KIND: Final = frozenset(
    {"extended.served_as_public", "extended.not_marked", "extended.audience_mismatch"}
)
_NO_CARD: Final = "the card could not be fetched"
_INSPECT: Final = "cardsign inspect CARD --jwks FILE"
_MAX_DECISIVE: Final = 3  # reasons of a short verdict
_MAX_REASONS: Final = 12  # of a long one; --json has them all


def verdict_lines(
    name: str, report: Report, policy: str = "", *, verbose: bool = False, keys: str | None = None
) -> Iterator[str]:
    """Yield a verdict in a few lines: whose card it is, then what decided.

    Args:
        name: What was judged.
        report: The verdict.
        policy: Which policy decided, where nobody named it; part of the first line.
        verbose: Show the four answers, statements, every signature and every reason as well.
        keys: The file of the keys, where one was named.
    """
    yield first_line(name, report, policy)
    for line in _every_line(report) if verbose else _deciding_lines(report):
        if _INSPECT not in line:
            yield line
            continue
        import shlex  # a trusted card needs no command

        command = f"cardsign inspect {'CARD' if name == '-' else shlex.quote(name)}"
        if not is_url(name):  # of a URL, its origin's keys are asked for
            is_file = keys is not None and not is_url(keys)
            command += f" --jwks {shlex.quote(str(keys)) if is_file else 'FILE'}"
        yield line.replace(_INSPECT, command)


def first_line(name: str, report: Report, policy: str) -> str:
    """What was judged, and the verdict on it."""
    expected = "a card of" if report.verdict == "trusted" else "expected a card of"
    subject = f", {expected} {cut(report.subject)}" if report.subject else ", no subject was named"
    if report.subject == name:
        subject = ""  # of an address that the policy does not know, nothing else can be said
    return f"{report.verdict}: {cut(name)}{subject}" + (policy and f" ({policy})")


def _deciding_lines(report: Report) -> Iterator[str]:
    """Of a trusted card what it calls itself and what was not checked; else what decided."""
    if report.verdict == "trusted":
        ends = report.valid_until
        until = "" if ends is None else f"; until {second(ends, report.checked_at)}"
        yield f"  {_claims(report.card or {})}{until}"
        if report.answers.current != "yes":
            yield f"  current: {_describe(report, 'current', report.answers.current)}"
        if report.all_but is not None:
            yield f"  complete: {cut(report.all_but, 300)}"
    severity = "warning" if report.verdict == "trusted" else "error"
    decisive = [reason for reason in report.reasons if reason.severity == severity]
    yield from _reasons(decisive, _MAX_DECISIVE, "--verbose")


def _every_line(report: Report) -> Iterator[str]:
    if report.issuer is not None:
        yield f"  issuer      {cut(report.issuer)}"
    if report.card is not None:
        yield f"  card says   {_claims(report.card)}"
    for question, answer in report.answers.to_json().items():
        yield f"  {question:<11} {answer:<8} {_describe(report, question, str(answer))}"
    used = {"keyset": report.keyset, "release": report.release}
    statements = [
        f"{name} {entry.number} until {second(entry.exp)}"
        for name, entry in used.items()
        if entry is not None
    ]
    if statements:
        yield f"  statements  {', '.join(statements)}"
    if report.valid_until is not None:
        yield f"  valid until {second(report.valid_until, report.checked_at)}"
    if report.historic and report.checked_at is not None:
        yield f"  historic    about {second(report.checked_at)}, a time of your choice"
    for signature in report.signatures:
        yield f"  signature {signature.index} {_signature(signature)}"
    yield from _reasons(report.reasons, _MAX_REASONS, "--json")


def _describe(report: Report, question: str, answer: str) -> str:
    """An answer in words; "no" to integrity sounds like tampering where it need not be."""
    fitting = any(signature.profile for signature in report.signatures)
    bad = any(signature.verdict == "invalid" for signature in report.signatures)
    codes = {reason.code for reason in report.reasons}
    match question, answer:
        case ("integrity", "no") if fitting and not bad:
            return _FITS_OTHERWISE
        case ("integrity", "unknown") if not report.signatures:
            return _NO_CARD
        case ("authorised", "no") if not codes.isdisjoint(_OF_ANOTHER_KIND):
            return "the card is not of the kind, or not for the audience, that was asked for"
        case ("current", "unknown") if "trust.freshness_waived" in codes and not report.keyset:
            return "not checked (a key set alone cannot show revocation)"
        case ("current", "unknown") if "trust.freshness_waived" in codes:
            return "not checked (your policy waives it)"
        case ("complete", _) if report.all_but is not None:
            return cut(report.all_but, 300)
    return _ANSWERS[question][answer]


def _claims(card: dict[str, Json]) -> str:
    name, version = (cut(str(card.get(member, ""))) for member in ("name", "version"))
    return f'"{name}", version {version or "not given"}'


def _signature(signature: SignatureReport) -> str:
    if signature.alg is None:
        return f"{signature.verdict}, does not count: its header was not accepted"
    kid = cut(signature.kid, 64) if signature.kid is not None else "no kid"
    profile = f" under {signature.profile}" if signature.profile else ""
    counts = "" if signature.counts else ", does not count"
    holder = f", held by {cut(signature.holder)}" if signature.holder else ""
    return f"{signature.verdict} ({signature.alg}, {kid}{holder}){profile}{counts}"


def _reasons(reasons: Iterable[Finding], limit: int, more: str) -> Iterator[str]:
    """Reasons and what to do; those that differ in their place alone are said once."""
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for reason in reasons:
        grouped.setdefault((reason.code, reason.worded), []).append(reason)
    for alike in list(grouped.values())[:limit]:
        shown = cut(alike[0].worded, 300)
        # The message names the place already where it is about a part of the card.
        paths = [
            finding.path for finding in alike if finding.path and cut(finding.path) not in shown
        ]
        where = f" ({', '.join(cut(path, 120) for path in paths)})" if paths else ""
        yield f"  {alike[0].code}: {shown}{where}"
        if alike[0].hint:
            yield f"      {cut(alike[0].hint, 300)}"
    if len(grouped) > limit:
        yield f"  and {len(grouped) - limit} more; see {more}"
