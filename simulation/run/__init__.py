"""Running seeds: one run, batches of them, workers, progress and reports."""
