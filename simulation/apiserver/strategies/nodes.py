"""Nodes: a kubelet sets the status in the request that creates the Node."""

from __future__ import annotations

from simulation.apiserver.documents import Document
from simulation.apiserver.strategies.base import Strategy


class NodeStrategy(Strategy):
    """Keeps the status of a new Node."""

    def prepare_for_create(self, document: Document) -> None:
        """Keep the status that the creating kubelet sent."""
        document.setdefault("status", {})
