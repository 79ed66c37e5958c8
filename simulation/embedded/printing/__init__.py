"""Tables, as `kubectl get` shows them: the server decides on columns and cells, kubectl only aligns them."""
