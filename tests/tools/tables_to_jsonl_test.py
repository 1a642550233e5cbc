import gzip
import json
import subprocess
import sys
import unittest
from datetime import date

from tool_case import TOOLS, ToolCase

try:
    import pyarrow
    from pyarrow import feather, ipc, parquet
except ImportError as error:
    ABSENT = f"not installed: {error.name} (requirements.txt lists what this test needs)"
else:
    ABSENT = None


def feather_of(path, table):
    feather.write_feather(table, path)
    return path


@unittest.skipIf(ABSENT, ABSENT)
class TablesToJsonl(ToolCase):
    def write_table(self, name, **columns):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.table(columns), path)
        return path

    def convert(self, *arguments, out="out.jsonl"):
        command = [sys.executable, TOOLS / "tables_to_jsonl.py", *arguments, "--out", self.root / out]
        return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)

    def rows(self, name="out.jsonl"):
        return [json.loads(line) for line in (self.root / name).read_text().splitlines()]

    def assert_refused(self, message, *arguments, **options):
        done = self.convert(*arguments, **options)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(done.stderr.startswith("tables_to_jsonl"), done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual([path.name for path in self.root.iterdir() if "out" in path.name], [])

    def test_every_row_is_a_line_whatever_the_batches(self):
        texts = [f"text {i}\nof zwölf" for i in range(3000)]
        path = self.write_table("a.parquet", text=texts, n=list(range(3000)))
        done = self.convert(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.rows(), [{"text": text, "n": i} for i, text in enumerate(texts)])

    def test_chosen_columns_of_a_folder_renamed_and_compressed(self):
        self.write_table("in/b.parquet", content=["two"], other=[b"\x00"])
        self.write_table("in/a.parquet", content=["one"], other=[b"\x00"])
        done = self.convert(self.root / "in", "--columns", "content", "--rename", "content=text", out="out.jsonl.gz")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = gzip.open(self.root / "out.jsonl.gz", "rt").read().splitlines()
        self.assertEqual([json.loads(line) for line in lines], [{"text": "one"}, {"text": "two"}])

    def test_arrow_files_of_either_format(self):
        table = pyarrow.table({"text": [f"text {i}" for i in range(3000)], "raw": [b"\x00"] * 3000})
        with ipc.new_stream(self.root / "stream.arrow", table.schema) as writer:
            writer.write_table(table)
        with ipc.new_file(self.root / "file.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=1700)
        feather.write_feather(table, self.root / "packed.feather", compression="lz4")
        for name in ("stream.arrow", "file.arrow", "packed.feather"):
            with self.subTest(name=name):
                done = self.convert(self.root / name, "--columns", "text")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(self.rows(), [{"text": text} for text in table["text"].to_pylist()])

    def test_a_folder_of_all_kinds(self):
        self.write_table("in/b.parquet", text=["two"])
        feather.write_feather(pyarrow.table({"text": ["one"]}), self.root / "in/a.feather")
        (self.root / "in/README.md").write_text("not a table")
        self.convert(self.root / "in")
        self.assertEqual(self.rows(), [{"text": "one"}, {"text": "two"}])

    def test_lists_records_and_dates(self):
        self.write_table("a.parquet", c=[{"label": ["A", "B"]}], day=[date(2024, 2, 3)], none=[None])
        self.convert(self.root / "a.parquet")
        self.assertEqual(self.rows(), [{"c": {"label": ["A", "B"]}, "day": "2024-02-03", "none": None}])

    def test_wrong_input_is_named_and_leaves_nothing(self):
        path = self.write_table("a.parquet", text=["x"] * 5000, raw=[b"\x01"] * 5000)
        self.assert_refused("has no column label; it has text, raw", path, "--columns", "label")
        self.assert_refused("bytes, which JSON lacks", path)
        self.assert_refused("--rename must be OLD=NEW", path, "--rename", "text")
        self.assert_refused("two columns one name", path, "--rename", "raw=text")
        self.assert_refused("there is no file or folder", self.root / "none.parquet")
        self.assert_refused("must end in .jsonl", path, out="out.txt")
        path.write_bytes(path.read_bytes()[:-20])
        self.assert_refused("a.parquet", path)
        (self.root / "empty").mkdir()
        self.assert_refused("holds no file ending in .parquet, .arrow, .feather", self.root / "empty")
        (self.root / "table.csv").write_text("text\n")
        self.assert_refused("ends in none of", self.root / "table.csv")

    def test_damaged_arrow_files_are_named_and_leave_nothing(self):
        table = pyarrow.table({"text": ["x" * 100] * 5000})
        path = self.root / "a.arrow"
        with ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
        path.write_bytes(path.read_bytes()[:-20000])
        self.assert_refused("a.arrow", path)
        path.write_bytes(b"ARROW1 but no more")
        self.assert_refused("a.arrow", path)
        path.write_bytes(b"")
        self.assert_refused("a.arrow", path)
        self.assert_refused("has no column title; it has text",
                            feather_of(self.root / "b.feather", table), "--columns", "title")


if __name__ == "__main__":
    unittest.main()
