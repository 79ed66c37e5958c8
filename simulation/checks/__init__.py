"""The checks of every run: invariants, write order, liveness, end state, bounded work, coverage."""
