"""Names and labels of claims and ledgers (contract §2.3).

Other OpenRL components and running clusters depend on them. A claim's name determines its ledger's name. A
name proves neither that an object exists nor that this controller owns it: the owner's UID does.
"""

from __future__ import annotations

import hashlib

MANAGED_LABEL = "openrl.io/managed"
MANAGED_VALUE = "true"
CLAIM_LABEL = "openrl.io/claim"

CLAIM_PREFIX = "claim-"
LEDGER_PREFIX = "ledger-"

MANAGED_SELECTOR = f"{MANAGED_LABEL}={MANAGED_VALUE}"
"""Label selector of the claims and ledgers that this controller manages."""

_STEM_MAX_CHARACTERS = 48
"""With prefix, dash and suffix a name has at most 63 characters, the limit of a label value."""
_SUFFIX_CHARACTERS = 8


def is_claim_name(name: str) -> bool:
    """Return whether the name is one of this controller's. Others may label any claim as managed."""
    return name.startswith(CLAIM_PREFIX) and len(name) > len(CLAIM_PREFIX)


def ledger_name(claim: str) -> str:
    """Return the name of a claim's ledger: `ledger-` and the claim's name without `claim-`.

    Raises:
        ValueError: the claim's name does not begin with `claim-`.
    """
    if not is_claim_name(claim):
        raise ValueError(f"claim {claim!r} is not named {CLAIM_PREFIX}<worker>: it has no ledger")
    return LEDGER_PREFIX + claim.removeprefix(CLAIM_PREFIX)


def own_claim_name(workload: str, uid: str, attempt: int = 0) -> str:
    """Return the name of the claim that a worker creates for itself.

    `attempt` n > 0 is the n-th alternative, for a worker whose earlier names belong to claims of others.
    """
    if attempt < 0:
        raise ValueError(f"attempt {attempt} is negative")
    stem = workload[:_STEM_MAX_CHARACTERS].rstrip("-.")
    unique = hashlib.sha256(f"{uid}/{attempt}".encode()).hexdigest() if attempt else uid
    return f"{CLAIM_PREFIX}{stem}-{unique[:_SUFFIX_CHARACTERS]}"


def ledger_labels(claim: str) -> dict[str, str]:
    """Return the labels of a claim's ledger."""
    return {MANAGED_LABEL: MANAGED_VALUE, CLAIM_LABEL: claim}
