"""A server in memory without actors, for tests of the server itself. Create it on a running loop."""

from __future__ import annotations

from simulation.apiserver.client import ApiClient
from simulation.apiserver.interception import Interceptor, pass_through
from simulation.apiserver.server import ApiServer
from simulation.apiserver.watches import Watches
from simulation.cluster.simulated_cluster import WORKER_NAMESPACE, SimulatedCluster
from simulation.engine.wall_clock import WallClock


def lone_server() -> ApiServer:
    """Return a server without other clients."""
    namespaces = ("default", WORKER_NAMESPACE)
    new_uid = SimulatedCluster.identifiers("0")
    return ApiServer(now=WallClock(), new_uid=new_uid, namespaces=namespaces)


def lone_client(server: ApiServer | None = None, interceptor: Interceptor = pass_through) -> ApiClient:
    """Return the only client of a server."""
    server = server or lone_server()
    return ApiClient(server, Watches(server.store), "test", interceptor=interceptor)
