"""Tables from samples, for the terminal or as Markdown. Nothing here measures."""
