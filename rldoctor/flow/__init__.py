"""The way of one examination: collect, probe, judge, prove, report."""
