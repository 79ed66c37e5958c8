"""What the informers are measured with: a server of many Pods, and the processes that read from it."""
