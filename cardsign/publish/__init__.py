"""Publishing: cards and a key set become the next generation."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.publish.checks import CheckedIssued as CheckedIssued
    from cardsign.publish.checks import Issued as Issued
    from cardsign.publish.generation import LEAST_MAX_AGE as LEAST_MAX_AGE
    from cardsign.publish.generation import Generation as Generation
    from cardsign.publish.generation import PublicFile as PublicFile
    from cardsign.publish.generation import export_files as export_files
    from cardsign.publish.generation import load_current as load_current
    from cardsign.publish.generation import public_files as public_files
    from cardsign.publish.publication import DEFAULT_MAX_AGE as DEFAULT_MAX_AGE
    from cardsign.publish.publication import next_change_by as next_change_by
    from cardsign.publish.publication import publication_of as publication_of
    from cardsign.publish.publication import publish_generation as publish_generation
    from cardsign.publish.publication import publish_statements as publish_statements

__getattr__ = lazy_names(__name__)
