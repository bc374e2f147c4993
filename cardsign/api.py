"""The public functions, with defaults for what most callers do not care about.

Below this module time is always an argument; here it is the clock of this machine unless the
caller says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack

from cardsign.card.profiles import Compat
from cardsign.errors import check_types
from cardsign.jose.keys import JwkSet
from cardsign.trust.policy import Policy, SubjectNames
from cardsign.trust.walk import NO_STATEMENTS, Statements
from cardsign.verify.report import Report, VerifiedCard
from cardsign.verify.verifier import Verifier, check_subject

if TYPE_CHECKING:
    from cardsign.build.assemble import BuiltCard
    from cardsign.build.reading import SourceValue
    from cardsign.findings import Finding
    from cardsign.inspect import Inspection
    from cardsign.jose.jws import Signer
    from cardsign.keys.store import KeyStore
    from cardsign.lint.rules import LintSettings
    from cardsign.net.fetch import FetchSettings

#: A JWK Set (RFC 7517), in each form that a program may have it.
Keys: TypeAlias = JwkSet | bytes | str | Mapping[str, Any]


def verify_card(
    data: bytes,
    *,
    jwks: Keys | None = None,
    policy: Policy | Path | str | None = None,
    statements: Statements = NO_STATEMENTS,
    now: datetime | None = None,
    **subject: Unpack[SubjectNames],
) -> VerifiedCard:
    """Return a card if it is trusted, else raise. Nothing is fetched.

    With `jwks` it is trusted if one of these keys signed all of it. A key set alone shows
    neither revocation nor rollback. With `policy`, `issuer` or `url` say whose card it must be. A
    program that verifies often keeps a :class:`cardsign.Verifier`.

    Args:
        data: The card as received, UTF-8 JSON, at most 256 KiB, before any conversion.
        jwks: The keys that you trust.
        policy: Whom you trust, in place of `jwks`: a policy, or the path of a `trust.toml`.
        statements: Keyset and release statements that came with the card: the path of their
            folder, or a list of their bytes. Alone they prove nothing.
        now: The time of the verdict, aware; the clock if None.
        subject: `issuer`, `url`, `origin` and `audience`, as for
            :meth:`cardsign.Verifier.verify`.

    Returns:
        The card, parsed from the bytes that the signature covers. Its `report` ends at the
        signature that decided; :func:`examine_card` examines those before it too.

    Raises:
        NotTrusted: The card was checked and refused; its `report` says what.
        NoVerdict: What would decide it is missing; its `report` says what.
        KeyRefused: `jwks` is no sound JWK Set.
        CardRefused: `url` is not a URL that is accepted.
        LocalFault: The policy or its lock cannot be read, or has no such issuer.
        TypeError: `data` is not bytes, or nothing says whose card it is.
        ValueError: `now` has no zone.
    """
    return _verifier(jwks, policy, now, subject).verify(data, statements=statements, **subject)


def examine_card(
    data: bytes,
    *,
    jwks: Keys | None = None,
    policy: Policy | Path | str | None = None,
    statements: Statements = NO_STATEMENTS,
    now: datetime | None = None,
    **subject: Unpack[SubjectNames],
) -> Report:
    """Return the verdict about a card with everything that led to it. Nothing is fetched.

    Args and errors are those of :func:`verify_card`, but that no verdict is raised.

    Returns:
        The report, whatever the card is. `report.verdict` says whether it is trusted.
    """
    return _verifier(jwks, policy, now, subject).examine(data, statements=statements, **subject)


def discover(
    url: str,
    *,
    policy: Policy | Path | str,
    issuer: str | None = None,
    now: datetime | None = None,
    settings: FetchSettings | None = None,
) -> VerifiedCard:
    """Fetch the card of an agent, and what shows that it is current; return it if it is trusted.

    For one card. A program that asks again and again keeps a :class:`cardsign.Verifier`, which
    asks less. Nothing is asked but this URL and what the policy names for its issuer; no redirect
    is followed, and no private address is asked.

    Args:
        url: The card's URL, or the agent's host such as ``https://agent.example``.
        policy: Whom you trust: a policy, or the path of a `trust.toml`.
        issuer: The policy's own name of the issuer; if None, the one it has for `url`.
        now: The time of the verdict, aware; the clock if None.
        settings: How peers are reached: limits of time and size, and which addresses.

    Raises:
        NotTrusted: The card was checked and refused; its `report` says what.
        NoVerdict: The agent gave no answer, or what would decide it is missing.
        CardRefused: `url` is not a URL that is accepted.
        LocalFault: The policy or its lock cannot be read, or has no such issuer.
        ValueError: `now` has no zone.
    """
    return Verifier(policy, net=settings, clock=_clock(now)).discover(url, issuer=issuer)


async def adiscover(
    url: str,
    *,
    policy: Policy | Path | str,
    issuer: str | None = None,
    now: datetime | None = None,
    settings: FetchSettings | None = None,
) -> VerifiedCard:
    """Do what :func:`discover` does, in a thread of its own.

    A task that is cancelled returns at once. The work goes on to its own end, which the
    deadlines of `settings` set. Args and errors are those of :func:`discover`.
    """
    return await Verifier(policy, net=settings, clock=_clock(now)).adiscover(url, issuer=issuer)


def sign_card(
    card: bytes,
    key: Signer | Sequence[Signer] | KeyStore | Path,
    *,
    passphrase: bytes | None = None,
    compat: Compat = "safe",
    now: datetime | None = None,
) -> bytes:
    """Sign a card, so that cardsign and the SDKs accept it.

    Only `signatures` changes. Signatures by the same keys are replaced, others are kept. A card
    that is signed already comes back unchanged, byte for byte. The result is verified before it
    is returned, with the public keys alone.

    Args:
        card: The card, UTF-8 JSON, at most 256 KiB.
        key: A key or any other signer; several, the older first; or a key store or its folder,
            whose active card keys then sign.
        passphrase: Opens the keys of a key store.
        compat: Which signatures are made for SDKs whose reading loses something. ``safe``: those
            that keep every endpoint, security scheme and scope; ``all``; or ``none``.
        now: Which keys of a store are active; the clock if None.

    Returns:
        The signed card: JSON in UTF-8 with a newline at the end, member order kept.

    Raises:
        JsonRefused, CardRefused: These bytes are no Agent Card that can be read one way only.
        KeyRefused: Two signers' keys cannot be told apart.
        SigningRefused: There is no key, or a verifier would refuse the result.
        LocalFault: A signer, a key store or a passphrase fails; `compat` is no choice.
        TypeError: `card` is not bytes, `key` no signer, or a key store has no passphrase.
    """
    from cardsign.sign import SigningOptions, sign_document

    kinds = {"passphrase": (passphrase, bytes | None), "now": (now, datetime | None)}
    example = "sign_card(json.dumps(card).encode(), key, passphrase=b'...', compat='safe')"
    check_types(example, card=(card, bytes), compat=(compat, str), **kinds)
    signers, own = _signers(key, passphrase, now)
    return sign_document(card, signers, SigningOptions(compat=compat, own_kids=own))


def inspect_card(data: bytes, *, jwks: Keys | None = None) -> Inspection:
    """Say what a card is, what its signatures cover, and why one does not fit.

    No verdict is given.

    Args:
        data: The card as received.
        jwks: The keys that may have signed it, in the forms of :func:`verify_card`. Without
            them nothing can be said of which payload a signature fits.

    Raises:
        KeyRefused: `jwks` is no sound JWK Set.
        TypeError: `data` is not bytes.
    """
    from cardsign.inspect import inspect_card as inspect

    check_types("inspect_card(Path('card.json').read_bytes(), jwks=...)", data=(data, bytes))
    return inspect(data, jwks=None if jwks is None else JwkSet.read(jwks))


def lint_card(data: bytes, settings: LintSettings | None = None) -> tuple[Finding, ...]:
    """List what is wrong with a card, why, and how to fix it.

    It says nothing about whether the card is true, or whether its signatures hold. Bytes that
    are no strict JSON are one finding.

    Args:
        data: The card, UTF-8 JSON, at most 256 KiB and 10,000 values.
        settings: Groups and waivers of :class:`cardsign.lint.rules.LintSettings`.

    Raises:
        UsageFault: ``usage.conflict``: the settings name a rule or group that there is not.
        TypeError: `data` is not bytes.
    """
    from cardsign.lint import cards, rules

    example = "lint_card(Path('card.json').read_bytes(), LintSettings(ignore=frozenset({...})))"
    check_types(example, data=(data, bytes), settings=(settings, rules.LintSettings | None))
    return cards.lint_card(data, settings or rules.DEFAULT_SETTINGS).findings


def build_card(
    *sources: str | Path,
    a2a: str | None = None,
    base_url: str | None = None,
    url: str | None = None,
    members: Mapping[str, str] | None = None,
    agent: str | None = None,
    prompt_excerpt: bool = False,
    live: Sequence[SourceValue] = (),
) -> BuiltCard:
    """Build a card from an agent's manifests, or convert one. Nothing of a source is run.

    The same sources give the same bytes, live servers aside. Settings files are not read.

    Args:
        sources: Files and folders, or ``KIND:PATH``. What an earlier one says stays.
        a2a: ``0.2``, ``0.3``, ``1.0`` or ``both``; if None, as the first source has it.
        base_url: Where the server is; the path of the first source's kind follows.
        url: Where the agent is; ``{name}`` stands for its name.
        members: Values by member of A2A 1.0, such as ``description`` or ``skills.ID.name``.
        agent: Which one, where the sources define several.
        prompt_excerpt: Take a missing description from a prompt's first sentence.
        live: What :func:`cardsign.build.live.ask_servers` returned, taken after all sources.

    Raises:
        BuildRefused: ``build.*``: a source is malformed, or a REQUIRED fact is missing.
        FileFault: A source cannot be read.
        UsageFault: ``usage.invalid``: there is no such member or A2A version.
    """
    from cardsign.build.assemble import build_card as build
    from cardsign.build.draft import BuildOptions

    example = "build_card('SKILL.md', members={'version': '1.0.0'})"
    for source in sources:
        check_types(example, source=(source, str | Path))
    text = str | None
    check_types(example, a2a=(a2a, text), base_url=(base_url, text), url=(url, text))
    check_types(example, agent=(agent, text), members=(members, Mapping | None))
    check_types("build_card(live=ask_servers([...]))", live=(live, Sequence))
    options = BuildOptions(a2a, base_url, url, members or {}, agent, prompt_excerpt)
    return build(sources, replace(options, live=tuple(live)))


# Who is asked about.

_BY_KEYS: Final = "verify_card(data, jwks=Path('jwks.json').read_bytes())"
_BY_POLICY: Final = "verify_card(data, policy='trust.toml', issuer='NAME')"


def _verifier(
    jwks: Keys | None,
    policy: Policy | Path | str | None,
    now: datetime | None,
    subject: SubjectNames,
) -> Verifier:
    """Return the verifier by what a caller trusts."""
    check_subject(subject, "jwks", "policy", "statements")
    check_types(_BY_KEYS, jwks=(jwks, JwkSet | bytes | str | Mapping | None))
    if policy is not None and jwks is None:
        return Verifier(policy, clock=_clock(now))
    if policy is not None or jwks is None:
        raise TypeError(f"give either jwks or policy: {_BY_KEYS}, or {_BY_POLICY}")
    if any(subject.get(name) for name in ("issuer", "url", "origin")):
        message = "jwks says whose card it is; issuer, url and origin go with policy"
        raise TypeError(f"{message}: {_BY_POLICY}")
    return Verifier(Policy.from_jwks(jwks), clock=_clock(now))


# What was handed over.


def _clock(now: datetime | None) -> Callable[[], datetime]:
    check_types("now=datetime.now(UTC)", now=(now, datetime | None))
    return partial(_time, now)


def _time(now: datetime | None) -> datetime:
    return datetime.now(UTC) if now is None else now


def _signers(
    key: Signer | Sequence[Signer] | KeyStore | Path, passphrase: bytes | None, now: datetime | None
) -> tuple[Sequence[Signer], frozenset[str]]:
    """Return the keys that sign, and the kids whose signatures they replace."""
    from cardsign.keys.store import KeyStore
    from cardsign.sign import signers_of

    if isinstance(key, Path):
        from cardsign.keys.store import open_store

        key = open_store(key)
    if isinstance(key, KeyStore):
        from cardsign.issuer.work import card_signers
        from cardsign.keys.history import list_own_kids

        if passphrase is None:
            raise TypeError("a key store needs its passphrase: sign_card(..., passphrase=b'...')")
        return card_signers(key, passphrase, now=_time(now)), list_own_kids(key)
    return signers_of(key), frozenset()
