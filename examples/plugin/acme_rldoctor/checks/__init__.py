"""The checks: each module is one."""
