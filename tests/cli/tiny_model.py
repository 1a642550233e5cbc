"""Shared by tests of commands that read a model: Hugging Face folders of tiny Llamas on bytes."""

import json
import random
import struct

VOCAB = 258  # 256 bytes, EOS, BOS
EOS = 256


def write_model(folder, hidden, values_of, **config):
    """values_of(name, count): the values of a tensor."""
    between = 16
    config = {
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": hidden,
        "intermediate_size": between,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
        "bos_token_id": 256,
    } | config
    layer = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden]}
    layer |= {f"self_attn.{name}_proj": [hidden, hidden] for name in "qkvo"}
    layer |= {"mlp.gate_proj": [between, hidden], "mlp.up_proj": [between, hidden], "mlp.down_proj": [hidden, between]}
    shapes = {"model.embed_tokens.weight": [VOCAB, hidden], "model.norm.weight": [hidden]}
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [VOCAB, hidden]
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = struct.pack(f"<{count}f", *values_of(name, count))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocabulary.json").write_text('{"vocabulary": "byte"}\n')
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_tiny_model(folder, **config):
    """A Llama of a few weights."""
    write_model(folder, 8, lambda name, count: ((i * 7919 % 997 - 498) / 997 for i in range(count)), **config)


def write_parrot(folder, follows, **config):
    """A Llama that continues each byte or token of `follows` with its value, and all others with themselves."""
    hidden = 64
    draws = random.Random(1)
    codes = [[draws.choice((-1.0, 1.0)) for _ in range(hidden)] for _ in range(VOCAB)]
    heads = [[0.0] * hidden for _ in range(VOCAB)]
    follows = {ord(before) if isinstance(before, str) else before: ord(after) if isinstance(after, str) else after
               for before, after in follows.items()}
    for token in range(VOCAB):
        head = heads[follows.get(token, token)]
        for i, value in enumerate(codes[token]):
            head[i] += value

    def values_of(name, count):
        if name == "model.embed_tokens.weight":
            return [value for code in codes for value in code]
        if name == "lm_head.weight":
            return [value for head in heads for value in head]
        return [1.0 if "norm" in name else 0.0] * count

    write_model(folder, hidden, values_of, tie_word_embeddings=False, **config)
