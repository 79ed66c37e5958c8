import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.claim_names import is_claim_name, ledger_labels, ledger_name, own_claim_name

UID = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"


def test_ledger_is_named_after_its_claim() -> None:
    assert ledger_name("claim-llama-0a1b2c3d") == "ledger-llama-0a1b2c3d"


def test_only_the_first_prefix_is_replaced() -> None:
    assert ledger_name("claim-claim-x-0a1b2c3d") == "ledger-claim-x-0a1b2c3d"


@pytest.mark.parametrize("name", ["", "claim-", "gpu-claim-x", "ledger-x", "Claim-x"])
def test_a_claim_without_our_prefix_has_no_ledger(name: str) -> None:
    assert not is_claim_name(name)
    with pytest.raises(ValueError, match="has no ledger"):
        ledger_name(name)


def test_a_claim_name_ends_in_the_first_eight_characters_of_the_uid() -> None:
    assert own_claim_name("llama", UID) == "claim-llama-0a1b2c3d"


def test_long_names_are_truncated_to_48_characters() -> None:
    assert own_claim_name("w" * 60, UID) == f"claim-{'w' * 48}-0a1b2c3d"
    assert len(own_claim_name("w" * 253, UID)) == 63


def test_trailing_dashes_and_dots_are_dropped_after_truncation() -> None:
    assert own_claim_name("w" * 45 + ".-.tail", UID) == f"claim-{'w' * 45}-0a1b2c3d"


def test_the_nth_alternative_uses_the_sha256_of_uid_and_n() -> None:
    for n in (1, 2, 17):
        digest = hashlib.sha256(f"{UID}/{n}".encode()).hexdigest()
        assert own_claim_name("llama", UID, n) == f"claim-llama-{digest[:8]}"


def test_the_alternatives_are_stable() -> None:
    assert own_claim_name("llama", UID, 1) == "claim-llama-82f4b41e"
    assert own_claim_name("llama", UID, 2) == "claim-llama-fc204383"


def test_a_negative_attempt_raises_an_error() -> None:
    with pytest.raises(ValueError, match="negative"):
        own_claim_name("llama", UID, -1)


@given(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", fullmatch=True), st.uuids(), st.integers(0, 5))
def test_every_claim_name_fits_a_label_value_and_has_a_ledger(
    workload: str, uid: object, attempt: int
) -> None:
    name = own_claim_name(workload, str(uid), attempt)
    assert len(name) <= 63
    assert ledger_name(name).removeprefix("ledger-") == name.removeprefix("claim-")


def test_ledgers_have_the_managed_and_the_claim_label() -> None:
    assert ledger_labels("claim-x") == {"openrl.io/managed": "true", "openrl.io/claim": "claim-x"}
