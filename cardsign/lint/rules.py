"""The one table of lint rules; ``docs/lint.md`` is made from it.

The portable rules are those of the measured characterisation of portable cards, derived anew
for exactly our four default profiles. Three of its rules are not here: duplicate members, lone
surrogates, excessive depth and numbers are refused by the strict reader before any lint; an
absent REQUIRED member parts none of the four; nor does ``false`` in a proto `optional` flag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cardsign.card.strictjson import Json

# What a lint rule is, and what it says of one place in a card.


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. A rule, once released, keeps its id and what it means.

    Attributes:
        id: ``group.name``; the group is the target that the rule belongs to.
        summary: What it finds; one sentence.
        why: Whose readings part there, and what follows from that.
        mend: What a person can do about it.
    """

    id: str
    summary: str
    why: str
    mend: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One place in a card that breaks a rule.

    Attributes:
        rule: The rule, which says why and how to mend it.
        pointer: JSON pointer (RFC 6901) of the member or element.
        message: What was found there, without a final period.
        mendable: :func:`cardsign.lint.fix` mends it, for that loses nothing of meaning.
    """

    rule: Rule
    pointer: str
    message: str
    mendable: bool = False

    def to_json(self) -> dict[str, Json]:
        """The finding for programs, with all that its rule says."""
        return {
            "rule": self.rule.id,
            "path": self.pointer,
            "message": self.message,
            "why": self.rule.why,
            "mend": self.rule.mend,
            "mendable": self.mendable,
        }


# fmt: off
_TABLE: Final = (
    # --- portable: the four default profiles part ---------------------------------------
    ("portable.unknown-member",
     "A member that A2A 1.0 does not define.",
     "The full profiles sign it and the pruning ones drop it, so that most SDKs would not notice "
     "if somebody changed it.",
     "Put it into the `params` of an extension in `capabilities.extensions`, or leave it out."),
    ("portable.legacy-member",
     "A member of A2A 0.3.",
     "The full profiles sign it as it is, prune-empty drops it, and a2a-sdk rewrites it before it "
     "looks at the signature.",
     "Serve readers of 0.3 a document of their own, or leave it out (--fix drops a null, which "
     "says nothing)."),
    ("portable.snake-case",
     "A 1.0 member in its protobuf spelling.",
     "The SDKs sign it under its camelCase name, the full profiles as it is spelled, and readers "
     "of plain JSON do not see it at all.",
     "Use the camelCase name (--fix does, where no 0.3 member stands beside it)."),
    ("portable.null",
     "A member that is null.",
     "served-as-is signs the null, every other profile drops it.",
     "Leave the member out (--fix does, where no 0.3 member stands beside it)."),
    ("portable.default",
     "A non-REQUIRED member that holds its default: false, or empty.",
     "served-as-is signs it, every other profile drops it, and its absence says the same.",
     "Leave the member out (--fix does)."),
    ("portable.empty-value",
     "An empty member, list element or map entry that no default explains.",
     "The full profiles keep it; the pruning ones drop it, and with an element also the place that "
     "it had in its list.",
     "Give it a value. `capabilities` needs one member: `streaming` will do, true or false. Leave "
     "an `optional` member or an element out if it says nothing."),
    ("portable.empty-params",
     "Something null or empty in the `params` of an extension.",
     "The full profiles keep what is free-form; the pruning ones drop what is empty there too.",
     "Give it a value, or leave it out if the extension reads that the same."),
    ("portable.empty-security",
     "Something null, empty or false in a member that says who may call.",
     "The pruning profiles drop it. The commonest requirement, a scheme without scopes, is no part "
     "of what most SDKs sign: anybody may remove it, or add it.",
     "Name a scope where the scheme has one. Otherwise leave it and sign: the full profiles cover "
     "it. Never delete a requirement to please this rule."),
    ("portable.wrong-type",
     "A schema member of the wrong JSON type.",
     "The full profiles sign it as it is; SDKs refuse it, convert it, or read an empty message.",
     "Give the member the type that A2A 1.0 names."),
    ("portable.oneof",
     "Two members of which A2A 1.0 allows one, such as two kinds of one security scheme.",
     "The full profiles sign both; protobuf readers refuse the card.",
     "Split them into two schemes, each with a name of its own."),
    # --- js-resolver: the client of @a2a-js/sdk -----------------------------------------
    ("js-resolver.security-schemes",
     "The card has security schemes.",
     "The resolver of @a2a-js/sdk drops them before it verifies (a2a-js#663): it refuses every "
     "signature by others, and does not notice a changed scheme under its own.",
     "None without changing who may call. Have that client verify the plain JSON instead."),
    ("js-resolver.proto-name",
     "A member that is called `__proto__`.",
     "JavaScript takes the name for the object's prototype, and @a2a-js/sdk loses the member. It "
     "refuses the signature by its plain path too, where it verifies every other portable card.",
     "Choose another name."),
    # --- py-1.1: a2a-sdk 1.0.0 to 1.1.3 -------------------------------------------------
    ("py-1.1.non-ascii",
     "A name or text that is not ASCII throughout (U+007F counts as well).",
     "a2a-sdk before 1.1.4 signs such characters as \\u escapes, and sorts their names otherwise.",
     "None but other words. Readers of 1.1.4 and later have no such trouble."),
    ("py-1.1.number",
     "A number that Python prints otherwise than RFC 8785 does, such as 5, 1e-7 or -0.",
     "a2a-sdk before 1.1.4 prints every number of `params` as a Python float: 5 as 5.0.",
     "Write the number as a string, if the extension may read it so."),
)
# fmt: on

RULES: Final[dict[str, Rule]] = {row[0]: Rule(*row) for row in _TABLE}
