"""Tests of the names and labels that other components depend on (contract §2.3)."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.api.names import label_text, pod_labels, pod_name

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def digest(workload: str) -> str:
    return hashlib.sha256(f"orw-{workload}".encode()).hexdigest()[:7]


def test_a_pod_name_is_the_prefixed_workload_name() -> None:
    assert pod_name("trainer-0.team") == "orw-trainer-0.team"


def test_a_name_of_maximum_length_is_unchanged() -> None:
    workload = "a" * (253 - len("orw-"))
    assert pod_name(workload) == f"orw-{workload}"


def test_a_longer_name_is_truncated_and_gets_a_digest() -> None:
    workload = "a" * 250
    assert pod_name(workload) == f"orw-{'a' * 241}-{digest(workload)}"
    assert len(pod_name(workload)) == 253
    assert pod_name("a" * 251) != pod_name("a" * 252)


@pytest.mark.parametrize("end", ["-", ".", "--", "-x-"])
def test_a_truncated_name_does_not_end_in_a_dash_or_dot(end: str) -> None:
    workload = "a" * (241 - len(end)) + end + "b" * 9
    assert pod_name(workload) == f"orw-{('a' * (241 - len(end)) + end).rstrip('-.')}-{digest(workload)}"


@given(st.text("a0-.", min_size=236, max_size=253))
@settings(deadline=None)
def test_every_workload_gets_a_valid_pod_name(text: str) -> None:
    workload = re.sub(r"[-.]*\.[-.]*", ".", f"x{text[1:252]}y")
    assert SUBDOMAIN.fullmatch(workload)
    name = pod_name(workload)
    assert len(name) <= 253
    assert SUBDOMAIN.fullmatch(name)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("trainer-0", "trainer-0"),
        ("Team_A.Project/7", "team-a-project-7"),
        ("user@example.com", "user-example-com"),
        ("a__..__b", "a-b"),
        ("a--b", "a--b"),
        ("--a--", "a"),
        ("_", ""),
        ("", ""),
        ("Ä-ß", ""),
        ("\u212aelvin", "elvin"),  # KELVIN SIGN: `str.lower` would return an ASCII k
        ("a\u0660", "a"),  # a Unicode digit, but not valid in a label
        ("line\nbreak\n", "line-break"),
        ("a" * 64, "a" * 63),
        ("a" * 62 + "-b", "a" * 62),
        ("-" * 70 + "b", "b"),
    ],
)
def test_text_is_reduced_to_a_label(text: str, label: str) -> None:
    assert label_text(text) == label


@given(st.text(max_size=80))
@example("a" * 62 + "_b")
@settings(deadline=None)
def test_every_text_becomes_a_valid_label_and_the_reduction_is_idempotent(text: str) -> None:
    label = label_text(text)
    assert len(label) <= 63
    assert LABEL_VALUE.fullmatch(label)
    assert label_text(label) == label


def test_the_labels_of_a_pod() -> None:
    labels = pod_labels(workload="job.1", owner_key="Team A", role="sampler", claim="claim-job.1-0a1b2c3d")
    assert labels == {
        "app": "open-rl-sampler-worker",
        "openrl.io/claim": "claim-job.1-0a1b2c3d",
        "openrl.io/worker": "job-1",
        "openrl.io/role": "sampler",
        "accel-timeslicer": "true",
        "timeslice.io/group": "claim-job.1-0a1b2c3d",
        "timeslice.io/owner": "team-a",
        "timeslice.io/job-id": "job-1",
    }
