"""The users of a local control plane, and their groups.

Each run creates new tokens. The controller has the identity of its ServiceAccount, and so exactly the rights
in the project's manifests: a missing verb causes a 403.
"""

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

CONTROLLER_NAMESPACE = "open-rl-scheduler"
CONTROLLER_SERVICE_ACCOUNT = "open-rl-scheduler"
CONTROLLER_USER = f"system:serviceaccount:{CONTROLLER_NAMESPACE}:{CONTROLLER_SERVICE_ACCOUNT}"

ADMIN = "admin"
CONTROLLER = "controller"

MASTERS = "system:masters"

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
# DER of SEC 1's ECPrivateKey without the optional public key: version 1, a 32 byte key, the curve's name.
_EC_PREFIX = bytes.fromhex("30310201010420")
_EC_SUFFIX = bytes.fromhex("a00a06082a8648ce3d030107")


@dataclass(frozen=True)
class Identity:
    """A user in the token file of the API server."""

    user: str
    groups: tuple[str, ...]
    token: str

    def token_line(self) -> str:
        groups = f',"{",".join(self.groups)}"' if self.groups else ""
        return f"{self.token},{self.user},{self.user}{groups}"


def new_identities() -> Mapping[str, Identity]:
    """Create the identities of a run, by the name of their kubeconfig."""
    users = {
        ADMIN: ("kubernetes-admin", (MASTERS,)),
        # The bootstrap role of system:kube-controller-manager expects one ServiceAccount per controller.
        # Without masters it may not update resourceclaims/status, and would never clear allocations.
        "kube-controller-manager": ("system:kube-controller-manager", (MASTERS,)),
        "kube-scheduler": ("system:kube-scheduler", ()),
        "kwok": ("kwok", (MASTERS,)),
        CONTROLLER: (
            CONTROLLER_USER,
            (
                "system:serviceaccounts",
                f"system:serviceaccounts:{CONTROLLER_NAMESPACE}",
                "system:authenticated",
            ),
        ),
    }
    return {name: Identity(user, groups, secrets.token_urlsafe(32)) for name, (user, groups) in users.items()}


def new_signing_key() -> bytes:
    """Create a P-256 private key in PEM, which signs ServiceAccount tokens.

    The standard library cannot generate keys. Any number below the curve's order is valid, and the API server
    derives the public key.
    """
    number = secrets.randbelow(P256_ORDER - 1) + 1
    body = base64.encodebytes(_EC_PREFIX + number.to_bytes(32, "big") + _EC_SUFFIX)
    return b"-----BEGIN EC PRIVATE KEY-----\n" + body + b"-----END EC PRIVATE KEY-----\n"
