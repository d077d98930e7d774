"""What several checks read from versions, requirements, devices and launches."""
