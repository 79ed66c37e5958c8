"""The Kubernetes rules of taints and tolerations."""

from __future__ import annotations

import pytest

from placement.tolerations import tolerates, untolerated
from placement.types import Taint, TaintEffect, Toleration

NO_SCHEDULE, NO_EXECUTE = TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE
TAINT = Taint("key", "value", NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("key", exists=False, value="value", effect=NO_SCHEDULE), True),
        (Toleration("key", exists=False, value="value", effect=None), True),
        (Toleration("key", exists=False, value="other", effect=None), False),
        (Toleration("key", exists=False, value="value", effect=NO_EXECUTE), False),
        (Toleration("key", exists=True, value="", effect=None), True),
        (Toleration("other", exists=True, value="", effect=None), False),
        (Toleration("", exists=True, value="", effect=None), True),
        (Toleration("", exists=True, value="", effect=NO_EXECUTE), False),
    ],
)
def test_tolerates(toleration: Toleration, expected: bool) -> None:
    assert tolerates(toleration, TAINT) is expected


def test_every_blocking_taint_needs_a_toleration() -> None:
    taints = (TAINT, Taint("second", "", NO_EXECUTE))
    first = Toleration("key", exists=True, value="", effect=None)
    second = Toleration("second", exists=True, value="", effect=None)
    assert untolerated(taints, (first,))
    assert not untolerated(taints, (first, second))


@pytest.mark.parametrize("effect", [TaintEffect.PREFER_NO_SCHEDULE, TaintEffect.NONE])
def test_other_effects_block_nothing(effect: TaintEffect) -> None:
    assert not untolerated((Taint("key", "value", effect),), ())
