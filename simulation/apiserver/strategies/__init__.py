"""What is peculiar to each kind: defaults, what a status update may touch, what is refused.

A real server calls the same thing a strategy. Only rules that a controller of ours can meet are here.
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
    """How the server treats objects of that kind."""
    return _STRATEGIES.get(kind, _PLAIN)
