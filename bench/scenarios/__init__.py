"""The scenarios of the benchmarks: one module per kind. `catalog` lists all of them."""
