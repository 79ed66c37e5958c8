"""What must hold in every run: invariants, liveness, write order, bounded work, coverage."""
