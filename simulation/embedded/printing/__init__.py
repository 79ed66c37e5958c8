"""Tables for `kubectl get`: the server chooses columns and cells, and kubectl aligns them."""
