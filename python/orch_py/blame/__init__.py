"""Which part of a graph makes a runtime's outputs wrong: windows of nodes, cut out, fed and judged."""
