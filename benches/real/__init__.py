"""What `real_sizes.py` runs: the models, and the same work by hand. Nothing here imports orch."""
