"""Which versions go together here, and a set of version changes from which none can be dropped."""
