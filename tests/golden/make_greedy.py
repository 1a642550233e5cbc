"""Golden greedy continuation of the stories260K model: writes greedy.json beside itself.

    python tests/golden/make_greedy.py FOLDER        FOLDER as INPUT_FOLDER of stories260k_to_hf.py

For an import test: convert the checkpoint with stories260k_to_hf.py, load it, and compare.

File:
    tokens            BOS = 1, then 256 greedy tokens; asserted to be the text printed in stories260K.md
    text              these tokens decoded
    mean_nll          mean over tokens 1..256 of -log p(token | all before), nats
    smallest_lead     smallest (best logit - second logit) over the 256 choices: how much rounding
                      the greedy choice tolerates
"""

import json
import sys
import tempfile
from pathlib import Path

from stories260k_to_hf import check, convert, decode, read_pieces

HERE = Path(__file__).resolve().parent


def mean_nll(folder, tokens):
    import torch
    from transformers import LlamaForCausalLM
    model = LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    row = torch.tensor([tokens])
    with torch.no_grad():
        log_p = model(row[:, :-1]).logits.double().log_softmax(-1)
    return -log_p.gather(-1, row[:, 1:, None]).mean().item()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        convert(source, Path(folder))
        tokens, lead = check(source, Path(folder))
        nll = mean_nll(folder, tokens)
    text = decode(read_pieces(source / "tok512.bin"), tokens)
    golden = {"tokens": tokens, "text": text, "mean_nll": nll, "smallest_lead": lead}
    (HERE / "greedy.json").write_text(json.dumps(golden) + "\n")
    print(f"{len(tokens)} tokens, mean nll {nll:.6f}, smallest lead {lead:.1e}")
