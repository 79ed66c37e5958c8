"""The scheduling queue, and the events that activate its waiting workers."""
