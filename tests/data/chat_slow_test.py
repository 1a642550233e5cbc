"""Chats: `thinwire prepare` renders them and finds what the assistant says as transformers' apply_chat_template does,
token by token, for templates in the manner of the usual families and for noise."""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from optional_packages import OptionalPackages

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
CHATS = 60

PACKAGES = OptionalPackages()
with PACKAGES:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

CHATML = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}
{%- if message.role == 'assistant' %}{% generation %}{{ message.content }}{{ '<|im_end|>' }}{% endgeneration %}
{% else %}{{ message.content ~ "<|im_end|>" }}
{% endif %}
{{- '\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

QWEN = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}{{ tool | tojson }}{% endfor %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=-1, multi=true) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi and message.role == "user" and message.content is string and not message.content.startswith('<r>') %}
        {%- set ns.multi = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or loop.first %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}
        {%- if loop.index0 > ns.last and '</t>' in message.content %}
            {{- message.content.split('</t>')[-1].lstrip('\\n') }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '<|im_end|>' }}
        {%- endgeneration %}
        {{- '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {%- if message['role'] == 'assistant' %}
            {%- generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}
        {%- else %}
            {{- message['content'] | trim + '<|eot_id|>' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

MISTRAL = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- set users = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set others = loop_messages | rejectattr("role", "equalto", "user") | selectattr("content") | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate') }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if message == users[-1] %}{{- "[OTHERS]" ~ others | length }}{%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {%- generation %}{{- " " + message["content"]|trim + eos_token}}{% endgeneration %}
    {%- else %}
        {{- raise_exception("only user and assistant roles") }}
    {%- endif %}
{%- endfor %}
"""

ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n' }}{% generation %}{{ message['content'] + eos_token }}{% endgeneration %}

{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

TEMPLATES = {"chatml": CHATML, "qwen": QWEN, "llama3": LLAMA3, "mistral": MISTRAL, "zephyr": ZEPHYR}
MARKS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
WORDS = "the wire carries small payloads 2024 can't Grüße мир 世界 😀 <t> </t> <r> \\n {{ }} {% %} ' \" </s> \u00a0 \u3000".split(" ")


def make_tokenizer(folder, template):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    marks = [AddedToken(mark, special=True, normalized=False) for mark in MARKS]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(Path(__file__).read_text().splitlines(), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = template
    fast.save_pretrained(folder)
    return fast


def chats():
    draw = random.Random(3)

    def text():
        words = [draw.choice(WORDS) for _ in range(draw.randrange(1, 9))] + ["end"]
        return draw.choice(["", " ", "\n"]) + draw.choice([" ", "\n", "  "]).join(words) + draw.choice(["", " ", "\n\n"])

    made = []
    for _ in range(CHATS):
        messages = [{"role": "system", "content": text()}] if draw.random() < 0.5 else []
        for _ in range(draw.randrange(1, 4)):
            messages += [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]
        made.append(messages)
    return made


def prepare(folder, lines, *settings):
    (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    fields = {
        "data.dir": folder / "tokens",
        "data.text": json.dumps([str(folder / "lines.jsonl")]),
        "data.records": "chats",
        "data.vocabulary_model": folder / "tokenizer.json",
        "data.validation_fraction": 0,
    }
    (folder / "recipe.toml").write_text("")
    command = [THINWIRE, "prepare", folder / "recipe.toml", *(f"{key}={value}" for key, value in fields.items()), *settings]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return read_records(folder / "tokens" / "train" / "00000.tws")


def read_records(path):
    """Tokens and what is to be learnt of each record, as docs/formats.md says."""
    data = path.read_bytes()
    magic, version, width, tokens, records, _, _, flags, _ = struct.unpack_from("<8sIIQQQQQQ", data)
    assert (magic, version, flags) == (b"TWSHARD1", 2, 1)
    ids = struct.unpack_from(f"<{tokens}{'H' if width == 2 else 'I'}", data, 64)
    bits = data[64 + width * tokens :]
    mask = [bits[i // 8] >> (i % 8) & 1 for i in range(tokens)]
    lengths = struct.unpack_from(f"<{records}I", bits, (tokens + 7) // 8)
    made, at = [], 0
    for length in lengths:
        made.append((list(ids[at : at + length]), mask[at : at + length]))
        at += length
    return made


@PACKAGES.needed
class ChatTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def test_tokens_and_masks_are_those_of_transformers(self):
        for name, template in TEMPLATES.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                tokenizer = make_tokenizer(folder, template)
                got = prepare(Path(folder), [{"messages": messages} for messages in chats()])
                self.assertEqual(len(got), CHATS)
                for messages, (ids, mask) in zip(chats(), got):
                    expected = tokenizer.apply_chat_template(
                        messages, return_dict=True, return_assistant_tokens_mask=True
                    )
                    self.assertEqual(ids, expected["input_ids"], messages)
                    self.assertEqual(mask, expected["assistant_masks"], messages)

    def test_without_generation_marks_a_message_is_what_it_adds(self):
        plain = CHATML.replace("{% generation %}", "").replace("{% endgeneration %}", "")
        tokenizer = make_tokenizer(self.root, plain)
        for messages, (ids, mask) in zip(chats(), prepare(self.root, [{"messages": m} for m in chats()])):
            expected, learnt = [], []
            for count, message in enumerate(messages, 1):
                begin = messages[: count - 1]
                answers = message["role"] == "assistant"
                prompt = ""  # transformers renders no empty chats
                if begin:
                    prompt = tokenizer.apply_chat_template(begin, tokenize=False, add_generation_prompt=answers)
                whole = tokenizer.apply_chat_template(messages[:count], tokenize=False)
                expected = tokenizer.encode(whole, add_special_tokens=False)
                learnt += [0] * (len(tokenizer.encode(prompt, add_special_tokens=False)) - len(learnt))
                learnt += [int(answers)] * (len(expected) - len(learnt))
            self.assertEqual((ids, mask), (expected, learnt), messages)

    def test_tools_are_given_to_the_template(self):
        tokenizer = make_tokenizer(self.root, QWEN)
        tools = [{"type": "function", "function": {"name": "add", "parameters": {"b": 1, "a": [True, None, "é\n"]}}}]
        (ids, _), = prepare(self.root, [{"messages": chats()[0], "tools": tools}])
        self.assertEqual(ids, tokenizer.apply_chat_template(chats()[0], tools=tools, return_dict=True)["input_ids"])


if __name__ == "__main__":
    unittest.main()
