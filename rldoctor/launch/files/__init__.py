"""Opening launch files safely: text, YAML, TOML, JSON."""
