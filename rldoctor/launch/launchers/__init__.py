"""What stands before the program: accelerate, torchrun, ray job submit, srun, and the processes they start."""
