"""What the controller reports about itself: Events, gauges, counters and hand-off latency."""
