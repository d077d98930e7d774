"""1xx: what is installed, the machine and its limits."""
