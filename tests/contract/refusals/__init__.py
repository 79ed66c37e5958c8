"""Contract tests of refusals by the API server."""
