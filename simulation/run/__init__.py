"""Running seeds: single runs, batches, worker processes, progress and reports."""
