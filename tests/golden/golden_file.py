"""Writes a safetensors file whose bytes depend on its contents only.

safetensors writes its metadata in random order; sorting the header keeps a regenerated file identical, so
that `git status` shows whether a trace really changed. Format: huggingface.co/docs/safetensors (8 bytes of
header length, JSON header padded with spaces to a multiple of 8, data).
"""

import json
import struct

import numpy as np
from safetensors.numpy import save


def write_golden(path, tensors, metadata):
    raw = save({name: np.ascontiguousarray(x) for name, x in tensors.items()}, metadata=metadata)
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8: 8 + length])
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length:])
