"""Verification: one verdict on (bytes, subject, policy, time), and why."""

from typing import TYPE_CHECKING

from cardsign.facade import lazy_names

if TYPE_CHECKING:
    from cardsign.verify.cache import Matter as Matter
    from cardsign.verify.cache import VerdictCache as VerdictCache
    from cardsign.verify.examine import Circumstances as Circumstances
    from cardsign.verify.examine import VerifiedCard as VerifiedCard
    from cardsign.verify.examine import ask_again as ask_again
    from cardsign.verify.examine import beside_its_public_card as beside_its_public_card
    from cardsign.verify.examine import examine_card as examine_card
    from cardsign.verify.examine import examine_extended as examine_extended
    from cardsign.verify.examine import trusted_card as trusted_card
    from cardsign.verify.examine import verify_card as verify_card
    from cardsign.verify.report import Answer as Answer
    from cardsign.verify.report import Answers as Answers
    from cardsign.verify.report import NotTrusted as NotTrusted
    from cardsign.verify.report import Report as Report
    from cardsign.verify.report import SignatureReport as SignatureReport
    from cardsign.verify.report import SignatureVerdict as SignatureVerdict
    from cardsign.verify.report import StatementUsed as StatementUsed
    from cardsign.verify.report import Verdict as Verdict
    from cardsign.verify.signature import MAX_EXPLAINED_VALUES as MAX_EXPLAINED_VALUES
    from cardsign.verify.signature import Payloads as Payloads
    from cardsign.verify.signature import Question as Question
    from cardsign.verify.signature import examine_signature as examine_signature
    from cardsign.verify.signature import matching_payloads as matching_payloads
    from cardsign.verify.signature import reason_of as reason_of

_NAMES = {
    "cardsign.verify.cache": (
        "Matter",
        "VerdictCache",
    ),
    "cardsign.verify.examine": (
        "Circumstances",
        "VerifiedCard",
        "ask_again",
        "beside_its_public_card",
        "examine_card",
        "examine_extended",
        "trusted_card",
        "verify_card",
    ),
    "cardsign.verify.report": (
        "Answer",
        "Answers",
        "NotTrusted",
        "Report",
        "SignatureReport",
        "SignatureVerdict",
        "StatementUsed",
        "Verdict",
    ),
    "cardsign.verify.signature": (
        "MAX_EXPLAINED_VALUES",
        "Payloads",
        "Question",
        "examine_signature",
        "matching_payloads",
        "reason_of",
    ),
}
__all__, __getattr__ = lazy_names(__name__, _NAMES)
