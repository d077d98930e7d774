"""Programs that have a framework's own trainer answer; its record names the one of a framework."""
