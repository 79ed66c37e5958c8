"""Kubeconfigs: write those of a local control plane, read any.

A written kubeconfig is self-contained: it embeds the certificate authority and the token. Reading supports
the credentials of kind, k3s, kubeadm and clouds: tokens, client certificates and exec plug-ins. Verification
of the server's certificate is disabled only if the kubeconfig requests it.
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.errors import KubeconfigInvalid

EXEC_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Access:
    """The address and credentials of one user of one API server."""

    server: str
    tls: ssl.SSLContext | None
    token: str | None


def write_kubeconfig(
    path: Path,
    *,
    server: str,
    certificate_authority: bytes,
    user: str,
    token: str,
    name: str = "controlplane",
) -> None:
    """Write a kubeconfig. Only its owner can read it, because it contains a bearer token."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(certificate_authority).decode(),
                },
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yaml.safe_dump(document, file, sort_keys=False)


def read_access(path: Path, *, context: str | None = None) -> Access:
    """Read a context of a kubeconfig, by default the current one."""
    document = _load(path)
    chosen = _entry(document, path, "contexts", context or document.get("current-context"))["context"]
    cluster = _entry(document, path, "clusters", chosen.get("cluster"))["cluster"]
    user = _entry(document, path, "users", chosen.get("user"))["user"] or {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("http://", "https://")):
        raise KubeconfigInvalid(f"kubeconfig {path}: the cluster has no server address")
    if "exec" in user:
        user = {**user, **_exec_credential(path, user["exec"])}
    token = user.get("token")
    if token is None and "tokenFile" in user:
        token = (path.parent / user["tokenFile"]).read_text(encoding="utf-8").strip()
    tls = _tls(path, cluster, user) if server.startswith("https://") else None
    return Access(server=server.rstrip("/"), tls=tls, token=token)


def _load(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KubeconfigInvalid(f"kubeconfig {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KubeconfigInvalid(f"kubeconfig {path}: not YAML") from error
    if not isinstance(document, dict):
        raise KubeconfigInvalid(f"kubeconfig {path}: not a kubeconfig")
    return document


def _entry(document: Mapping[str, Any], path: Path, section: str, name: object) -> dict[str, Any]:
    for entry in document.get(section) or []:
        if isinstance(entry, dict) and entry.get("name") == name:
            return entry
    raise KubeconfigInvalid(f"kubeconfig {path}: no entry {name!r} under {section}")


def _bytes(path: Path, section: Mapping[str, Any], key: str) -> bytes | None:
    """Read an item that is embedded (`<key>-data`) or in a file relative to the kubeconfig."""
    if data := section.get(f"{key}-data"):
        return base64.b64decode(data)
    if name := section.get(key):
        return (path.parent / str(name)).read_bytes()
    return None


def _tls(path: Path, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _bytes(path, cluster, "certificate-authority")
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate = _bytes(path, user, "client-certificate")
    key = _bytes(path, user, "client-key")
    if certificate and key:
        # The ssl module loads client certificates only from files.
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(certificate + b"\n" + key)
            pair.flush()
            tls.load_cert_chain(pair.name)
    return tls


def _exec_credential(path: Path, plugin: Mapping[str, Any]) -> dict[str, Any]:
    """Run a credential plug-in as kubectl does, and return the fields to add to the user entry."""
    environment = {**os.environ, **{item["name"]: item["value"] for item in plugin.get("env") or []}}
    api_version = plugin.get("apiVersion")
    environment["KUBERNETES_EXEC_INFO"] = json.dumps(
        {"apiVersion": api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
    )
    command = [str(plugin["command"]), *(plugin.get("args") or [])]
    try:
        answer = subprocess.run(
            command, env=environment, capture_output=True, check=True, timeout=EXEC_TIMEOUT_SECONDS
        )
        status = json.loads(answer.stdout)["status"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        raise KubeconfigInvalid(f"kubeconfig {path}: credential plug-in {command[0]} failed") from error
    encode = {"clientCertificateData": "client-certificate-data", "clientKeyData": "client-key-data"}
    credential = {
        key: base64.b64encode(status[field].encode()).decode()
        for field, key in encode.items()
        if field in status
    }
    return {**credential, "token": status.get("token")}
