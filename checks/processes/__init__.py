"""6xx and 9xx: Ray, processes, hosts, and what no pattern explains."""
