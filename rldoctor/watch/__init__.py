"""Watches a run while it goes on: its log as it grows, or its trainer from inside. Both judge as ``triage`` does."""
