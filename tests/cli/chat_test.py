"""`thinwire chat`, and `thinwire generate --chat`: conversations with models whose answers are known beforehand."""

import json
import os
import pty
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from tiny_model import EOS, write_parrot, write_tiny_model

THINWIRE = os.environ.get("THINWIRE_BINARY", "thinwire")
TEMPLATE = ("{% for message in messages %}<{{ message.role }}>{{ message.content }}|{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")
SAYS_OK = {">": "O", "O": "k", "k": "|"}


class Chat(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.model = self.root / "model"

    def write_template(self, text=TEMPLATE, name="chat_template.jinja"):
        (self.model / name).write_text(text)

    def run_program(self, *arguments, stdin=""):
        return subprocess.run([THINWIRE, *map(str, arguments)], input=stdin.encode(), capture_output=True, check=False)

    def chat(self, *arguments, stdin=""):
        done = self.run_program("chat", self.model, "--greedy", *arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()

    def continuation(self, text, tokens):
        done = self.run_program("generate", self.model, "--greedy", "--begin", "none", "--context", "4000", "--tokens",
                                tokens, "--prompt", text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()[len(text):].removesuffix("\n")

    def test_an_answer_ends_where_the_template_ends_it(self):
        write_parrot(self.model, SAYS_OK)
        self.write_template()
        self.assertEqual(self.chat("--prompt", "Hi"), "Ok\n")
        self.assertEqual(self.chat(stdin="Hi\n\nWell?\n"), "Ok\nOk\n")

    def test_an_answer_ends_with_the_end_token(self):
        write_parrot(self.model, SAYS_OK | {"k": EOS})
        self.write_template(json.dumps({"chat_template": TEMPLATE}), "tokenizer_config.json")
        self.assertEqual(self.chat("--prompt", "-", stdin="one\ntwo\n"), "Ok\n")

    def test_an_answer_has_at_most_so_many_tokens(self):
        write_parrot(self.model, {">": "a"})
        self.write_template()
        self.assertEqual(self.chat("--prompt", "Hi", "--tokens", 5), "aaaaa\n")

    def test_each_answer_follows_from_the_whole_conversation(self):
        write_tiny_model(self.model)
        self.write_template()
        text, said = "<system>Be kind|", []
        for message in ("Hi", "two\nlines", "Bye"):
            text += f"<user>{message}|<assistant>"
            said.append(self.continuation(text, 7).split("|")[0].strip())
            text += said[-1] + "|"
        answers = self.chat("--context", 4000, "--tokens", 7, "--system", "Be kind", stdin="Hi\ntwo\\\nlines\nBye")
        self.assertEqual([line.strip() for line in answers.split("\n")[:-1]], said)

    def test_generate_chats_alike(self):
        write_parrot(self.model, SAYS_OK)
        self.write_template()
        done = self.run_program("generate", self.model, "--chat", "--greedy", "--system", "Be kind", stdin="Hi\nBye\n")
        self.assertEqual((done.returncode, done.stdout), (0, b"Ok\nOk\n"), done.stderr)

    def test_the_oldest_messages_make_room(self):
        write_parrot(self.model, SAYS_OK)
        self.write_template()
        done = self.run_program("chat", self.model, "--greedy", stdin="a first message\na second message\nno\n")
        self.assertEqual((done.returncode, done.stdout), (0, b"Ok\nOk\nOk\n"))
        self.assertIn(b"the 2 oldest messages no longer fit into the context of 64 tokens and are left out\n",
                      done.stderr)

    def test_a_message_without_room_for_an_answer_is_refused(self):
        write_parrot(self.model, SAYS_OK)
        self.write_template()
        done = self.run_program("chat", self.model, "--prompt", "a" * 60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"has 78 tokens, and the context 64; shorten it, or raise --context", done.stderr)

    def test_a_model_without_a_template_says_what_it_lacks(self):
        write_parrot(self.model, SAYS_OK)
        done = self.run_program("chat", self.model, "--prompt", "Hi")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"model has no chat template: neither chat_template.jinja nor chat_template in "
                      b"tokenizer_config.json; give a file with one as --template", done.stderr)
        (self.root / "own.jinja").write_text(TEMPLATE)
        self.assertEqual(self.chat("--template", self.root / "own.jinja", "--prompt", "Hi"), "Ok\n")

    def test_options_that_do_not_go_together_are_wrong_use(self):
        write_parrot(self.model, SAYS_OK)
        for arguments in (["--chat", "--ignore-end"], ["--chat", "--begin", "bos"], ["--system", "x"]):
            self.assertEqual(self.run_program("generate", self.model, *arguments).returncode, 2, arguments)


class ChatOnATerminal(unittest.TestCase):
    def test_ctrl_c_ends_an_answer_and_ctrl_d_the_chat(self):
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            write_parrot(model, {">": "a"})
            (model / "chat_template.jinja").write_text(TEMPLATE)
            command = [THINWIRE, "chat", str(model), "--greedy", "--context", "30000"]
            child, terminal = pty.fork()
            if child == 0:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.execv(command[0], command)
            shown = b""

            def read_until(text, after=0):
                nonlocal shown
                while text not in shown[after:]:
                    shown += os.read(terminal, 4096)
                return len(shown)

            read_until(b"Ctrl-C ends an answer, Ctrl-D the chat")
            read_until(b"> ")
            os.write(terminal, b"Hi\n")
            read_until(b"aaaa")
            os.write(terminal, b"\x03")
            again = read_until(b"> ", shown.rindex(b"aaaa"))
            os.write(terminal, b"Go on\n")
            answered = read_until(b"aaaa", again)
            os.write(terminal, b"\x03")
            read_until(b"> ", answered)
            os.write(terminal, b"\x04")
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            os.close(terminal)


if __name__ == "__main__":
    unittest.main()
