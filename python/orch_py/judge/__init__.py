"""Whether outputs agree with the reference."""
