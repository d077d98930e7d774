"""Plain vLLM."""
