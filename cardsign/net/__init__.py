"""Fetching from hosts that nobody vouches for; no other room opens a connection to one."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.net.connection import Deadline as Deadline
    from cardsign.net.connection import DeadlineStream as DeadlineStream
    from cardsign.net.connection import IPAddress as IPAddress
    from cardsign.net.connection import Loopback as Loopback
    from cardsign.net.connection import PinnedBackend as PinnedBackend
    from cardsign.net.connection import Route as Route
    from cardsign.net.connection import check_address as check_address
    from cardsign.net.connection import resolve as resolve
    from cardsign.net.connection import system_resolver as system_resolver
    from cardsign.net.connection import tcp_dial as tcp_dial
    from cardsign.net.credentials import BASIC as BASIC
    from cardsign.net.credentials import BEARER as BEARER
    from cardsign.net.credentials import Credential as Credential
    from cardsign.net.credentials import CredentialPlaces as CredentialPlaces
    from cardsign.net.credentials import CredentialSource as CredentialSource
    from cardsign.net.credentials import Header as Header
    from cardsign.net.credentials import HeaderForm as HeaderForm
    from cardsign.net.credentials import demands_credentials as demands_credentials
    from cardsign.net.credentials import header_form_of as header_form_of
    from cardsign.net.credentials import open_credential as open_credential
    from cardsign.net.discovery import OVERTAKEN_SECONDS as OVERTAKEN_SECONDS
    from cardsign.net.discovery import REFRESH_SECONDS as REFRESH_SECONDS
    from cardsign.net.discovery import RETRY_INTERVAL as RETRY_INTERVAL
    from cardsign.net.discovery import Discoverer as Discoverer
    from cardsign.net.discovery import Discovery as Discovery
    from cardsign.net.discovery import Refresher as Refresher
    from cardsign.net.discovery import gather as gather
    from cardsign.net.discovery import home_of as home_of
    from cardsign.net.endpoints import Endpoint as Endpoint
    from cardsign.net.endpoints import endpoints_of as endpoints_of
    from cardsign.net.endpoints import is_outside as is_outside
    from cardsign.net.extended import MAX_ANSWER_BYTES as MAX_ANSWER_BYTES
    from cardsign.net.extended import PeerError as PeerError
    from cardsign.net.extended import ask_for_extended_card as ask_for_extended_card
    from cardsign.net.extended import card_bytes as card_bytes
    from cardsign.net.extended import discover_extended as discover_extended
    from cardsign.net.extended import request_body as request_body
    from cardsign.net.extended import result_of as result_of
    from cardsign.net.fetch import DEFAULT_SETTINGS as DEFAULT_SETTINGS
    from cardsign.net.fetch import FetchSettings as FetchSettings
    from cardsign.net.fetch import OtherStatus as OtherStatus
    from cardsign.net.fetch import PrivateAccess as PrivateAccess
    from cardsign.net.fetch import fetch_document as fetch_document
    from cardsign.net.fetch import user_agent as user_agent
    from cardsign.net.fetcher import ENTRY_COST as ENTRY_COST
    from cardsign.net.fetcher import MAX_COOLING as MAX_COOLING
    from cardsign.net.fetcher import MAX_SAID as MAX_SAID
    from cardsign.net.fetcher import AnswerCache as AnswerCache
    from cardsign.net.fetcher import CachedAnswer as CachedAnswer
    from cardsign.net.fetcher import DocumentFetcher as DocumentFetcher
    from cardsign.net.fetcher import Freshness as Freshness
    from cardsign.net.fetcher import freshened as freshened
    from cardsign.net.fetcher import freshness as freshness
    from cardsign.net.fetcher import http_date as http_date
    from cardsign.net.fetcher import same_version as same_version
    from cardsign.net.fetcher import validators as validators
    from cardsign.net.guarded import ANSWER_SECONDS as ANSWER_SECONDS
    from cardsign.net.guarded import EVENT_IDLE_SECONDS as EVENT_IDLE_SECONDS
    from cardsign.net.guarded import EVENT_TOTAL_SECONDS as EVENT_TOTAL_SECONDS
    from cardsign.net.guarded import AsyncGuardedTransport as AsyncGuardedTransport
    from cardsign.net.guarded import GuardedTransport as GuardedTransport
    from cardsign.net.guarded import GuardRefused as GuardRefused
    from cardsign.net.guarded import GuardTimedOut as GuardTimedOut

__getattr__ = lazy_names(__name__)
