"""For users of a2a-sdk (extra ``a2a``): a resolver, and functions for its signature hooks.

:class:`TrustedCardResolver` stands in for ``A2ACardResolver`` and gives trusted cards alone.
:func:`signature_verifier` and :class:`CardSigner` are for programs that keep the SDK's own
resolver. A hook sees what the SDK has made of a card and not the bytes that came, so prefer ours.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import httpx

from cardsign.card.document import Card
from cardsign.errors import check_types, install_hint
from cardsign.jose.jws import Signer
from cardsign.sign import SigningOptions, sign_document, signers_of
from cardsign.trust.policy import SubjectNames
from cardsign.trust.walk import NO_STATEMENTS, Statements, read_supplied
from cardsign.verify.report import Report, VerificationError
from cardsign.verify.verifier import Verifier

try:
    from a2a.client.card_resolver import A2ACardResolver, parse_agent_card
    from a2a.client.errors import AgentCardResolutionError
    from a2a.server.request_handlers.response_helpers import agent_card_to_dict
    from a2a.types import AgentCard
    from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
    from a2a.utils.signing import InvalidSignaturesError, NoSignatureError
    from google.protobuf.json_format import MessageToDict, ParseError, SerializeToJsonError
    from google.protobuf.message import Error as ProtobufError
except ImportError as exc:
    raise ImportError(f"{exc}; {install_hint('a2a')}") from exc


class CardNotTrusted(AgentCardResolutionError, InvalidSignaturesError):  # type: ignore[misc]
    """There is no trusted card; also both of the SDK's errors, whichever a caller expects.

    Its ``__cause__`` is the :class:`cardsign.VerificationError`.

    Attributes:
        report: The verdict, and why.
    """

    def __init__(self, failure: VerificationError) -> None:
        super().__init__(str(failure))
        self.report: Report = failure.report

    def __reduce__(self) -> tuple[object, ...]:
        return CardNotTrusted, (VerificationError.of(self.report),)


class TrustedCardResolver(A2ACardResolver):  # type: ignore[misc]
    """In place of ``A2ACardResolver``: what it returns was verified, as it was received.

    The card and what shows that it is current are asked for by the verifier, by its own rules:
    no redirects, no private addresses, nothing but https. The given client is kept for its owner
    and asks for nothing. The verdict is about the bytes that came, before the SDK converts them;
    the SDK's card is made of the payload that the signature covers, so it has no signatures.

    Args:
        httpx_client: As for ``A2ACardResolver``; not used.
        base_url: Likewise.
        agent_card_path: Likewise; asked as it is, so that no legacy path is tried.
        verifier: What verifies; one for all peers of a process.
        issuer: The policy's own name of the issuer; if None, the one it has for the URL.
    """

    def __init__(
        self,
        httpx_client: httpx.AsyncClient,
        base_url: str,
        agent_card_path: str = AGENT_CARD_WELL_KNOWN_PATH,
        *,
        verifier: Verifier,
        issuer: str | None = None,
    ) -> None:
        check_verifier(verifier)
        example = "TrustedCardResolver(client, 'https://a.example', verifier=verifier)"
        check_types(example, base_url=(base_url, str), issuer=(issuer, str | None))
        super().__init__(httpx_client, base_url, agent_card_path)
        self._verifier = verifier
        self._issuer = issuer

    async def get_agent_card(
        self,
        relative_card_path: str | None = None,
        http_kwargs: dict[str, Any] | None = None,
        signature_verifier: Callable[[AgentCard], None] | None = None,
    ) -> AgentCard:
        """Return the card at the URL if it is trusted.

        Args:
            relative_card_path: As for ``A2ACardResolver``.
            http_kwargs: Refused: nothing but the URL decides how a card is asked for.
            signature_verifier: Refused: what is returned has been verified, and has no
                signatures any more.

        Raises:
            CardNotTrusted: The verdict is anything but ``trusted``, or the peer gave no answer.
            AgentCardResolutionError: The card is trusted, and the SDK cannot read it.
            UsageFault: The policy has no such issuer.
            ValueError: `http_kwargs` or `signature_verifier` is given.
        """
        if http_kwargs or signature_verifier:
            raise ValueError("TrustedCardResolver takes neither http_kwargs nor signature_verifier")
        path = (relative_card_path or self.agent_card_path).lstrip("/")
        url = f"{self.base_url}/{path}" if path else self.base_url
        try:
            card = await self._verifier.adiscover(url, issuer=self._issuer)
        except VerificationError as exc:
            raise CardNotTrusted(exc) from exc
        return sdk_card(card.document)


def check_verifier(verifier: Verifier) -> None:
    """Raise `TypeError` for what is no verifier, such as the path of its policy."""
    check_types("Verifier('trust.toml')", verifier=(verifier, Verifier))


def sdk_card(payload: Mapping[str, object]) -> AgentCard:
    """Return the SDK's card of a verified payload.

    Args:
        payload: ``VerifiedCard.document`` or ``Report.card``.

    Raises:
        AgentCardResolutionError: The SDK cannot read it.
    """
    try:
        return parse_agent_card(copy.deepcopy(dict(payload)))  # which edits what it is given
    except ParseError as exc:
        raise AgentCardResolutionError(f"a2a-sdk cannot read the verified card: {exc}") from exc


def signature_verifier(
    verifier: Verifier,
    *,
    statements: Statements = NO_STATEMENTS,
    **subject: Unpack[SubjectNames],
) -> Callable[[AgentCard], None]:
    """Return a ``signature_verifier`` for the SDK's resolver, or for an extended card.

    The SDK shows it a message of protobuf, made of the received JSON by rewriting 0.3 members and
    dropping what it does not know. So it accepts a 1.0 card that came through this unharmed, as
    portable cards do, and no other: a sound card of 0.3, or one with empty or unknown members, is
    refused. It does NOT see what the SDK dropped: `complete` is about what the SDK kept, not
    about what other readers of the same bytes would find. It fetches nothing: statements are
    given along. :class:`TrustedCardResolver` has none of these limits.

    Args:
        verifier: What verifies.
        statements: As for :meth:`cardsign.Verifier.verify`.
        subject: Likewise.

    Returns:
        A function that returns for a trusted card. Else it raises ``NoSignatureError`` or
        ``InvalidSignaturesError``, with the
        :class:`cardsign.VerificationError` as ``__cause__``, or with protobuf's own error for a
        card that it cannot write as JSON.
    """

    check_verifier(verifier)
    supplied = read_supplied(statements)
    verifier.subject_of(subject, needed=True)

    def verify(card: AgentCard) -> None:
        if not card.signatures:
            raise NoSignatureError("the card is not signed")
        try:
            untrusted_bytes = json.dumps(MessageToDict(card)).encode()
        except (ProtobufError, SerializeToJsonError, ValueError) as exc:
            raise InvalidSignaturesError(f"the SDK cannot write the card as JSON: {exc}") from exc
        try:
            verifier.verify(untrusted_bytes, statements=supplied, **subject)
        except VerificationError as exc:
            raise InvalidSignaturesError(str(exc)) from exc

    return verify


class CardSigner:
    """Signs the SDK's own cards, in place of its ``create_agent_card_signer``.

    ::

        sign = CardSigner([key])
        routes = create_agent_card_routes(sign(card))                       # a card that stays
        routes = create_agent_card_routes(card, card_modifier=sign.modify)  # one that changes

    A server that signs holds a private key and signs whatever its code says: better sign with
    ``cardsign sign`` where cards are released, and serve that file. It lists nothing in a release
    statement, without which verifiers with a ``keyset`` anchor do not trust a card.

    Args:
        signers: The active keys, older first.
    """

    def __init__(self, signers: Sequence[Signer]) -> None:
        self._signers = signers_of(signers)
        self._last: tuple[bytes, bytes] = (b"", b"")

    def __call__(self, card: AgentCard) -> AgentCard:
        """Return a copy of the card with signatures over what the SDK will serve of it.

        Ours are replaced and others' kept, so that signing twice is signing once.

        Raises:
            InputRefused, LocalFault: As :func:`cardsign.sign_card`.
        """
        served = json.dumps(agent_card_to_dict(card)).encode()
        if self._last[0] != served:
            self._last = served, sign_document(served, self._signers, SigningOptions())
        signed = AgentCard()
        signed.CopyFrom(card)
        del signed.signatures[:]
        for entry in Card.from_bytes(self._last[1]).signatures:
            if isinstance(entry, dict):
                signed.signatures.add(**entry)
        return signed

    async def modify(self, card: AgentCard, context: object = None) -> AgentCard:
        """Do the same as a ``card_modifier``; an unchanged card is signed once."""
        return await asyncio.to_thread(self, card)
