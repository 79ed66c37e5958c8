"""The server of many Pods that the informer benchmarks use, and the processes that read from it."""
