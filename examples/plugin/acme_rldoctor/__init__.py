"""What the acme cluster and its trainer need rldoctor to know."""
