"""The Kubernetes objects that the controller reads and writes, and the names and rules that go with them."""
