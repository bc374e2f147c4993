"""Verification: one verdict on (bytes, subject, policy, time), and why."""

from typing import TYPE_CHECKING

from cardsign.lazy import lazy_names

if TYPE_CHECKING:
    from cardsign.verify.report import Answer as Answer
    from cardsign.verify.report import Answers as Answers
    from cardsign.verify.report import NotTrusted as NotTrusted
    from cardsign.verify.report import NoVerdict as NoVerdict
    from cardsign.verify.report import Report as Report
    from cardsign.verify.report import SignatureReport as SignatureReport
    from cardsign.verify.report import StatementUsed as StatementUsed
    from cardsign.verify.report import Verdict as Verdict
    from cardsign.verify.report import VerificationError as VerificationError
    from cardsign.verify.report import VerifiedCard as VerifiedCard
    from cardsign.verify.report import ask_again as ask_again
    from cardsign.verify.report import trusted_card as trusted_card
    from cardsign.verify.signature import matching_payload as matching_payload
    from cardsign.verify.verdict import Matter as Matter
    from cardsign.verify.verdict import VerdictCache as VerdictCache
    from cardsign.verify.verdict import examine_extended as examine_extended
    from cardsign.verify.verdict import reach_verdict as reach_verdict

__getattr__ = lazy_names(__name__)
