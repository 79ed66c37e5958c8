"""The controller beside a real Kueue, which gates Pods until a quota allows them."""
