"""Errors of a control plane, one class per failed operation.

Each message is one actionable line. Longer details, such as the end of a log, are notes of the exception.
pytest and the command line print them.
"""


class ControlPlaneError(Exception):
    """Base of the errors of this package. `exit_status` is that of the command line."""

    exit_status = 1


class MissingTool(ControlPlaneError):
    """A required program (Go, kubectl) is not on the PATH."""

    exit_status = 2


class InvalidArgument(ControlPlaneError):
    """An argument is invalid."""

    exit_status = 2


class Unsupported(ControlPlaneError):
    """The cluster does not support the operation, such as pausing a component."""

    exit_status = 2


class BuildFailed(ControlPlaneError):
    """The Go compiler failed, or the cache folder is not writable."""


class ComponentEnded(ControlPlaneError):
    """The process of a component ended unexpectedly."""


class NotReady(ControlPlaneError):
    """A condition was not met before its deadline."""


class KubectlFailed(ControlPlaneError):
    """Kubectl ended with a nonzero status."""


class KubeconfigInvalid(ControlPlaneError):
    """A kubeconfig is missing or has no usable entry."""

    exit_status = 2


class ApiUnreachable(ControlPlaneError):
    """The API server did not answer. The result of the request is unknown."""


class ApiRefused(ControlPlaneError):
    """The API server answered with an error status."""

    def __init__(self, method: str, path: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
