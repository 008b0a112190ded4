"""Models as they are built, and the references that every run is compared with."""
