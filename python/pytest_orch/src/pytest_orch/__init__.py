"""A pytest plugin: each case of an orch spec is a test, and its verdict is the test's outcome."""
