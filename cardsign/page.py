"""A card as one page for people: what a verifier says of it, by which keys, and how to enrol them.

The page comes from where the card comes from, so it proves nothing, and says so. What it says is
what a verifier would say that has pinned the keyset statement shown. There is no script and no
address of others in it. Whatever it shows goes through :func:`as_html`, so the template joins no
texts by itself: filters would escape markup alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from datetime import datetime
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from cardsign.inspect import inspect_card, words
from cardsign.jose.keys import JwkSet
from cardsign.statements.keyset import read_keyset
from cardsign.statements.release import read_release
from cardsign.times import day, minute
from cardsign.trust.lock import Memory
from cardsign.trust.policy import KeysetAnchor, Policy, Subject, TrustedIssuer
from cardsign.trust.walk import NO_STATEMENTS, SuppliedStatements
from cardsign.urls import parse_origin, parse_place
from cardsign.verify.verifier import Verifier

_TEMPLATES: Final = Path(__file__).parent / "templates"
_STYLE: Final = (_TEMPLATES / "style.css").read_text("utf-8")
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
#: Nothing but our own style may be loaded or run, whatever a text holds (CSP 3).
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"
)
# Controls, marks that reverse what is read, and halves of characters, which no encoding can write.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


# Commands of GitHub Actions at the beginning of a line, and of Azure Pipelines and TeamCity.
_LINE_COMMAND: Final = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_COMMAND: Final = re.compile(r"##(?=[A-Za-z\[])")


def as_html(value: object) -> Markup:
    """Return a text of a stranger as HTML: markup and control characters are shown, not obeyed."""
    if isinstance(value, Markup):
        return value
    shown = _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", str(value))
    shown = html.escape(shown, quote=True)
    # Printed in a pipeline, no line may be a command of its runner.
    shown = _COMMAND.sub("&#35;#", _LINE_COMMAND.sub(r"\1&#58;", shown))
    return Markup(shown)  # noqa: S704  (it was escaped above)


_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=True,
    finalize=as_html,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


_ENVIRONMENT.globals |= {"style": Markup(_STYLE), "policy": Markup(POLICY)}  # noqa: S704  (ours)
_ENVIRONMENT.globals |= {"day": day, "minute": minute, "words": words}


def card_page(
    untrusted_bytes: bytes,
    *,
    keyset: bytes | None = None,
    release: bytes | None = None,
    jwks: JwkSet | None = None,
    now: datetime,
) -> tuple[str, datetime | None]:
    """Write the page of a card.

    Args:
        untrusted_bytes: The card as received.
        keyset: Its issuer's newest keyset statement.
        release: Its issuer's newest release statement.
        jwks: Its issuer's key set.
        now: The time of the verdict; aware.

    Returns:
        The page, and when its verdict ends, if anything sets a deadline.

    Raises:
        StatementRefused: A statement cannot be read.
    """
    newest = None if keyset is None else read_keyset(keyset)
    statement = None if release is None else read_release(release)
    revoked: frozenset[str] = frozenset().union(*(s.revoked for s in (newest, statement) if s))
    policy, subject, supplied = Policy(), Subject(), NO_STATEMENTS
    who = "has no key of this card"
    if newest is not None and keyset is not None:
        anchor, places = KeysetAnchor(newest.id, newest.issuer), map(parse_place, newest.origins)
        policy = Policy((TrustedIssuer(newest.issuer, anchor, tuple(places)),))
        supplied = SuppliedStatements((keyset,), (release,) if release else ())
        subject = Subject(issuer=newest.issuer)
        who = f"trusts {newest.issuer} by keyset {newest.label}"
    elif jwks is not None and jwks.keys:
        policy = Policy.from_jwks(jwks, name="the published key set")
        subject = Subject(issuer=policy.issuers[0].name)
        who = "trusts the published key set"
    verifier = Verifier(policy, lock=Memory(), clock=lambda: now)
    report = verifier.judge(untrusted_bytes, subject, supplied)
    page = _ENVIRONMENT.get_template("page.html").render(
        seen=inspect_card(untrusted_bytes, jwks=jwks),
        report=report,
        who=who,
        jwks=() if jwks is None else jwks.keys,
        newest=newest,
        release=statement,
        revoked=revoked,
        origin=newest and parse_origin(newest.origins[0]),
        written=minute(now),
    )
    return page, report.valid_until
