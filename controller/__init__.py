"""The placement controller: composes `informers`, `ledger` and `placement` and performs what they decide.

The flow is watch -> cache -> queue -> reconcile -> decide -> write; `controller.app` puts it together.
"""
