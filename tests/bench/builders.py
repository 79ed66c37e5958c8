"""Builders of samples and results."""

from __future__ import annotations

from typing import Any

from bench.contender import ContenderInfo
from bench.samples import RunEnvironment, Sample
from e2e.controlplane import Request, RequestKind


def request(verb: str, resource: str) -> Request:
    kind = RequestKind("controller", verb, resource)
    return Request(kind, "openrl-system", "worker", 200, "agent", "2026-01-01T00:00:00.000000Z")


def sample(scenario: str, kind: ContenderInfo = ContenderInfo.CONTROLLER, **changes: Any) -> Sample:
    """Return a sample, by default of 100 placements in 4 s."""
    fields: dict[str, Any] = {
        "scenario": scenario,
        "contender": kind.value,
        "workers": 4,
        "round": 1,
        "operations": 100,
        "seconds": 4.0,
        "cpu_seconds": 0.5,
        "plane_cpu_seconds": dict.fromkeys(
            ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"), 1.0
        ),
        "requests": {"patch workloads/status": 200, "create pods": 100},
    }
    return Sample(**(fields | changes))


def environment(**changes: Any) -> RunEnvironment:
    fields: dict[str, Any] = {
        "commit": "0123abcd",
        "modified": False,
        "started": "2026-01-01T00:00:00+00:00",
        "machine": {"cores": "2"},
        "software": {"Python": "3.11.7"},
        "arguments": ["--rounds", "3"],
    }
    return RunEnvironment(**(fields | changes))
