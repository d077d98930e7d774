"""Running the patient: the runner, the probes and the children they start."""
