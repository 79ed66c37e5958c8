"""Workers that the API server refuses (contract §5.10)."""
