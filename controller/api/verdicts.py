"""Verdicts of failed writes: refused for now, malformed, or without an answer (contract §5.10)."""

from __future__ import annotations

import re
from enum import Enum, auto

from controller.api.workload import Workload
from informers.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotLeading,
    OutcomeUnknown,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Undecodable,
    Unreachable,
)

_RULE_WORDS = ('admission webhook "', "ValidatingAdmissionPolicy '")
_OUTAGE_CODES = frozenset({500, 503, 504})
_OUTAGE_WORDS = ("webhook", "quota")
_DECODING_WORDS = ("strict decoding error", "cannot be handled as a")
_NO_DRY_RUN_WORDS = "does not support dry run"

_NO_VERDICT = (NotLeading, OutcomeUnknown, TooManyRequests, Unauthorized, Undecodable, Unreachable)
"""Errors of the connection, the load or the credentials. They say nothing about the object."""

_FIGURE = re.compile(r"(?<![\w.-])\d+(\.\d+)*[a-zA-Z]{0,2}(?![\w-])")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")


class CreationVerdict(Enum):
    """What the answer to a creation says about the object."""

    REFUSED = auto()
    """The rules of the cluster refuse it now."""
    MALFORMED = auto()
    """It can never be created."""
    SERVER_FAILED = auto()
    """5xx: the answer is lost; the third in a row counts as a refusal."""
    UNKNOWN = auto()
    """No verdict: the creation is retried with back-off."""


def verdict_of(error: ApiError) -> CreationVerdict:
    """Return the verdict of a failed creation, other than `AlreadyExists`.

    An unknown answer counts as a refusal: no worker ends for a rule that may be gone tomorrow.
    """
    text = error.message
    if any(words in text for words in _RULE_WORDS) or isinstance(error, (Forbidden, Conflict)):
        return CreationVerdict.REFUSED
    if isinstance(error, ServerError):
        is_outage = error.status in _OUTAGE_CODES and any(words in text for words in _OUTAGE_WORDS)
        return CreationVerdict.REFUSED if is_outage else CreationVerdict.SERVER_FAILED
    if isinstance(error, _NO_VERDICT):
        return CreationVerdict.UNKNOWN
    if isinstance(error, Invalid) and error.fields:
        return CreationVerdict.MALFORMED
    is_undecodable = isinstance(error, BadRequest) and any(words in text for words in _DECODING_WORDS)
    return CreationVerdict.MALFORMED if is_undecodable else CreationVerdict.REFUSED


def is_refused_write(error: ApiError) -> bool:
    """Return whether the rules of the cluster refuse a patch or a deletion now, so that it had no effect.

    Without the words of a rule, 404 and 409 say that the object has gone or changed.
    """
    if any(words in error.message for words in _RULE_WORDS):
        return True
    if isinstance(error, (AlreadyExists, Conflict, NotFound)):
        return False
    return verdict_of(error) is CreationVerdict.REFUSED


def lacks_dry_run(error: ApiError) -> bool:
    """Return whether a webhook answers no dry runs, so that only a real creation shows its verdict."""
    return _NO_DRY_RUN_WORDS in error.message


def stable_words(message: str, workload: Workload) -> str:
    """Return a message without figures and without this worker's own name, for `status.reason`.

    Words without figures stay the same while a quota fills and empties.
    """
    name = re.escape(workload.name)
    # A name of letters only may be an ordinary word of the message.
    anywhere = f"(orw-)?{name}" if not workload.name.isalpha() else f"orw-{name}"
    own_name = re.compile(rf"(?<![\w.-]){anywhere}(?![\w-])|(?<=[\"']){name}(?=[\"'])")
    return _FIGURE.sub("…", own_name.sub("…", message))


def group_text(message: str, workload: Workload) -> str:
    """Return the text by which refusals are alike: without figures and without quoted names."""
    return _QUOTED.sub("…", stable_words(message, workload))
