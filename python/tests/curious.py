"""A package that looks for a GPU while it is imported, by what PyTorch would look at."""

import os

WHILE_IMPORTING = os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK")
