"""Launch files: from what people run to a RolloutPlan, and back as fixes."""
