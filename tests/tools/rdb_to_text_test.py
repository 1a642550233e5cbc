import struct
import subprocess
import sys
import unittest
import zlib

from tool_case import TOOLS, ToolCase


def serialized(kind, strings, version=3):
    """As R's serialize() writes a vector."""
    encoding = struct.pack(">i", 5) + b"UTF-8" if version == 3 else b""
    items = b"".join(struct.pack(">ii", 0x40009, len(one)) + one for one in map(str.encode, strings))
    return (b"X\n" + struct.pack(">iii", version, 0x40202, 0x30500) + encoding
            + struct.pack(">ii", kind, len(strings)) + items)


def stored(unpacked):
    return struct.pack(">I", len(unpacked)) + zlib.compress(unpacked)


class RdbToText(ToolCase):
    def convert(self, data, *names):
        (self.root / "Rdata.rdb").write_bytes(data)
        return subprocess.run([sys.executable, TOOLS / "rdb_to_text.py", "Rdata.rdb", *names], cwd=self.root,
                              capture_output=True, text=True, check=False)

    def test_writes_each_vector_of_strings(self):
        numbers = b"X\n" + struct.pack(">iiiiii", 2, 0x40202, 0x20300, 13, 1, 7)
        done = self.convert(stored(serialized(16, ["Emma", "", "é"])) + stored(numbers)
                            + stored(serialized(0x10000 | 16, ["one line"], version=2)), "a.txt", "b.txt")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.root / "a.txt").read_text(), "Emma\n\né\n")
        self.assertEqual((self.root / "b.txt").read_text(), "one line\n")

    def test_refuses_what_it_cannot_read(self):
        whole = stored(serialized(16, ["Emma"]))
        self.assertIn("is cut off", self.convert(whole[:-6], "a.txt").stderr)
        self.assertIn("has 1 vectors of strings, and 2 files", self.convert(whole, "a.txt", "b.txt").stderr)


if __name__ == "__main__":
    unittest.main()
