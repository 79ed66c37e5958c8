"""Settings: flags, environment variables, their types, defaults and help."""
