"""Folders in the manner of Llama 2, with a tokenizer.model, a tokenizer.json or both, and with added tokens: texts that
name special tokens get the ids and logits that transformers gives, before and after import and export."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
PIECES, ROWS = 400, 403
ADDED = {"<|im_start|>": 400, "<|im_end|>": 401, "[PAD]": 402}
TEXTS = ["", "The wire", "<s>", "The wire</s>", "<s>The wire</s>The other", "</s>\n<s>\n", "<unk>a", "a[PAD][PAD]",
         "<|im_start|>user\nThe wire<|im_end|>\n<|im_start|>assistant\nIt is thin.<|im_end|>\n", "thin</s>wire <|im_end|>",
         "< s>", "<|im_end", "Grüße</s>世界"]
SPACED = [" The wire", "<s> The wire", "wire</s>  thin <|im_end|> wire"]  # versions of transformers differ here

PACKAGES = OptionalPackages()
with PACKAGES:
    import sentencepiece
    import tokenizers
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()


def thinwire(*arguments):
    done = subprocess.run([THINWIRE, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, f"thinwire {arguments}: {done.stderr}"
    return done.stdout


def write_folder(folder, **config):
    """A random Llama with a tokenizer.model and tokens added to it, as transformers 4 wrote such folders."""
    folder.mkdir()
    with open(folder / "tokenizer.model", "wb") as out, open(__file__) as text:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=text, model_writer=out, model_type="bpe", vocab_size=PIECES, byte_fallback=True,
            split_digits=True, normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2)
    torch.manual_seed(0)
    shape = dict(vocab_size=ROWS, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                 num_key_value_heads=2, initializer_range=0.3, bos_token_id=1, eos_token_id=401, pad_token_id=402)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape)).save_pretrained(folder)
    (folder / "added_tokens.json").write_text(json.dumps(ADDED))
    special = {"bos_token": "<s>", "eos_token": "<|im_end|>", "unk_token": "<unk>", "pad_token": "[PAD]",
               "additional_special_tokens": ["<|im_start|>"]}
    decoder = {str(i): {"content": name, "special": True, "normalized": False, "lstrip": False, "rstrip": False,
                        "single_word": False}
               for name, i in {"<unk>": 0, "<s>": 1, "</s>": 2, **ADDED}.items()}
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
                "added_tokens_decoder": decoder, "clean_up_tokenization_spaces": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | special | config))
    (folder / "special_tokens_map.json").write_text(json.dumps(special))


def write_tokenizer_json(folder, prepends):
    """As transformers 4 converted it: with a space before every part of a text, or only before its first."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
    if prepends:
        replace = tokenizers.normalizers.Replace(" ", "\u2581")
        tokenizer.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.Prepend("\u2581"), replace])
        tokenizer.pre_tokenizer = None
    tokenizer.save(str(folder / "tokenizer.json"))


@PACKAGES.needed
class SpecialTokensTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.hf = self.root / "hf"

    def check(self, tokenizer, texts):
        """Checks the folder, its import and its export, which transformers reads as well."""
        model = transformers.LlamaForCausalLM.from_pretrained(self.hf, dtype=torch.float32).eval()
        thinwire("import", self.hf, self.root / "imported")
        thinwire("export", self.root / "imported", self.root / "exported")
        exported = transformers.PreTrainedTokenizerFast.from_pretrained(self.root / "exported")
        for text in texts:
            ids = tokenizer.encode(text)
            self.assertEqual(ids[0], 1)
            self.assertEqual(exported.encode(text), ids, text)
            for folder in ("hf", "imported", "exported"):
                said = json.loads(thinwire("logits", self.root / folder, "--text", text))
                self.assertEqual(said["tokens"], ids, f"{folder}: {text!r}")
            with torch.no_grad():
                expected = model(torch.tensor([ids])).logits[0]
            self.assertLess((torch.tensor(said["logits"]) - expected).abs().max().item(), 1e-4, text)
        self.assertEqual((exported.eos_token_id, exported.pad_token_id), (401, 402))
        config = json.loads((self.root / "exported" / "config.json").read_text())
        self.assertEqual((config["eos_token_id"], config["pad_token_id"]), (401, 402))
        self.assertEqual((self.root / "exported" / "tokenizer.model").read_bytes(),
                         (self.hf / "tokenizer.model").read_bytes())

    def test_tokenizer_json_beside_a_model(self):
        write_folder(self.hf, legacy=False)
        write_tokenizer_json(self.hf, prepends=False)
        self.check(transformers.AutoTokenizer.from_pretrained(self.hf), TEXTS + SPACED)

    def test_tokenizer_json_that_puts_spaces_before_every_part(self):
        write_folder(self.hf, legacy=True)
        write_tokenizer_json(self.hf, prepends=True)
        self.check(transformers.PreTrainedTokenizerFast.from_pretrained(self.hf), TEXTS + SPACED)
        by_class = transformers.AutoTokenizer.from_pretrained(self.hf)
        for text in TEXTS:
            said = json.loads(thinwire("logits", self.hf, "--text", text))
            self.assertEqual(said["tokens"], by_class.encode(text), text)

    def test_a_model_alone(self):
        write_folder(self.hf, legacy=False)
        self.check(transformers.AutoTokenizer.from_pretrained(self.hf), TEXTS + SPACED)

    def test_a_model_alone_that_puts_spaces_before_every_part(self):
        write_folder(self.hf, legacy=True)
        self.check(transformers.AutoTokenizer.from_pretrained(self.hf), TEXTS)

    def test_a_chat_is_trained_on_single_tokens(self):
        write_folder(self.hf, legacy=False)
        write_tokenizer_json(self.hf, prepends=False)
        template = ("{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.hf)
        chat = [{"role": "user", "content": "The wire"}, {"role": "assistant", "content": "is thin."}]
        ids = tokenizer.apply_chat_template(chat, chat_template=template, return_dict=True)["input_ids"]
        (self.root / "chats.jsonl").write_text(json.dumps({"messages": chat}) + "\n")
        (self.root / "template").write_text(template)
        for file in ("tokenizer.json", "tokenizer.model"):
            thinwire("prepare", f"data.dir={self.root}/{file}.tokens", f"data.text={self.root}/chats.jsonl",
                     "data.records=chats", f"data.vocabulary_model={self.hf}/{file}", "data.validation_fraction=0",
                     f"data.chat_template={self.root}/template")
            shard = (self.root / f"{file}.tokens" / "train" / "00000.tws").read_bytes()
            got = [int.from_bytes(shard[64 + 2 * i : 66 + 2 * i], "little") for i in range(len(ids))]
            self.assertEqual(got, ids, file)


if __name__ == "__main__":
    unittest.main(verbosity=2)
