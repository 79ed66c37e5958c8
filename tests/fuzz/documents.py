"""One complete document of each kind that the controller watches, and mutations of its JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from controller.api.core import NODES
from controller.api.dra import CLAIMS, DEVICE_CLASSES, SLICES
from controller.api.pods import PODS
from controller.api.workload import WORKLOADS
from controller.cluster.caches import CLAIM_LEDGERS
from informers.api import Resource

Document = dict[str, Any]

NAMESPACE = "openrl-system"
TIME = "2026-01-01T00:00:00Z"

_TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
_CONDITION = {"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": TIME}
_CONTAINER: Document = {
    "name": "worker",
    "image": "example.com/worker",
    "restartPolicy": "Always",
    "resources": {"requests": {"memory": "1Gi", "cpu": "100m"}, "limits": {"memory": 2147483648}},
    "env": [{"name": "A", "value": "b"}],
}
_WORKLOAD_OWNER = {
    "apiVersion": "openrl.io/v1alpha1",
    "kind": "Workload",
    "name": "good-0",
    "uid": "uid-good-0",
    "controller": True,
}
_TERMINATED = {"exitCode": 1, "reason": "Error", "message": "m"}

CONTENTS: dict[Resource[Any], Document] = {
    WORKLOADS: {
        "spec": {
            "role": "trainer",
            "ownerID": "team",
            "trainingKind": "rl",
            "exclusive": False,
            "accelerator": {"mode": "SingleGPU", "type": "GPU", "memory": "60Gi"},
            "workerContainerName": "worker",
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [_CONTAINER]}},
        },
        "status": {
            "phase": "Pending",
            "reason": "WaitingForCapacity: x",
            "deviceCount": 1,
            "observedGeneration": 1,
            "conditions": [{**_CONDITION, "type": "Placed", "status": "False", "observedGeneration": 1}],
        },
    },
    CLAIM_LEDGERS: {
        "spec": {
            "claimName": "claim-a",
            "seats": [
                {
                    "workload": "good-0",
                    "workloadUID": "uid-good-0",
                    "assignmentID": "1",
                    "ownerID": "team",
                    "exclusive": False,
                    "hostRequest": "1Gi",
                }
            ],
        }
    },
    CLAIMS: {
        "spec": {"devices": {"requests": [{"name": "gpu", "firstAvailable": [{"name": "shape-80gi"}]}]}},
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {
                            "driver": "gpu.example.com",
                            "pool": "good-0",
                            "device": "gpu-0",
                            "request": "gpu/shape-80gi",
                            "adminAccess": False,
                            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}],
                            "bindingConditions": ["c"],
                        }
                    ]
                },
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["good-0"]}]}
                    ]
                },
            }
        },
    },
    PODS: {
        "spec": {
            "nodeName": "good-0",
            "containers": [_CONTAINER],
            "initContainers": [_CONTAINER],
            "overhead": {"memory": "1Mi"},
            "resources": {"requests": {"memory": "1Gi"}},
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim-a"}],
            "terminationGracePeriodSeconds": 30,
        },
        "status": {
            "phase": "Running",
            "conditions": [{**_CONDITION, "type": "PodScheduled"}],
            "containerStatuses": [{"name": "worker", "state": {"terminated": _TERMINATED}}],
            "initContainerStatuses": [{"name": "worker", "state": {"waiting": {"reason": "r"}}}],
        },
    },
    NODES: {
        "spec": {"unschedulable": False, "taints": [_TAINT]},
        "status": {
            "allocatable": {"memory": "1Ti", "cpu": 64, "pods": "110", "nvidia.com/gpu": 8},
            "conditions": [_CONDITION],
        },
    },
    SLICES: {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "good-0",
            "pool": {"name": "good-0", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}, "taints": [_TAINT]},
            ],
        }
    },
    DEVICE_CLASSES: {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
}


def document(resource: Resource[Any], name: str, version: int) -> Document:
    """Return a valid object that no decoder rejects."""
    metadata: Document = {
        "name": name,
        **({"namespace": NAMESPACE} if resource.namespaced else {}),
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "generation": 1,
        "creationTimestamp": TIME,
        "deletionTimestamp": TIME,
        "deletionGracePeriodSeconds": 30,
        "finalizers": ["openrl.io/placement"],
        "labels": {"openrl.io/enabled": "true", "openrl.io/managed": "true"},
        "ownerReferences": [_WORKLOAD_OWNER],
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:a": {}}}}],
    }
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return deepcopy(head | CONTENTS[resource])


class Text(str):
    """JSON text in the place of a value."""

    __slots__ = ()


ODD_TEXTS = (
    *("null", "true", "false", "0", "-0", "-1", "0.5", "1e400", "-1e400", "1e-400", "9" * 400, "9" * 5000),
    *(
        str(sign * 2**bits + more)
        for bits in (31, 32, 63, 64, 65, 70)
        for sign in (1, -1)
        for more in (-1, 0)
    ),
    *('""', '" "', r'"\u0000"', r'"\ud800"', r'"\udc00\ud800"', r'"\ud83d\ude00"', r'"\\ud800"', '"\x7f"'),
    *(
        '"\u2028"',
        '"\U0001f600"',
        '"1e9999"',
        '"1E-9999"',
        '"-1"',
        '"9999999Ei"',
        '"0x10"',
        '"1_000"',
        '"\u0661"',
    ),
    *('"0000-00-00T00:00:00Z"', '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59Z"', '"2026-01-01"'),
    *('"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"', '"+292277026596-12-04T15:30:07Z"'),
    *("[]", "{}", "[null]", "[[]]", "[{}]", '{"":null}', '{"name":"x"}', '[{"name":"x"}]'),
    r'"]}],\"items\":[{\"metadata\":{\"name\":\"x\"}}"',
    '[{"metadata":{"name":"inner","resourceVersion":"1"}},{"metadata":{"name":"inner"}}]',
)


def nested(rng: Random) -> Text:
    """Return a value at most as deep as an API server accepts."""
    depth = rng.choice((60, 120, 130, 200, 300, 900, 1100, 5000, 9900))
    opening, closing = rng.choice((("[", "]"), ('{"f:a":', "}"), ('[{"metadata":{"name":"x"},"a":', "}]")))
    levels = depth // (opening.count("[") + opening.count("{"))
    leaf = rng.choice(("1", "{}", '"]]}}"', r'"\""', '"},{"'))
    return Text(opening * levels + leaf + closing * levels)


def odd_value(rng: Random) -> Text:
    """Return JSON text that fits hardly any field."""
    kind = rng.random()
    if kind < 0.2:
        return nested(rng)
    if kind < 0.23:
        return Text('"' + rng.choice(("x", "é", r"\n", "},{")) * rng.choice((1000, 300_000)) + '"')
    if kind < 0.25:
        return Text("[" + ",".join(["null"] * 20_000) + "]")
    return Text(rng.choice(ODD_TEXTS))


_SIZE_MAX = 2 * 2**20
"""About what etcd accepts."""

# The API server itself writes and checks these.
_KEPT = ("name", "namespace", "uid", "resourceVersion")


def odd_text(rng: Random, resource: Resource[Any], name: str, version: int) -> str:
    """Return the text of an odd object that the API server could store."""
    while True:
        obj = document(resource, name, version)
        mutate(rng, obj)
        text = encode(obj)
        if len(text) <= _SIZE_MAX:
            return text


def mutate(rng: Random, obj: Document) -> None:
    """Give the object some odd parts. Its name and version stay where they are."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        owner: Any = obj
        for _ in range(rng.randrange(1, 9)):
            inner = [member for member in _members(owner) if isinstance(member, dict | list) and member]
            if not inner:
                break
            owner = rng.choice(inner)
        if owner is obj and rng.random() < 0.9:
            owner = rng.choice(
                [member for member in _members(obj) if isinstance(member, dict) and member] or [obj]
            )
        rng.choice(_MUTATIONS)(rng, owner, obj)


def _members(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else [*value] if isinstance(value, list) else []


def _keys(owner: Any, obj: Document) -> list[Any]:
    if isinstance(owner, list):
        return [*range(len(owner))]
    kept = _KEPT if owner is obj["metadata"] else ("metadata", "kind") if owner is obj else ()
    return [key for key in owner if key not in kept]


def _replace(rng: Random, owner: Any, obj: Document) -> None:
    if keys := _keys(owner, obj):
        owner[rng.choice(keys)] = odd_value(rng)


def _remove(rng: Random, owner: Any, obj: Document) -> None:
    if keys := _keys(owner, obj):
        del owner[rng.choice(keys)]


def _add(rng: Random, owner: Any, _: Document) -> None:
    if isinstance(owner, list):
        owner.insert(rng.randrange(len(owner) + 1), odd_value(rng))
    else:
        owner[rng.choice(("x", "metadatas", "é", "", "f:a", "\u0000", 'a"b\\'))] = odd_value(rng)


def _repeat(rng: Random, owner: Any, obj: Document) -> None:
    """Repeat a list element, or a key with another value. Of repeated keys, the last one counts."""
    keys = _keys(owner, obj)
    if not keys:
        return
    key = rng.choice(keys)
    if isinstance(owner, list):
        owner.extend([owner[key]] * rng.choice((1, 1, 500)))
    else:
        owner[Text(json.dumps(key))] = odd_value(rng)


_MUTATIONS: tuple[Callable[[Random, Any, Document], None], ...] = (_replace, _replace, _remove, _add, _repeat)


def encode(value: Any) -> str:
    """Return compact JSON text, with `Text` verbatim as a value and as a key."""
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, dict):
        members = (
            f"{key if isinstance(key, Text) else json.dumps(key)}:{encode(v)}" for key, v in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
