"""The parts of `benches/card.py`: evidence from an NVIDIA card."""
