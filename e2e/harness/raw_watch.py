"""A raw watch of the API server in the background, without any of the controller's code."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from e2e.controlplane import Cluster, Object

END_SECONDS = 10
WATCH_SECONDS = 600

Handler = Callable[[str, Object], None]
"""Called in a thread with the type (ADDED, MODIFIED, DELETED) and the object of each event."""


@contextmanager
def watched(cluster: Cluster, collection: str, handle: Handler) -> Iterator[None]:
    """Watch a collection while the block runs. An event of another type raises at the end."""
    version = cluster.api.get(collection)["metadata"]["resourceVersion"]
    path = f"{collection}?watch=1&resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"
    unexpected: list[Object] = []
    process = subprocess.Popen(
        [cluster.kubectl_path, f"--kubeconfig={cluster.admin_kubeconfig}", "get", "--raw", path],
        stdout=subprocess.PIPE,
        env=cluster.kubectl_environment(),
    )

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith(b"\n"):
                return  # the connection was cut at the end of the block
            event = json.loads(line)
            if event["type"] in {"ADDED", "MODIFIED", "DELETED"}:
                handle(event["type"], event["object"])
            else:
                unexpected.append(event)

    thread = threading.Thread(target=read, daemon=True)
    with process:
        thread.start()
        try:
            yield
        finally:
            process.terminate()
            thread.join(END_SECONDS)
    assert not unexpected, unexpected
