"""Rules that refuse: policies and webhooks, with the answers that they have in a real API server.

Sources: `pkg/admission/plugin/policy/validating` and `pkg/admission/plugin/webhook` of `k8s.io/apiserver`.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus

from simulation.apiserver.admission.chain import AdmissionRequest, Rule
from simulation.apiserver.kinds import Kind
from simulation.apiserver.refusals import Refusal, bad_request

POLICY_CODES = {
    "Unauthorized": HTTPStatus.UNAUTHORIZED,
    "Forbidden": HTTPStatus.FORBIDDEN,
    "RequestEntityTooLarge": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "Invalid": HTTPStatus.UNPROCESSABLE_ENTITY,
}
"""The reasons that a ValidatingAdmissionPolicy may give, and their codes."""


class DenyingPolicy(Rule):
    """A ValidatingAdmissionPolicy that denies every creation. `reason` selects the code."""

    def __init__(
        self,
        *kinds: Kind,
        message: str = "a cost centre is missing",
        reason: str = "Invalid",
        name: str = "rule-of-the-owner",
        namespaces: Collection[str] = (),
    ) -> None:
        super().__init__(*kinds, namespaces=namespaces)
        self._message = message
        self._reason = reason
        self._name = name

    def check(self, request: AdmissionRequest) -> None:
        """Deny the creation."""
        denied = (
            f"ValidatingAdmissionPolicy '{self._name}' with binding '{self._name}' "
            f"denied request: {self._message}"
        )
        raise Refusal(
            POLICY_CODES[self._reason],
            self._reason,
            f'{request.kind} "{request.name}" is forbidden: {denied}',
            # The cause names no field.
            _details(request, {"message": denied}),
        )


class DenyingWebhook(Rule):
    """A validating webhook that denies every creation, with any code from 400 on."""

    def __init__(
        self,
        *kinds: Kind,
        message: str = "a cost centre is missing",
        code: HTTPStatus = HTTPStatus.BAD_REQUEST,
        reason: str = "",
        name: str = "check.example.com",
        supports_dry_run: bool = True,
        namespaces: Collection[str] = (),
    ) -> None:
        super().__init__(*kinds, namespaces=namespaces)
        self._message = message
        self._code = code
        self._reason = reason
        self._name = name
        self._supports_dry_run = supports_dry_run

    def check(self, request: AdmissionRequest) -> None:
        """Deny the creation."""
        if request.dry_run and not self._supports_dry_run:
            raise bad_request(f'admission webhook "{self._name}" does not support dry run')
        text = f'admission webhook "{self._name}" denied the request: {self._message}'
        raise Refusal(self._code, self._reason, text)


class FailingWebhook(Rule):
    """A webhook that does not respond, with failure policy `Fail`."""

    def __init__(
        self, *kinds: Kind, name: str = "check.example.com", namespaces: Collection[str] = ()
    ) -> None:
        super().__init__(*kinds, namespaces=namespaces)
        self._name = name

    def check(self, _request: AdmissionRequest) -> None:
        """Fail the creation."""
        text = (
            f'Internal error occurred: failed calling webhook "{self._name}": failed to call webhook: '
            'Post "https://127.0.0.1:1/none?timeout=1s": dial tcp 127.0.0.1:1: connect: connection refused'
        )
        raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", text)


class MissingReference(Rule):
    """A Pod that names something absent, e.g. its ServiceAccount: 403."""

    def __init__(
        self, *kinds: Kind, why: str = 'error looking up service account: serviceaccount "trainer" not found'
    ) -> None:
        super().__init__(*kinds)
        self._why = why

    def check(self, request: AdmissionRequest) -> None:
        """Refuse the creation."""
        text = f'{request.kind} "{request.name}" is forbidden: {self._why}'
        raise Refusal(HTTPStatus.FORBIDDEN, "Forbidden", text, _details(request))


def _details(request: AdmissionRequest, *causes: dict[str, str]) -> dict[str, object]:
    details: dict[str, object] = {"name": request.name, "kind": request.kind.plural}
    if request.kind.group:
        details["group"] = request.kind.group
    if causes:
        details["causes"] = causes
    return details
