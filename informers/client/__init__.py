"""The HTTP client beneath the informers: configuration, credentials, requests, watch streams."""
