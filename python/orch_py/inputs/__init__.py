"""Inputs of models: made of texts, pictures and sounds, and the sets by which quantisation is calibrated."""
