"""The kinds that a story reads and writes, as whole documents: what is shown is decided elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from informers.api import Resource
from informers.decoding import Identity
from simulation.apiserver import kinds
from simulation.apiserver.documents import Document
from simulation.apiserver.kinds import Kind


@dataclass(frozen=True)
class Whole:
    """An object as it came."""

    metadata: Identity
    document: Document


def _whole(data: bytes) -> Whole:
    document: Document = msgspec.json.decode(data)
    return Whole(msgspec.convert(document["metadata"], Identity), document)


def _resource(kind: Kind) -> Resource[Whole]:
    return Resource(kind.group, kind.version, kind.plural, kind.kind, kind.namespaced, _whole)


WORKLOADS = _resource(kinds.WORKLOADS)
LEDGERS = _resource(kinds.LEDGERS)
CLAIMS = _resource(kinds.CLAIMS)
PODS = _resource(kinds.PODS)
NODES = _resource(kinds.NODES)
