"""Build: manifests of agents become cards; nothing of a source is run."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.build.assemble import KINDS as KINDS
    from cardsign.build.assemble import BuiltCard as BuiltCard
    from cardsign.build.assemble import build_card as build_card
    from cardsign.build.draft import BuildOptions as BuildOptions
    from cardsign.build.draft import Fact as Fact
    from cardsign.build.live import ask_mcp as ask_mcp
    from cardsign.build.live import run_mcp as run_mcp
    from cardsign.build.reading import SourceDocument as SourceDocument
    from cardsign.build.reading import SourcePlace as SourcePlace
    from cardsign.build.reading import read_one as read_one
    from cardsign.build.reading import read_source as read_source

__getattr__ = lazy_names(__name__)
