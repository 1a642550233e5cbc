"""The first import of each script here that needs Python packages: without them the script ends at once, with
the command that installs them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import needs  # noqa: E402

needs.packages("numpy", "safetensors", "torch", "transformers")
