"""Selects and validates one context of a kubeconfig, with the same result as kubectl.

A file that kubectl accepts is accepted, or `ConfigurationError` names file, field, value and allowed values
in one line. Only the selected context, cluster and user are validated. The official client's loader is not
used: it reads YAML differently, ignores fields such as `as`, and prefers `token` to `tokenFile`. This module
never quotes secrets, opens connections or runs programs.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec

from informers.client.proxies import url_problem
from informers.client.yaml_reader import json_value, read_yaml
from informers.errors import ConfigurationError

_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"

# fmt: off
Boolean = Literal["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y",
                  "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"]
# fmt: on
TRUE = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"}
Texts = tuple[str | None, ...]


@dataclass(frozen=True)
class SelectedContext:
    """A validated context, and the files it was read from. Paths of files are absolute."""

    paths: tuple[Path, ...]
    context: str
    cluster: Cluster = field(repr=False)
    user: User = field(repr=False)

    def __str__(self) -> str:
        """Files and context, for messages."""
        return f"{_names(self.paths)}, context {self.context!r}"

    def read_again(self) -> SelectedContext:
        """Return the same context, read again from the same files. Raises `ConfigurationError`."""
        return _select(self.paths, self.context)


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """`user.exec`: a user's credential plugin."""

    command: str = ""
    api_version: str = ""
    args: Texts = ()
    env: tuple[dict[str, str] | None, ...] = ()
    install_hint: str = ""
    interactive_mode: Literal["", "Never", "IfAvailable", "Always"] = ""
    provide_cluster_info: Boolean = "false"


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """`cluster`: where the server is, and how to verify it."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: Boolean = "false"
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: Boolean = "false"
    extensions: tuple[dict[str, Any] | None, ...] = ()

    @property
    def url(self) -> str:
        """The server's URL; without a scheme it is `http://`, as for kubectl. Raises `ValueError`."""
        has_scheme = "://" in self.server
        text = self.server if has_scheme else f"http://{self.server}"
        if url_problem(text) or not (has_scheme or urlsplit(text).path in {"", "/"}):
            raise ValueError(f"server {self.server!r} is not an http:// or https:// URL")
        url = urlsplit(text)
        return f"{url.scheme}://{url.netloc}{url.path}".rstrip("/")

    @property
    def is_tls(self) -> bool:
        """Whether credentials may be sent."""
        return self.url.startswith("https:")

    def exec_info(self) -> dict[str, object]:
        """Return `spec.cluster` for a credential plugin with `provideClusterInfo`."""
        authority = self.certificate_authority_data
        if self.certificate_authority:
            authority = base64.b64encode(Path(self.certificate_authority).read_bytes()).decode()
        settings = {
            "tls-server-name": self.tls_server_name,
            "insecure-skip-tls-verify": self.insecure_skip_tls_verify in TRUE,
            "certificate-authority-data": authority,
            "proxy-url": self.proxy_url,
            "disable-compression": self.disable_compression in TRUE,
        }
        extensions = {item.get("name"): item.get("extension") for item in self.extensions if item}
        set_only = {key: value for key, value in settings.items() if value}
        return {"server": self.server, **set_only, "config": json_value(extensions.get(_EXEC_EXTENSION))}


class User(msgspec.Struct, frozen=True, rename="kebab"):
    """`user`: credentials, and the user to impersonate."""

    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: ExecConfig | None = None
    auth_provider: Any = None
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: Texts = ()
    as_user_extra: dict[str, Texts] = {}

    @property
    def has_static_credentials(self) -> bool:
        """Whether the file itself has credentials: kubectl then runs no plugin."""
        certificate = self.client_certificate or self.client_certificate_data
        return bool(self.token or self.token_file or self.username or certificate)


class _Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""


class _Entry(msgspec.Struct, frozen=True):
    name: str = ""
    context: Any = None
    cluster: Any = None
    user: Any = None


class _Kubeconfig(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str = ""
    contexts: tuple[_Entry | None, ...] = ()
    clusters: tuple[_Entry | None, ...] = ()
    users: tuple[_Entry | None, ...] = ()


_Files = Sequence[tuple[Path, _Kubeconfig]]
S = TypeVar("S", _Context, Cluster, User)


def select_context(kubeconfig: str, context: str | None) -> SelectedContext:
    """Read the files of `kubeconfig` (`KUBECONFIG` syntax, first definition wins) and validate one context.

    `context` is its name; `None` means the current context. Raises `ConfigurationError`.
    """
    return _select(_existing_files(kubeconfig), context)


def _select(paths: Sequence[Path], context: str | None) -> SelectedContext:
    files = [(path, _read(path)) for path in paths]
    where = f"kubeconfig {_names(paths)}"
    wanted = context or next((file.current_context for _, file in files if file.current_context), None)
    if wanted is None:
        raise ConfigurationError(f"{where}: current-context is not set; {_defined('contexts', files)}")
    _, chosen = _find(where, "context", wanted, files, _Context)
    by_context = f"{where}: context {wanted!r}"
    place, cluster = _find(by_context, "cluster", chosen.cluster, files, Cluster)
    _check_cluster(place, cluster)
    user = User()
    if chosen.user:
        place, user = _find(by_context, "user", chosen.user, files, User)
        _check_user(place, user)
    return SelectedContext(tuple(paths), wanted, cluster, user)


def _existing_files(kubeconfig: str) -> list[Path]:
    names = [name for name in kubeconfig.split(os.pathsep) if name]
    paths = [path for name in dict.fromkeys(names) if (path := _existing_file(name))]
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
        document = read_yaml(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"kubeconfig {path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"kubeconfig {path}: is not YAML: {error}") from error
    if document is None:  # nothing in it means nothing set
        return _Kubeconfig()
    if not isinstance(document, dict):
        raise ConfigurationError(f"kubeconfig {path}: is not a mapping with contexts, clusters and users")
    try:
        return msgspec.convert(document, _Kubeconfig)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"kubeconfig {path}: {error}") from error


_PATHS = ("certificate_authority", "client_certificate", "client_key", "token_file")


def _absolute(path: Path, entry: S) -> S:
    """Resolve the paths in `entry` relative to the folder of its kubeconfig, a plugin's command included."""
    folder = path.absolute().parent
    names = [name for name in _PATHS if getattr(entry, name, "")]
    entry = msgspec.structs.replace(entry, **{name: str(folder / getattr(entry, name)) for name in names})
    plugin = getattr(entry, "exec", None)
    if plugin is not None and os.sep in plugin.command:
        plugin = msgspec.structs.replace(plugin, command=str(folder / plugin.command))
        entry = msgspec.structs.replace(entry, exec=plugin)
    return entry


def _find(where: str, what: str, name: str, files: _Files, cls: type[S]) -> tuple[str, S]:
    """Return the place of an entry, for messages, and the first entry of that name with absolute paths."""
    for path, file in files:
        place = f"kubeconfig {path}: {what} {name!r}"
        items = [item for item in getattr(file, f"{what}s") if item is not None and item.name == name]
        _require(len(items) <= 1, f"{place} is defined twice")
        for item in items:
            try:
                return place, _absolute(path, msgspec.convert(getattr(item, what) or {}, cls))
            except msgspec.ValidationError as error:
                raise ConfigurationError(f"{place}: {error}") from error
    raise ConfigurationError(f"{where}: {what} {name!r} is not defined; {_defined(f'{what}s', files)}")


def _defined(kind: str, files: _Files) -> str:
    names = sorted({item.name for _, file in files for item in getattr(file, kind) if item is not None})
    return f"defined: {', '.join(map(repr, names))}" if names else "none is defined"


def _check_cluster(where: str, cluster: Cluster) -> None:
    try:
        netloc = urlsplit(cluster.url).netloc
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    _require("@" not in netloc, f"{where}: server must not contain a user name: set username")
    problem = url_problem(cluster.proxy_url) if cluster.proxy_url else ""
    _require(not problem, f"{where}: proxy-url {problem}")
    authority, authority_data = cluster.certificate_authority, cluster.certificate_authority_data
    _check_pem(where, "certificate-authority", authority, authority_data)
    insecure = cluster.is_tls and cluster.insecure_skip_tls_verify in TRUE
    both = insecure and (authority or authority_data)
    _require(not both, f"{where}: certificate-authority and insecure-skip-tls-verify cannot both be set")


def _check_user(where: str, user: User) -> None:
    _check_pem(where, "client-certificate", user.client_certificate, user.client_certificate_data)
    _check_pem(where, "client-key", user.client_key, user.client_key_data)
    has_certificate = bool(user.client_certificate or user.client_certificate_data)
    has_key = bool(user.client_key or user.client_key_data)
    _require(has_certificate == has_key, f"{where}: client-certificate and client-key must be given together")
    if user.token_file and not user.token:
        _check_file(where, "tokenFile", user.token_file)
    basic = user.username or user.password
    _require(not basic or user.username, f"{where}: password is set without username")
    both = basic and (user.token or user.token_file)
    _require(not both, f"{where}: token and username cannot both be set")
    provider = "auth-provider is not supported: use a credential plugin (exec)"
    _require(user.auth_provider is None, f"{where}: {provider}")
    others = user.as_uid or user.as_groups or user.as_user_extra
    _require(user.as_user or not others, f"{where}: as-uid, as-groups and as-user-extra need as")
    lines = {"token": (user.token,), "as": (user.as_user, user.as_uid), "as-groups": user.as_groups}
    lines |= {f"as-user-extra {key!r}": values for key, values in user.as_user_extra.items()}
    for name, values in lines.items():
        single = all(character not in value for value in values if value for character in "\r\n\0")
        _require(single, f"{where}: {name} must be a single line")
    if user.exec is not None:
        _check_exec(f"{where}: exec", user.exec)


def _check_exec(where: str, config: ExecConfig) -> None:
    _require(config.command, f"{where}: command is not set")
    version = config.api_version
    allowed = " or ".join(_EXEC_VERSIONS)
    _require(version in _EXEC_VERSIONS, f"{where}: apiVersion {version!r} is not supported: use {allowed}")
    named = all(item and item.get("name") and "=" not in item["name"] for item in config.env)
    _require(named, f"{where}: env needs a name without '=' in each entry")


def _check_pem(where: str, name: str, file: str, data: str) -> None:
    _require(not (file and data), f"{where}: {name} and {name}-data cannot both be set")
    if data:
        try:
            base64.standard_b64decode(data)
        except (binascii.Error, ValueError) as error:
            raise ConfigurationError(f"{where}: {name}-data is not base64: {error}") from error
    elif file:
        _check_file(where, name, file)


def _check_file(where: str, name: str, file: str) -> None:
    try:
        Path(file).open("rb").close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(f"{where}: {name} {file!r} cannot be read: {reason}") from error


def _require(condition: object, message: str) -> None:
    if not condition:
        raise ConfigurationError(message)


def _names(paths: Iterable[Path]) -> str:
    return os.pathsep.join(map(str, paths))
