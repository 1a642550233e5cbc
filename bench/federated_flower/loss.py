"""loss.py WEIGHTS SET SEQUENCE: the mean loss, in nats, of the small Llama over all rows of a prepared set."""

import pathlib
import sys

import numpy as np
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

from federated_flower.model import load_model  # noqa: E402


def main():
    weights, folder, sequence = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    model = load_model(weights, sequence)
    tokens = np.fromfile(folder / "00000.tws", dtype="<u2", offset=64).astype(np.int64)
    rows = torch.from_numpy(np.stack([tokens[at:at + sequence + 1]
                                      for at in range(0, len(tokens) - sequence, sequence)]))
    with torch.no_grad():
        losses = [float(model(part)) * len(part) for part in rows.split(64)]
    print(sum(losses) / len(rows))


if __name__ == "__main__":
    main()
