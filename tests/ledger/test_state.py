from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.api import Object
from ledger.claim_names import ledger_labels
from ledger.state import Seat, SeatRef, decode, ledger_document, seat_document, seats_patch
from tests.ledger.build import ledger, seat

# A ledger of an earlier controller, whose seats lack owner, host request and exclusivity. A later controller
# added fields to the object, the spec and a seat.
EXISTING: dict[str, Any] = {
    "apiVersion": "openrl.io/v1alpha1",
    "kind": "ClaimLedger",
    "metadata": {
        "name": "ledger-llama-0a1b2c3d",
        "namespace": "openrl-system",
        "uid": "11111111-2222-3333-4444-555555555555",
        "resourceVersion": "4711",
        "creationTimestamp": "2025-11-01T10:00:00Z",
        "generation": 3,
        "labels": {"openrl.io/managed": "true", "openrl.io/claim": "claim-llama-0a1b2c3d"},
        "managedFields": [{"manager": "placement", "operation": "Update"}],
    },
    "spec": {
        "claimName": "claim-llama-0a1b2c3d",
        "revision": {"by": "later", "numbers": [1, 2.5, None]},
        "seats": [
            {"workload": "llama", "workloadUID": "u-1", "assignmentID": "a-1"},
            {
                "workload": "qwen",
                "workloadUID": "u-2",
                "assignmentID": "a-2",
                "hostRequest": "48Gi",
                "parkedSince": "2025-11-01T10:05:00Z",
                "turn": {"weight": 3, "share": 0.25, "pinned": None, "history": ["x", 1, True]},
            },
        ],
    },
    "status": {"observed": True},
}


def encoded(document: object) -> bytes:
    return json.dumps(document).encode()


def test_a_ledger_of_an_earlier_controller_is_decoded() -> None:
    existing = decode(encoded(EXISTING))
    assert existing.claim_name == "claim-llama-0a1b2c3d"
    assert existing.metadata.resource_version == "4711"
    assert existing.metadata.labels["openrl.io/claim"] == "claim-llama-0a1b2c3d"
    assert not existing.terminating
    first, second = existing.seats
    assert first.ref == SeatRef("llama", "u-1", "a-1")
    assert (first.owner_id, first.owner_key, first.exclusive, first.host_request) == ("", "llama", False, "")
    assert second.host_request == "48Gi"


def test_seats_are_sent_exactly_as_they_were_read() -> None:
    existing = decode(encoded(EXISTING))
    assert seats_patch(existing, existing.seats) == {
        "metadata": {"resourceVersion": "4711", "labels": ledger_labels(existing.claim_name)},
        "spec": {"seats": EXISTING["spec"]["seats"]},
    }


def test_a_patch_changes_nothing_but_the_seats() -> None:
    existing = decode(encoded(EXISTING))
    assert set(seats_patch(existing, ())["spec"]) == {"seats"}


@pytest.mark.parametrize("spec", [{"claimName": "claim-x"}, {"claimName": "claim-x", "seats": []}])
def test_a_ledger_without_seats_is_decoded(spec: dict[str, Any]) -> None:
    assert decode(encoded({"metadata": {"name": "ledger-x"}, "spec": spec})).seats == ()


def test_a_ledger_with_a_deletion_timestamp_is_terminating() -> None:
    document = {
        **EXISTING,
        "metadata": {**EXISTING["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
    }
    assert decode(encoded(document)).terminating


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        encoded({"metadata": {"name": "ledger-x"}, "spec": {"seats": []}}),
        encoded(
            {"metadata": {"name": "ledger-x"}, "spec": {"claimName": "claim-x", "seats": [{"ownerID": "o"}]}}
        ),
    ],
)
def test_invalid_data_raises_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data)


def test_a_numeric_host_request_stays_a_number() -> None:
    written = {"workload": "w", "hostRequest": 1024}
    (seat,) = decode(
        encoded({"metadata": {"name": "l"}, "spec": {"claimName": "c", "seats": [written]}})
    ).seats

    assert seat.host_request == 1024
    assert seat_document(seat) == written


def test_only_the_api_spelling_of_a_field_is_decoded() -> None:
    misspelt = {"workload": "w", "workload_uid": "u"}
    document = {"metadata": {"name": "l"}, "spec": {"claimName": "c", "seats": [misspelt]}}
    read = decode(encoded(document)).seats[0]
    assert read.workload_uid == ""
    assert seat_document(read)["workload_uid"] == "u"


def test_a_new_ledger_has_labels_claim_and_seats() -> None:
    assert ledger_document("claim-x", "openrl-system", (seat("x"),)) == {
        "apiVersion": "openrl.io/v1alpha1",
        "kind": "ClaimLedger",
        "metadata": {
            "name": "ledger-x",
            "namespace": "openrl-system",
            "labels": {"openrl.io/managed": "true", "openrl.io/claim": "claim-x"},
        },
        "spec": {
            "claimName": "claim-x",
            "seats": [
                {
                    "workload": "x",
                    "workloadUID": "uid-x",
                    "assignmentID": "as-x",
                    "ownerID": "owner-x",
                    "exclusive": False,
                    "hostRequest": "1Gi",
                }
            ],
        },
    }


def test_a_ledger_is_an_informer_object() -> None:
    stored: Object = ledger(seat("x"))
    assert stored.metadata.name == "ledger-creator-0a1b2c3d"


def test_the_repr_of_a_ledger_is_one_line() -> None:
    assert repr(ledger(seat("x"), seat("y"))) == "<ClaimLedger ledger-creator-0a1b2c3d@1 [x, y]>"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KNOWN = set(Seat.model_fields) | {each.alias for each in Seat.model_fields.values()}
UNKNOWN = st.dictionaries(st.text().filter(lambda key: key not in KNOWN), JSON, max_size=4)
OPTIONAL = st.fixed_dictionaries(
    {"workload": st.text()},
    optional={
        "workloadUID": st.text(),
        "assignmentID": st.text(),
        "ownerID": st.text(),
        "exclusive": st.booleans(),
        "hostRequest": st.text(),
    },
)


@given(OPTIONAL, UNKNOWN)
def test_every_field_of_a_seat_survives_unchanged(known: dict[str, Any], unknown: dict[str, Any]) -> None:
    document = {**known, **unknown}
    data = encoded({"metadata": {"name": "l"}, "spec": {"claimName": "c", "seats": [document]}})
    sent = seat_document(decode(data).seats[0])
    assert json.dumps(sent, sort_keys=True) == json.dumps(document, sort_keys=True)
