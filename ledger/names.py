"""Names and labels of claims and ledgers (contract §2.3): the one home of these facts.

A ledger is found by its claim's name and a claim by its ledger's, without reading either; other
OpenRL components and running clusters rely on these spellings. Nothing here says whether an object
exists or is ours: a name is a lead, the owner's UID is the proof.
"""

from __future__ import annotations

import hashlib

MANAGED_LABEL = "openrl.io/managed"
MANAGED_VALUE = "true"
CLAIM_LABEL = "openrl.io/claim"

CLAIM_PREFIX = "claim-"
LEDGER_PREFIX = "ledger-"

MANAGED_SELECTOR = f"{MANAGED_LABEL}={MANAGED_VALUE}"
"""Label selector of the claims and ledgers that this controller looks at."""

_STEM_MAX = 48
"""Characters kept of a Workload's name: with prefix, dash and suffix at most 63, a label value's limit."""
_SUFFIX_LENGTH = 8


def is_claim_name(name: str) -> bool:
    """Whether a claim is named as we name ours. A claim that somebody merely labelled is not."""
    return name.startswith(CLAIM_PREFIX) and len(name) > len(CLAIM_PREFIX)


def ledger_name(claim: str) -> str:
    """The name of a claim's ledger: `ledger-` and the claim's name without `claim-`.

    Raises:
        ValueError: the claim is not named as ours are, so that no ledger can be meant.
    """
    if not is_claim_name(claim):
        raise ValueError(f"claim {claim!r} is not named {CLAIM_PREFIX}<worker>: it has no ledger")
    return LEDGER_PREFIX + claim.removeprefix(CLAIM_PREFIX)


def own_claim_name(workload: str, uid: str, attempt: int = 0) -> str:
    """The name under which a worker founds its own claim.

    `attempt` n > 0 is the n-th alternative, for a claim whose earlier names others still hold.
    """
    if attempt < 0:
        raise ValueError(f"attempt {attempt} is negative")
    stem = workload[:_STEM_MAX].rstrip("-.")
    unique = hashlib.sha256(f"{uid}/{attempt}".encode()).hexdigest() if attempt else uid
    return f"{CLAIM_PREFIX}{stem}-{unique[:_SUFFIX_LENGTH]}"


def ledger_labels(claim: str) -> dict[str, str]:
    """The labels of a claim's ledger."""
    return {MANAGED_LABEL: MANAGED_VALUE, CLAIM_LABEL: claim}
