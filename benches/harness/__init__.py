"""What the benchmarks share: the clock, the graph, one file for each tool, the table."""
