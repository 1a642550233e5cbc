"""Reads what a run has written into its folder."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

from ._program import Error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_Path = Union[str, "os.PathLike[str]"]


def read_events(run: _Path) -> list[dict[str, Any]]:
    """Return the log of a run, one dictionary for each event, in the order in which they happened.

    ``event`` says what it is: ``"step"``, ``"eval"``, ``"message"`` or others; docs/formats.md
    has their fields. Numbers that were not finite are None.

    Parameters
    ----------
    run : path
        The run's folder.
    """
    file = Path(run) / "events.jsonl"
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise Error(f"{file}: {error.strerror}") from None
    *whole, _ = text.split("\n")  # the last line may have been cut short by a crash
    return [json.loads(line) for line in whole]


def newest_checkpoint(run: _Path) -> Optional[Path]:
    """Return the folder of a run's newest checkpoint, or None if it has none yet."""
    found = [folder for folder in (Path(run) / "checkpoints").glob("step-*") if (folder / "checkpoint.json").is_file()]
    return max(found, key=checkpoint_step, default=None)


def checkpoint_step(folder: Path) -> int:
    """The number of steps after which a checkpoint was written."""
    digits = folder.name[len("step-"):]
    return int(digits) if digits.isdigit() else -1


def load(run: _Path) -> dict[str, "NDArray[np.float32]"]:
    """Return the weights of a run's newest checkpoint by the names of the tensors.

    Parameters
    ----------
    run : path
        The run's folder, or that of one checkpoint.

    Returns
    -------
    dict
        Arrays of float32 that the caller may change.
    """
    folder = Path(run)
    if not (folder / "weights.safetensors").is_file():
        newest = newest_checkpoint(folder)
        if newest is None:
            raise Error(f"{folder} must be the folder of a run with a checkpoint, or a checkpoint; there is none")
        folder = newest
    return _read_safetensors(folder / "weights.safetensors")


def save(file: _Path, tensors: Mapping[str, "NDArray[np.float32]"]) -> None:
    """Write arrays of float32 as a safetensors file, such as ``train.init`` of a recipe names for an external model.

    Parameters
    ----------
    file : path
        The file to write; one of that name is replaced once the new one is whole.
    tensors : mapping
        Arrays by name.
    """
    import numpy as np

    header, begin = {}, 0
    for name, array in tensors.items():
        end = begin + 4 * int(np.prod(array.shape))
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = Path(f"{os.fspath(file)}.partial")
    with open(partial, "wb") as target:
        target.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            target.write(np.ascontiguousarray(array, "<f4").tobytes())
        target.flush()
        os.fsync(target.fileno())
    os.replace(partial, file)


def _read_safetensors(file: Path) -> dict[str, "NDArray[np.float32]"]:
    """The format: 8 bytes with the length of a JSON header, the header, and the values."""
    import numpy as np

    with open(file, "rb") as source:
        (length,) = struct.unpack("<Q", source.read(8))
        header = json.loads(source.read(length))
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            source.seek(8 + length + begin)
            values = source.read(end - begin)
            if entry["dtype"] == "BF16":  # the upper half of a float32
                array = (np.frombuffer(values, np.uint16).astype(np.uint32) << 16).view(np.float32)
            elif entry["dtype"] in ("F32", "F16"):
                array = np.frombuffer(values, "<f4" if entry["dtype"] == "F32" else "<f2").astype(np.float32)
            else:
                raise Error(f"{file}: tensor {name} must be F32, F16 or BF16, got {entry['dtype']}")
            tensors[name] = array.reshape(entry["shape"])
    return tensors
