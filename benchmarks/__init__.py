"""`python -m benchmarks.<name>`: measures one part beside its peer or physical limit; prints a table, writes JSON."""
