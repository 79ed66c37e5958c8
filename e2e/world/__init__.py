"""What a real cluster does to workers beyond the contract: it refuses, changes, evicts and moves them."""
