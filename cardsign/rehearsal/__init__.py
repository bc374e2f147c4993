"""What peers would say of an issuer's cards through its next rotation, or after a theft."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.rehearsal.run import Belief as Belief
    from cardsign.rehearsal.run import Event as Event
    from cardsign.rehearsal.run import Rehearsal as Rehearsal
    from cardsign.rehearsal.run import rehearse as rehearse
    from cardsign.rehearsal.world import Copies as Copies
    from cardsign.rehearsal.world import Demand as Demand
    from cardsign.rehearsal.world import KeysetPeer as KeysetPeer
    from cardsign.rehearsal.world import MemoryStore as MemoryStore
    from cardsign.rehearsal.world import Site as Site
    from cardsign.rehearsal.world import believes as believes

__getattr__ = lazy_names(__name__)
