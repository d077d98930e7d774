"""3xx: devices, ranks, seeds and communication."""
