"""The built-in checks, one file per code; installed as rldoctor_checks."""
