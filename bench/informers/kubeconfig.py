"""The kubeconfig for the Pod server."""

from __future__ import annotations

import json
from pathlib import Path


def url_of(port: int) -> str:
    """Return the URL of the Pod server."""
    return f"http://127.0.0.1:{port}"


def write_kubeconfig(folder: Path, port: int) -> Path:
    """Write a kubeconfig for the Pod server, which has no authentication."""
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "pods",
        "clusters": [{"name": "pods", "cluster": {"server": url_of(port)}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "pods", "context": {"cluster": "pods", "user": "nobody"}}],
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
