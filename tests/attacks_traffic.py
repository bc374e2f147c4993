"""What a verifier does on the network, against what a transcript lets it do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a verifier did on the network during one step.

    Attributes:
        lookups: The names that it asked for.
        reached: Where it tried to connect to, each ``address:port``.
        requests: What it sent, each the URL that was asked and the head of the request.
        taken: Bytes that it took of the longest answer.
    """

    lookups: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()
    requests: tuple[tuple[str, str], ...] = ()
    taken: int = 0


def strayings(expect: Mapping[str, Any], traffic: Traffic) -> Iterator[tuple[str, Any, Any]]:
    """What was done on the network that must not be."""
    urls = [url for url, _ in traffic.requests]
    if strange := {url for url in urls if not _is_among(url, expect["asked"])}:
        yield "what is asked", sorted(strange), f"at most {expect['asked']}"
    hosts = {urlsplit(url.rstrip("*")).hostname for url in expect["asked"]}
    if strange := set(traffic.lookups) - hosts:
        yield "what is looked up", sorted(strange), f"at most {sorted(map(str, hosts))}"
    if "reached" in expect and (strange := set(traffic.reached) - set(expect["reached"])):
        yield "what is reached", sorted(strange), f"at most {expect['reached']}"
    for what, counted in (("times", Counter(urls)), ("lookups", Counter(traffic.lookups))):
        for name, most in expect.get(what, {}).items():
            if counted[name] > most:
                yield what, f"{counted[name]} for {name}", f"at most {most}"
    for secret in expect.get("unsent", ()):
        if guilty := [url for url, head in traffic.requests if secret in head]:
            yield "what is sent", f"{secret!r} to {guilty}", "not to be sent"
    if traffic.taken > expect.get("taken", traffic.taken):
        yield "what is taken", traffic.taken, f"at most {expect['taken']}"


def _is_among(url: str, patterns: Iterable[str]) -> bool:
    """Whether a URL is one of these; one that ends in ``*`` stands for all that begin so."""
    return any(url.startswith(one[:-1]) if one.endswith("*") else url == one for one in patterns)
