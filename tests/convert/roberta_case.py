"""A random RoBERTa with its tokenizer, as transformers writes them, for tests that need it."""

import subprocess

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>",
           "unk_token": "<unk>", "mask_token": "<mask>"}


def make_tokenizer(texts, size=400):
    """Byte-level BPE with RoBERTa's special tokens and its post-processor."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)


def make_model(kind, tokenizer, seed=0, **fields):
    """kind: a class of transformers. All weights are random, those of norms and biases too."""
    torch.manual_seed(seed)
    config = dict(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                  intermediate_size=48, max_position_embeddings=66, type_vocab_size=1, layer_norm_eps=1e-5,
                  initializer_range=0.2, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    model = kind(transformers.RobertaConfig(**(config | fields)))
    for parameter in model.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=0.5, std=0.3)
    return model.eval()


def save(model, tokenizer, folder):
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def thinwire(binary, *arguments):
    """What the command prints; its messages where it fails."""
    done = subprocess.run([binary, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr
