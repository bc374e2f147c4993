"""``cardsign inspect``: what a card says, without believing any of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import click

from cardsign.card.canonical import DEFAULT_PROFILES
from cardsign.card.coverage import Payloads
from cardsign.card.document import Card
from cardsign.card.extended import declares_extended_card
from cardsign.card.interfaces import interfaces_of
from cardsign.card.members import check_members
from cardsign.card.security import schemes_of
from cardsign.card.strictjson import Json
from cardsign.cli.arguments import json_option, read_input
from cardsign.cli.commands import command
from cardsign.cli.talk import print_json, safe
from cardsign.errors import CanonicalizationError, SignatureRefused
from cardsign.jose.jws import read_entry


@command(example="cardsign inspect card.json")
@click.argument("card")
@json_option
def inspect(card: str, as_json: bool) -> None:
    """Show what CARD ('-' for stdin) holds. Nothing is verified: these are its own words."""
    described = describe(Card.from_bytes(read_input(card)))
    if as_json:
        print_json(described)
        return
    click.echo("nothing here is verified; these are the card's own words")
    for name, value in described.items():
        if not isinstance(value, list):
            click.echo(f"  {name:<15} {safe(str(value)) if value is not None else '-'}")
            continue
        click.echo(f"  {name:<15} {len(value)}")
        for element in value:
            click.echo(f"    {_line(element)}")


def _line(element: Any) -> str:
    if not isinstance(element, dict):
        return safe(str(element))
    return safe("  ".join(f"{k}={v}" for k, v in element.items() if v not in (None, [])))


def describe(card: Card) -> dict[str, Any]:
    """The card's own words and its signatures' headers, as one JSON object."""
    document = card.document
    skills = document.get("skills")
    return {
        "name": document.get("name"),
        "version": document.get("version"),
        "generation": card.generation,
        "interfaces": [
            {"url": one.url, "binding": one.binding, "version": one.version}
            for one in interfaces_of(document, any_spelling=True)
        ],
        "extended_card": declares_extended_card(document, any_spelling=True),
        "schemes": sorted(schemes_of(document)),
        "requirements": len(_list(document.get("securityRequirements", document.get("security")))),
        "skills": [s.get("id") for s in _list(skills) if isinstance(s, dict)],
        "signatures": [_signature(index, one) for index, one in enumerate(card.signatures)],
        "profiles": list(_profiles(card)),
        "schema": [
            {"path": p.pointer, "problem": p.message}
            for p in check_members(document, card.generation)
        ],
    }


def _signature(index: int, untrusted_entry: Json) -> dict[str, Any]:
    try:
        header = read_entry(untrusted_entry).header
    except SignatureRefused as refusal:
        return {"index": index, "refused": refusal.code}
    return {"index": index, "kid": header.kid, "alg": header.alg, "typ": header.typ}


def _profiles(card: Card) -> Iterator[dict[str, Any]]:
    payloads = Payloads(card.document)
    for name in DEFAULT_PROFILES:
        payload = payloads.made(name)
        if isinstance(payload, CanonicalizationError):
            yield {"profile": name, "refused": payload.message, "path": payload.path}
            continue
        found = payloads.left_open(payload).listed
        yield {
            "profile": name,
            "sha256": hashlib.sha256(payload.data).hexdigest(),
            "uncovered": list(found.pointers),
            "uncovered_count": found.count,
        }


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
