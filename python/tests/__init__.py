"""Tests of the worker server. `python -m unittest` in this folder's parent; they need no package at all."""
