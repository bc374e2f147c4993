"""Editing `trust.toml` as a careful person would: comments and the order of things stay.

Every edit is read again before it replaces the file, and must then say exactly what was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import tomlkit

from cardsign.errors import UsageFault
from cardsign.files import write_atomic
from cardsign.jose.jwks import JwkSet
from cardsign.statements.keyset import KeysetId, RootPin
from cardsign.trust.lock import editing
from cardsign.trust.policy import (
    Anchor,
    JwksAnchor,
    KeysAnchor,
    KeysetAnchor,
    Policy,
    TrustedIssuer,
)
from cardsign.trust.policyfile import FORMAT, parse_policy, read_policy
from cardsign.trust.policylines import Lines

#: What stands in a table: strings, whole numbers, lists and tables of them.
Members: TypeAlias = Mapping[str, Any]

EMPTY_POLICY: Final = f"""\
# Which issuers this verifier trusts, and by which keys. What is not allowed here is denied.
# Add an issuer with `cardsign trust add`, or by hand; docs/reference/formats.md lists every member.
format = {FORMAT}

# [limits]              # may only be lower than the built-in ones
# skew = "5m"           # how far clocks may differ
# keyset_age = "90d"    # how long after its iat a keyset statement is accepted at most
# release_age = "7d"    # the same of a release statement

# [[issuer]]
# name = "acme-geo"                          # your own name for it
# origins = ["https://geo.acme.example"]     # where its cards and interfaces may stand
# cards = ["https://geo.acme.example/"]      # what `cardsign peers verify` looks at
# require = ["publisher"]                    # holders who must all have signed
# [issuer.anchor]                            # exactly one: keyset, roots, keys, jwks or tofu
# keyset = {{ epoch = 1, version = 1, digest = "..." }}
"""


def anchor_members(anchor: Anchor) -> Members:
    """The member of `[issuer.anchor]` that says what an anchor says."""
    if isinstance(anchor, KeysetAnchor):
        issuer = {} if anchor.issuer is None else {"issuer": anchor.issuer}
        return _pin_members(anchor.pin, issuer)
    if isinstance(anchor, KeysAnchor):
        return {"keys": _keys_members(anchor.keys, anchor.holders)}
    return {"jwks": anchor.url} if isinstance(anchor, JwksAnchor) else {"tofu": True}


def anchor_text(anchor: Anchor) -> str:
    """The same in TOML."""
    return "\n".join(_lines(anchor_members(anchor)))


def with_issuer(text: str, members: Members, anchor: Anchor) -> str:
    """The text with one more `[[issuer]]` at its end."""
    lines = ["[[issuer]]", *_lines(members), "", "[issuer.anchor]", anchor_text(anchor)]
    return "\n".join([*text.rstrip().split("\n"), "", *lines, ""])


def without_issuer(text: str, name: str) -> str:
    """The text without an issuer's tables; comments around them stay."""
    index = _index(parse_policy(text), name)
    lines = Lines.of(text)
    start = lines.line_of(("issuer", index))
    others = [
        line
        for place, line in lines.places.items()
        if line > start and place[:2] != ("issuer", index)
    ]
    end = min(others, default=len(lines.text) + 1)
    while end - 1 > start and _says_nothing(lines.text[end - 2]):
        end -= 1
    kept = [*lines.text[: start - 1], *lines.text[end - 1 :]]
    return "\n".join(kept)


def with_anchor(text: str, name: str, anchor: Anchor) -> str:
    """The text with an issuer's anchor replaced, the members of the table itself in place."""
    index = _index(parse_policy(text), name)
    document = tomlkit.parse(text)
    issuers: Any = document["issuer"]
    table = issuers[index]["anchor"]
    for kind, value in anchor_members(anchor).items():
        for other in [one for one in table if one != kind]:
            del table[other]
        if isinstance(value, Mapping) and kind in table:
            for member, one in value.items():
                table[kind][member] = _item(one)
        else:
            table[kind] = _item(value)
    return tomlkit.dumps(document)


def edit_policy(
    path: Path,
    change: Callable[[str], str],
    expected: Callable[[tuple[TrustedIssuer, ...]], Iterable[TrustedIssuer]],
) -> Policy:
    """Change a policy file, alone among processes; on any error it stays as it was."""
    with editing(path):
        before, text = read_policy(path)
        changed = change(text)
        after = parse_policy(changed, source=str(path))
        if (after.issuers, after.limits) != (tuple(expected(before.issuers)), before.limits):
            raise UsageFault(
                "policy.malformed",
                "the file is laid out in a way that cannot be edited for you",
                path=str(path),
                hint="Nothing was changed; make the change by hand.",
            )
        write_atomic(path, changed.encode())
    return after


def _pin_members(pin: KeysetId | RootPin, issuer: dict[str, str]) -> Members:
    if isinstance(pin, KeysetId):
        return {"keyset": {**pin.to_json(), **issuer}}
    keys = [
        {"thumbprint": thumbprint, "holder": holder}
        for thumbprint, holder in sorted(pin.holders, key=lambda pair: pair[::-1])
    ]
    return {"roots": {**issuer, "threshold": pin.threshold, "keys": keys}}


def _keys_members(keys: JwkSet, holders: Mapping[str, str]) -> list[Members]:
    return [
        {**({"holder": holders[key.kid]} if key.kid in holders else {}), "public": key.jwk()}
        for key in keys.keys
    ]


def _index(policy: Policy, name: str) -> int:
    return [one.name for one in policy.issuers].index(name)


def _says_nothing(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _lines(members: Members) -> list[str]:
    return [f"{name} = {_text(value)}" for name, value in members.items()]


def _text(value: Any) -> str:
    """A value in TOML, tables inline, each table of a list on its own line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_lines(value)) + " }"
    if isinstance(value, list):
        texts = [_text(one) for one in value]
        if any(isinstance(one, Mapping) for one in value):
            return "[\n" + "".join(f"  {text},\n" for text in texts) + "]"
        return f"[{', '.join(texts)}]"
    text: str = tomlkit.item(value).as_string()
    return text


def _item(value: Any) -> Any:
    return tomlkit.value(_text(value))
