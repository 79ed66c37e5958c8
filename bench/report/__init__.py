"""From samples to tables, and from tables to a terminal or to Markdown. Nothing here measures."""
