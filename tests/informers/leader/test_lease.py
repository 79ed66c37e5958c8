"""Leases with odd content, whoever wrote them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from informers.leader.lease import LEASES, claim_patch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
METADATA = '"metadata":{"name":"a","uid":"u","resourceVersion":"7"'


def test_transitions_stay_in_the_range_of_the_api() -> None:
    lease = LEASES.decode(f'{{{METADATA}}},"spec":{{"leaseTransitions":{2**31 - 1}}}}}'.encode())
    assert claim_patch(lease, "me", 15, NOW)["spec"]["leaseTransitions"] == 2**31 - 1


def test_a_nested_lease_is_read() -> None:
    nested = "[" * 9000 + "]" * 9000
    assert LEASES.decode(f'{{{METADATA},"managedFields":{nested}}}}}'.encode()).metadata.name == "a"


@pytest.mark.parametrize("seconds", ["1e400", '"x"', "[]"])
def test_a_lease_of_a_wrong_type_is_a_value_error(seconds: str) -> None:
    with pytest.raises(ValueError, match=r"leaseDurationSeconds|range"):
        LEASES.decode(f'{{{METADATA}}},"spec":{{"leaseDurationSeconds":{seconds}}}}}'.encode())
