"""Strategies: the defaults, validation and status rules of each kind.

A real server uses the same term. Only rules that matter for this controller are here.
"""

from simulation.apiserver import kinds
from simulation.apiserver.kinds import Kind
from simulation.apiserver.strategies.base import Strategy
from simulation.apiserver.strategies.claims import ClaimStrategy
from simulation.apiserver.strategies.custom import LedgerStrategy, WorkloadStrategy
from simulation.apiserver.strategies.namespaces import NamespaceStrategy
from simulation.apiserver.strategies.nodes import NodeStrategy
from simulation.apiserver.strategies.pods import PodStrategy

__all__ = ["Strategy", "strategy_of"]

_PLAIN = Strategy()
_STRATEGIES: dict[Kind, Strategy] = {
    kinds.PODS: PodStrategy(),
    kinds.NAMESPACES: NamespaceStrategy(),
    kinds.NODES: NodeStrategy(),
    kinds.CLAIMS: ClaimStrategy(),
    kinds.WORKLOADS: WorkloadStrategy(),
    kinds.LEDGERS: LedgerStrategy(),
}


def strategy_of(kind: Kind) -> Strategy:
    """Return the strategy of a kind."""
    return _STRATEGIES.get(kind, _PLAIN)
