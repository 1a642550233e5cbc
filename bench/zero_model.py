"""A Hugging Face folder with a Llama whose weights are all zero, for measuring memory, which does not depend on
them. Its file has holes where the weights are, so it takes neither time nor disk."""

import json
import math
import struct

BYTES = {"F32": 4, "BF16": 2}


def shapes_of(hidden, inner, layers, vocab):
    layer = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden]}
    layer |= {f"self_attn.{name}_proj": [hidden, hidden] for name in "qkvo"}
    layer |= {"mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden], "mlp.down_proj": [hidden, inner]}
    shapes = {"model.embed_tokens.weight": [vocab, hidden]}
    for i in range(layers):
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in layer.items()}
    return shapes | {"model.norm.weight": [hidden], "lm_head.weight": [vocab, hidden]}


def write_zero_model(folder, *, hidden, inner, layers, heads, vocab, dtype="F32"):
    """Makes the folder. Returns the recipe's fields for a model of these shapes."""
    header, end = {}, 0
    for name, shape in shapes_of(hidden, inner, layers, vocab).items():
        begin, end = end, end + BYTES[dtype] * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "max_position_embeddings": 2048,
        "tie_word_embeddings": False, "rms_norm_eps": 1e-6}))
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    return [f"model.hidden={hidden}", f"model.layers={layers}", f"model.heads={heads}", f"model.vocab={vocab}",
            f"llama.intermediate={inner}"]
