"""Programs for the target's interpreter; standard library and the patient's own stack only."""
