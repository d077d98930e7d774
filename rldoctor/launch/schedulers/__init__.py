"""Schedulers: what the file that starts a launch asks for it to run on, as ``scheduler.*`` settings of the plan."""
