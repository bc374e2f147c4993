"""What a card is: bytes in, values out, without network, clock or state."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.card.canonical import DEFAULT_PROFILES as DEFAULT_PROFILES
    from cardsign.card.canonical import FULL_PROFILES as FULL_PROFILES
    from cardsign.card.canonical import PROFILES as PROFILES
    from cardsign.card.canonical import Compat as Compat
    from cardsign.card.canonical import Payload as Payload
    from cardsign.card.canonical import Payloads as Payloads
    from cardsign.card.canonical import ProfileName as ProfileName
    from cardsign.card.canonical import canonicalize as canonicalize
    from cardsign.card.convert import CardForm as CardForm
    from cardsign.card.convert import Conversion as Conversion
    from cardsign.card.convert import convert_card as convert_card
    from cardsign.card.convert import form_of as form_of
    from cardsign.card.coverage import Excuse as Excuse
    from cardsign.card.coverage import Uncovered as Uncovered
    from cardsign.card.coverage import left_open as left_open
    from cardsign.card.coverage import uncovered_parts as uncovered_parts
    from cardsign.card.document import MAX_CARD_VALUES as MAX_CARD_VALUES
    from cardsign.card.document import MAX_SIGNATURES as MAX_SIGNATURES
    from cardsign.card.document import A2aVersion as A2aVersion
    from cardsign.card.document import Card as Card
    from cardsign.card.document import render as render
    from cardsign.card.extensions import EXTENDED_URI as EXTENDED_URI
    from cardsign.card.extensions import FIELDS_URI as FIELDS_URI
    from cardsign.card.extensions import MAX_EXP as MAX_EXP
    from cardsign.card.extensions import MAX_SEQ as MAX_SEQ
    from cardsign.card.extensions import ExtendedMarker as ExtendedMarker
    from cardsign.card.extensions import declares_extended_card as declares_extended_card
    from cardsign.card.extensions import find_marker as find_marker
    from cardsign.card.extensions import with_marker as with_marker
    from cardsign.card.interfaces import Interface as Interface
    from cardsign.card.interfaces import check_interfaces as check_interfaces
    from cardsign.card.interfaces import current_interfaces as current_interfaces
    from cardsign.card.interfaces import interfaces_of as interfaces_of
    from cardsign.card.members import MemberProblem as MemberProblem
    from cardsign.card.members import check_members as check_members
    from cardsign.card.profiles.rules import upgrade as upgrade
    from cardsign.card.profiles.verifiers import VERIFIERS as VERIFIERS
    from cardsign.card.schema import CARD_0_3 as CARD_0_3
    from cardsign.card.schema import CARD_1_0 as CARD_1_0
    from cardsign.card.schema import AgentCard as AgentCard
    from cardsign.card.schema import Field as Field
    from cardsign.card.schema import Message as Message
    from cardsign.card.schema import fold as fold
    from cardsign.card.security import AUTHENTICATION as AUTHENTICATION
    from cardsign.card.security import PROVIDERS as PROVIDERS
    from cardsign.card.security import DeclaredProvider as DeclaredProvider
    from cardsign.card.security import DerivedSecurity as DerivedSecurity
    from cardsign.card.security import ProviderType as ProviderType
    from cardsign.card.security import Scheme as Scheme
    from cardsign.card.security import authentication_schemes as authentication_schemes
    from cardsign.card.security import flat_requirements as flat_requirements
    from cardsign.card.security import provider_schemes as provider_schemes
    from cardsign.card.security import requirements_of as requirements_of
    from cardsign.card.security import schemes_of as schemes_of
    from cardsign.card.serialize import jcs as jcs
    from cardsign.card.strictjson import MAX_CARD_BYTES as MAX_CARD_BYTES
    from cardsign.card.strictjson import MAX_DEPTH as MAX_DEPTH
    from cardsign.card.strictjson import parse_object as parse_object
    from cardsign.card.tree import Node as Node
    from cardsign.card.tree import write as write
    from cardsign.card.values import Json as Json
    from cardsign.card.values import append as append
    from cardsign.card.values import pointer as pointer
    from cardsign.card.values import split as split

__getattr__ = lazy_names(__name__)
