"""Validates a kubeconfig before the official client loads it, and reports every mistake in one clear line.

The official client loads the file. For a faulty one it may raise an obscure error such as `KeyError`, or none
at all (an undefined user means anonymous requests). This module follows the same references, from context to
cluster, user and their files. It raises `ConfigurationError` with file, field, value and allowed values. It
never quotes secrets, opens connections or runs programs.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from informers.errors import ConfigurationError


@dataclass(frozen=True)
class SelectedContext:
    """A validated context and the files it was read from."""

    paths: tuple[Path, ...]
    context: str

    def __str__(self) -> str:
        """Files and context, for messages."""
        return f"{_names(self.paths)}, context {self.context!r}"


class ExecVariable(msgspec.Struct, frozen=True):
    """One environment variable of a credential plugin."""

    name: str
    value: str


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """`user.exec`: a user's credential plugin."""

    command: str
    api_version: str
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    install_hint: str | None = None


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None


class _User(msgspec.Struct, frozen=True, rename="kebab"):
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: ExecConfig | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: str
    user: str | None = None


class _Named(msgspec.Struct, frozen=True):
    name: str


class _NamedCluster(_Named, frozen=True):
    cluster: _Cluster


class _NamedUser(_Named, frozen=True):
    user: _User | None = None


class _NamedContext(_Named, frozen=True):
    context: _Context


class _Kubeconfig(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


N = TypeVar("N", bound=_Named)


def select_context(kubeconfig: str, context: str | None) -> SelectedContext:
    """Read the files of `kubeconfig` (`KUBECONFIG` syntax, first definition wins) and validate one context.

    `context` is its name; `None` means the current context. Raises `ConfigurationError`.
    """
    paths = _existing_files(kubeconfig)
    files = [(path, _read(path)) for path in paths]
    where = f"kubeconfig {_names(paths)}"
    wanted = context or next((file.current_context for _, file in files if file.current_context), None)
    contexts = [(path, item) for path, file in files for item in file.contexts or ()]
    if wanted is None:
        raise ConfigurationError(f"{where}: current-context is not set; {_allowed(contexts)}")
    _, chosen = _find(where, "context", wanted, contexts)
    clusters = [(path, item) for path, file in files for item in file.clusters or ()]
    by_context = f"{where}: context {wanted!r}"
    cluster_path, cluster = _find(by_context, "cluster", chosen.context.cluster, clusters)
    _check_cluster(f"kubeconfig {cluster_path}: cluster {cluster.name!r}", cluster_path, cluster.cluster)
    if chosen.context.user:
        users = [(path, item) for path, file in files for item in file.users or ()]
        user_path, named = _find(by_context, "user", chosen.context.user, users)
        _check_user(f"kubeconfig {user_path}: user {named.name!r}", user_path, named.user or _User())
    return SelectedContext(tuple(paths), wanted)


def _existing_files(kubeconfig: str) -> list[Path]:
    paths = [path for name in kubeconfig.split(os.pathsep) if name and (path := _existing_file(name))]
    if not paths:
        raise ConfigurationError(
            f"kubeconfig {kubeconfig!r}: no such file; give the path of a readable kubeconfig"
        )
    return paths


def _existing_file(name: str) -> Path | None:
    """Return the path of a file, `None` if it does not exist.

    As in client-go, any other failed lookup is an error, since the file may exist.
    """
    try:
        path = Path(name).expanduser()
        path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"kubeconfig {name}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"kubeconfig {name!r}: cannot be read: {error}") from error
    except RuntimeError as error:
        raise ConfigurationError(
            f"kubeconfig {name}: cannot be read: its home directory is unknown"
        ) from error
    return path


def _read(path: Path) -> _Kubeconfig:
    try:
        document = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"kubeconfig {path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"kubeconfig {path}: is not YAML: {_yaml_problem(error)}") from error
    if not isinstance(document, dict):
        raise ConfigurationError(f"kubeconfig {path}: is not a mapping with contexts, clusters and users")
    try:
        return msgspec.convert(document, _Kubeconfig)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"kubeconfig {path}: {error}") from error


def _yaml_problem(error: Exception) -> str:
    # Position and type of the mistake only: the text around it may be a secret.
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem} at line {error.problem_mark.line + 1}"
    return type(error).__name__


def _find(where: str, what: str, name: str, defined: Sequence[tuple[Path, N]]) -> tuple[Path, N]:
    for path, item in defined:
        if item.name == name:
            return path, item
    raise ConfigurationError(f"{where}: {what} {name!r} is not defined; {_allowed(defined)}")


def _allowed(defined: Iterable[tuple[Path, N]]) -> str:
    names = sorted({item.name for _, item in defined})
    return f"defined: {', '.join(map(repr, names))}" if names else "none is defined"


def _check_cluster(where: str, path: Path, cluster: _Cluster) -> None:
    try:
        url = urlsplit(cluster.server)
        valid = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigurationError(f"{where}: server {cluster.server!r} is not an http:// or https:// URL")
    authority, authority_data = cluster.certificate_authority, cluster.certificate_authority_data
    _check_pem(where, path, "certificate-authority", authority, authority_data)


def _check_user(where: str, path: Path, user: _User) -> None:
    _check_pem(where, path, "client-certificate", user.client_certificate, user.client_certificate_data)
    _check_pem(where, path, "client-key", user.client_key, user.client_key_data)
    has_certificate = bool(user.client_certificate or user.client_certificate_data)
    if has_certificate != bool(user.client_key or user.client_key_data):
        raise ConfigurationError(f"{where}: client-certificate and client-key must be given together")
    if user.token_file and not user.token:
        _check_file(where, path, "tokenFile", user.token_file)
    if user.token is not None and any(character in user.token for character in "\r\n\0"):
        raise ConfigurationError(f"{where}: token must be a single line")


def _check_pem(where: str, path: Path, field: str, file: str | None, data: str | None) -> None:
    if data:
        try:
            base64.standard_b64decode(data)
        except (binascii.Error, ValueError) as error:
            raise ConfigurationError(f"{where}: {field}-data is not base64: {error}") from error
    elif file:
        _check_file(where, path, field, file)


def _check_file(where: str, path: Path, field: str, file: str) -> None:
    target = path.absolute().parent / file
    try:
        target.open("rb").close()
    except OSError as error:
        raise ConfigurationError(
            f"{where}: {field} {str(target)!r} cannot be read: {error.strerror}"
        ) from error


def _names(paths: Iterable[Path]) -> str:
    return os.pathsep.join(map(str, paths))
