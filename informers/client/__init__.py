"""HTTP client: configuration, credentials, connections, requests, lists and watch streams."""
