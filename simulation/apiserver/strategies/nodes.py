"""Nodes: a kubelet writes its status in the request that creates the Node."""

from __future__ import annotations

from simulation.apiserver.documents import Document
from simulation.apiserver.strategies.base import Strategy


class NodeStrategy(Strategy):
    """Keeps the status of a new Node."""

    def prepare_create(self, document: Document) -> None:
        """Leave the status as it is."""
        document.setdefault("status", {})
