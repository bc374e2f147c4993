"""One server under test."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from werkzeug.test import Client

from cardsign.publish.generation import Generation


@dataclass
class Site:
    """One server under test.

    Attributes:
        client: werkzeug's test client, of a `LiveApplication`.
        directory: What it serves.
        generation: What was published last.
        tokens: A token by audience.
        seconds: What the server's clock shows.
        log: What it said to the operator.
    """

    client: Client
    directory: Path
    generation: Generation
    tokens: dict[str, str]
    seconds: list[float]
    log: list[str] = field(default_factory=list)

    def bearer(self, audience: str = "staff") -> dict[str, str]:
        """The header that opens the card of an audience."""
        return {"Authorization": f"Bearer {self.tokens[audience]}"}

    def wait(self) -> None:
        """Let the time pass after which the server looks for a newer generation."""
        self.seconds[0] += 1.5
