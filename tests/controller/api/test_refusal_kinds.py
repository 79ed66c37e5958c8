"""The kinds of causes in a sentence of kube-scheduler."""

from __future__ import annotations

import pytest

from controller.api.refusal_kinds import refusal_kinds


@pytest.mark.parametrize(
    ("message", "kinds"),
    [
        ("", ()),
        ("0/3 nodes are available: 3 cannot allocate all claims.", ()),
        (
            (
                "0/3 nodes are available: 1 Insufficient memory, 2 node(s) didn't have free ports for the "
                "requested pod ports. preemption: 0/3 nodes are available: 3 No preemption victims found."
            ),
            ("ports",),
        ),
        ("0/1 nodes are available: 1 node(s) had volume node affinity conflict.", ("volume",)),
        ("0/1 nodes are available: 1 Insufficient ephemeral-storage.", ("disk",)),
        ("0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints.", ("spread",)),
        ("0/1 nodes are available: 1 node(s) had untolerated taint {gpu: true}.", ()),
        ("0/2 nodes are available: 1 Insufficient cpu, 1 Too many pods.", ()),
        ("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.", ()),
        (
            "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.",
            ("affinity",),
        ),
        ("words of another version", ("other",)),
    ],
)
def test_the_kinds_are_in_a_fixed_order(message: str, kinds: tuple[str, ...]) -> None:
    assert refusal_kinds(message) == kinds


def test_counts_change_no_kind() -> None:
    few = "0/5 nodes are available: 1 Insufficient cpu, 4 Insufficient memory."
    many = "0/9 nodes are available: 7 Insufficient memory, 2 Insufficient cpu."
    assert refusal_kinds(few) == refusal_kinds(many)
