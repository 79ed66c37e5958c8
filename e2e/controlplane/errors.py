"""What can go wrong with a control plane, one class per operation that failed.

Every message is one line that a person can act on; what would need more lines (the end of a log) travels as
notes of the exception, which pytest prints and the command line shows above the error.
"""


class ControlPlaneError(Exception):
    """Root of everything this package raises on purpose; `exit_status` is the command line's answer."""

    exit_status = 1


class MissingTool(ControlPlaneError):
    """A program that has to be installed by hand (Go, kubectl) is not on the PATH."""

    exit_status = 2


class InvalidArgument(ControlPlaneError):
    """A value given by the caller cannot be used."""

    exit_status = 2


class Unsupported(ControlPlaneError):
    """The cluster at hand was not made by us and cannot do this (pause a component, read its audit log)."""

    exit_status = 2


class BuildFailed(ControlPlaneError):
    """The Go compiler refused, or the cache folder cannot be written."""


class ComponentEnded(ControlPlaneError):
    """A component's process ended although nobody stopped it."""


class NotReady(ControlPlaneError):
    """Something awaited did not happen in time."""


class KubectlFailed(ControlPlaneError):
    """Kubectl ended with a status other than 0."""


class KubeconfigInvalid(ControlPlaneError):
    """A kubeconfig is missing, or holds nothing that this package can connect with."""

    exit_status = 2


class ApiUnreachable(ControlPlaneError):
    """The API server did not answer: whether it did what was asked is unknown."""


class ApiRefused(ControlPlaneError):
    """The API server answered with an error status."""

    def __init__(self, method: str, path: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
