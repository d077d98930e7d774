"""The programs of the scenarios: what is played on a running engine, inside the target's interpreter."""
