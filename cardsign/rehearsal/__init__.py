"""What peers would say of an issuer's cards through its next rotation, or after a theft."""

from typing import TYPE_CHECKING

from cardsign.facade import lazy_names

if TYPE_CHECKING:
    from cardsign.rehearsal.memory import MemoryStore as MemoryStore
    from cardsign.rehearsal.peers import Copies as Copies
    from cardsign.rehearsal.peers import KeysetPeer as KeysetPeer
    from cardsign.rehearsal.peers import Rule as Rule
    from cardsign.rehearsal.peers import Site as Site
    from cardsign.rehearsal.peers import believes as believes
    from cardsign.rehearsal.run import Belief as Belief
    from cardsign.rehearsal.run import Event as Event
    from cardsign.rehearsal.run import Rehearsal as Rehearsal
    from cardsign.rehearsal.run import rehearse as rehearse

__getattr__ = lazy_names(__name__)
