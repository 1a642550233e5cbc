"""Converts the stories260K checkpoint (llama2.c format) into a Hugging Face Llama folder and checks it.

    python tests/golden/stories260k_to_hf.py INPUT_FOLDER OUTPUT_FOLDER

INPUT_FOLDER holds stories260K.bin, tok512.bin and stories260K.md from huggingface.co/karpathy/tinyllamas;
OUTPUT_FOLDER receives config.json and model.safetensors (1 MB). The greedy continuation by transformers from
token BOS = 1 must be the text printed in stories260K.md. It is a real trained model with grouped-query attention
(8 heads, 4 key/value heads) and tied embeddings, small enough for a test.

Formats, from github.com/karpathy/llama2.c (run.c, version-0 export):
    stories260K.bin  7 int32: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size (negative: untied),
                     seq_len; then float32, every kind stacked over layers, matrices [out, in]:
                     embed, rms_att, wq, wk, wv, wo, rms_ffn, w1, w2, w3, rms_final, 2 rope tables
    tok512.bin       int32 max_token_length; per token: float32 score, int32 length, bytes

Rotary embedding: llama2.c rotates neighbours (x[2i], x[2i+1]), Hugging Face rotates (x[i], x[i + d/2]). The rows
of wq and wk are therefore reordered in each head, evens first, then odds.
"""

import json
import re
import struct
import sys
from pathlib import Path

import golden_packages  # noqa: F401
import numpy as np
from safetensors.numpy import save_file

BOS = 1
FILES = ("stories260K.bin", "tok512.bin", "stories260K.md")


def read_checkpoint(path):
    """Returns (Hugging Face config, {Hugging Face name: float32 array})."""
    raw = path.read_bytes()
    dim, hidden, layers, heads, kv_heads, vocab, seq = struct.unpack("<7i", raw[:28])
    assert vocab > 0, "a negative vocabulary size means untied embeddings: not this model"
    data, at = np.frombuffer(raw, "<f4", offset=28), 0

    def take(*shape):
        nonlocal at
        at += int(np.prod(shape))
        return data[at - int(np.prod(shape)): at].reshape(shape)

    def half_split(w):  # [out, in]: rows of each head (2i, 2i+1) -> (i, i + d/2)
        return w.reshape(-1, d // 2, 2, w.shape[-1]).transpose(0, 2, 1, 3).reshape(w.shape)

    d, kv = dim // heads, dim // heads * kv_heads
    embed = take(vocab, dim)
    stacked = {
        "input_layernorm": take(layers, dim),
        "self_attn.q_proj": take(layers, dim, dim), "self_attn.k_proj": take(layers, kv, dim),
        "self_attn.v_proj": take(layers, kv, dim), "self_attn.o_proj": take(layers, dim, dim),
        "post_attention_layernorm": take(layers, dim),
        "mlp.gate_proj": take(layers, hidden, dim), "mlp.down_proj": take(layers, dim, hidden),
        "mlp.up_proj": take(layers, hidden, dim),
    }
    norm, cos, _ = take(dim), take(seq, d // 2), take(seq, d // 2)
    assert at == data.size, "file size does not match its header"
    angle = np.arange(seq)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    assert np.abs(cos - np.cos(angle)).max() < 1e-4, "not rope_theta 10000"

    weights = {"model.embed_tokens.weight": embed, "model.norm.weight": norm}
    for name, w in stacked.items():
        for i in range(layers):
            x = half_split(w[i]) if name.endswith(("q_proj", "k_proj")) else w[i]
            weights[f"model.layers.{i}.{name}.weight"] = x
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=vocab, hidden_size=dim,
                  intermediate_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
                  num_key_value_heads=kv_heads, max_position_embeddings=seq, rms_norm_eps=1e-5, rope_theta=10000.0,
                  tie_word_embeddings=True, hidden_act="silu", attention_bias=False, mlp_bias=False,
                  bos_token_id=BOS, eos_token_id=2, torch_dtype="float32")
    return config, {n: np.ascontiguousarray(w, dtype=np.float32) for n, w in weights.items()}


def read_pieces(path):
    raw, at, pieces = path.read_bytes(), 4, []
    while at < len(raw):
        (length,) = struct.unpack_from("<i", raw, at + 4)
        pieces.append(raw[at + 8: at + 8 + length])
        at += 8 + length
    return pieces


def decode(pieces, tokens):
    """As run.c prints: no space after BOS, <0xHH> is a byte."""
    out = b""
    for previous, token in zip(tokens, tokens[1:]):
        piece = pieces[token]
        if previous == BOS and piece.startswith(b" "):
            piece = piece[1:]
        if byte := re.fullmatch(rb"<0x([0-9A-F]{2})>", piece):
            piece = bytes([int(byte[1], 16)])
        out += piece
    return out.decode()


def published_text(path):
    """The greedy output quoted in stories260K.md."""
    return re.search(r"-t 0\.0\n(.*?)\n```", path.read_text(), re.S)[1]


def convert(source, target):
    absent = [f for f in FILES if not (source / f).is_file()]
    if absent:
        sys.exit(f"stories260k_to_hf: {source} lacks {', '.join(absent)}; "
                 "get them from huggingface.co/karpathy/tinyllamas (folder stories260K)")
    config, weights = read_checkpoint(source / FILES[0])
    target.mkdir(parents=True, exist_ok=True)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})


def greedy(folder, steps=256):
    """Greedy continuation of BOS by transformers: (tokens with BOS, smallest lead of the best logit)."""
    import torch
    from transformers import LlamaForCausalLM
    model = LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    tokens, lead = [BOS], float("inf")
    with torch.no_grad():
        for _ in range(steps):
            top = model(torch.tensor([tokens])).logits[0, -1].topk(2)
            lead = min(lead, (top.values[0] - top.values[1]).item())
            if top.indices[0] == BOS:      # run.c stops there
                break
            tokens.append(top.indices[0].item())
    return tokens, lead


def check(source, target):
    """Asserts that transformers, on the converted folder, writes the published text; returns greedy()."""
    tokens, lead = greedy(target)
    text, published = decode(read_pieces(source / "tok512.bin"), tokens), published_text(source / "stories260K.md")
    assert text.rstrip() == published.rstrip(), f"greedy text differs:\n{text}\n--- published:\n{published}"
    return tokens, lead


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
    tokens, lead = check(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}: {len(tokens)} tokens agree with the published text; smallest lead of the best logit {lead:.1e}")
