#!/usr/bin/env python3
"""Makes JSON lines of a task of GLUE, for a recipe with data.records = "labels", of STS-B "numbers", and for the evaluation task of its name.

    tools/glue_to_jsonl.py glue/MRPC --out data/glue/mrpc

FOLDER holds the tab-separated files of GLUE's download (https://gluebenchmark.com/tasks) and has the task's name: CoLA,
SST-2, MRPC, QQP, MNLI, QNLI, RTE, STS-B or WNLI. Of its training and development parts OUT gets train.jsonl and dev.jsonl (MNLI:
dev_matched.jsonl and dev_mismatched.jsonl), with lines {"text": ..., "text_pair": ..., "label": ...}. Classes are numbered
as in Hugging Face's data set "glue"; the label of STS-B is its score, from 0 to 5. Files appear only when they are complete.
"""

import argparse
import json
import math
import os
import sys
from pathlib import Path

ENTAILMENT = {"entailment": 0, "not_entailment": 1}
NUMBERS = {"0": 0, "1": 1}
# For each task: the columns of the text, the second text and the class, the classes (None: it is a number), and the parts. A
# column is a name in
# the first line, or a number where the file has none.
TASKS = {
    "cola": ((3, None, 1), NUMBERS, ["train", "dev"]),
    "sst-2": (("sentence", None, "label"), NUMBERS, ["train", "dev"]),
    "mrpc": (("#1 String", "#2 String", "Quality"), NUMBERS, ["train", "dev"]),
    "qqp": (("question1", "question2", "is_duplicate"), NUMBERS, ["train", "dev"]),
    "mnli": (("sentence1", "sentence2", "gold_label"), {"entailment": 0, "neutral": 1, "contradiction": 2},
             ["train", "dev_matched", "dev_mismatched"]),
    "qnli": (("question", "sentence", "label"), ENTAILMENT, ["train", "dev"]),
    "rte": (("sentence1", "sentence2", "label"), ENTAILMENT, ["train", "dev"]),
    "sts-b": (("sentence1", "sentence2", "score"), None, ["train", "dev"]),
    "wnli": (("sentence1", "sentence2", "label"), NUMBERS, ["train", "dev"]),
}


def fail(message):
    sys.exit(f"glue_to_jsonl: {message}")


def class_of(label, classes, place):
    """The class's number, or, without classes, the number itself."""
    if classes is not None:
        if label not in classes:
            fail(f"{place} has the class {label!r}, not one of {', '.join(classes)}")
        return classes[label]
    try:
        number = float(label)
    except ValueError:
        fail(f"{place} has the score {label!r}, which is not a number")
    if not math.isfinite(number):
        fail(f"{place} has the score {label!r}, which is not finite")
    return number


def lines(path, columns, classes):
    """The JSON lines of one file; None for a line without all columns."""
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        if isinstance(columns[0], int):
            places = columns
        else:
            names = file.readline().rstrip("\r\n").split("\t")
            missing = [name for name in columns if name is not None and name not in names]
            if missing:
                fail(f"{path} has no column {missing[0]!r}; it has {', '.join(names)}")
            places = [None if name is None else names.index(name) for name in columns]
        for number, line in enumerate(file, start=1 if isinstance(columns[0], int) else 2):
            cells = line.rstrip("\r\n").split("\t")
            if max(place for place in places if place is not None) >= len(cells):
                yield None  # QQP has some
                continue
            text, pair, label = (None if place is None else cells[place] for place in places)
            record = {"text": text, "label": class_of(label, classes, f"{path}:{number}")}
            if pair is not None:
                record["text_pair"] = pair
            yield json.dumps(record, ensure_ascii=False) + "\n"


def convert(source, target, columns, classes):
    partial = target.with_name(target.name + ".partial")
    count = skipped = 0
    try:
        with open(partial, "w", encoding="utf-8") as out:
            for line in lines(source, columns, classes):
                if line is None:
                    skipped += 1
                else:
                    out.write(line)
                    count += 1
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    print(f"{target}: {count} lines" + (f"; {skipped} without all columns skipped" if skipped else ""))


def source_of(folder, part):
    for name in (f"{part}.tsv", f"msr_paraphrase_{'test' if part == 'dev' else part}.txt"):
        if (folder / name).is_file():
            return folder / name
    fail(f"{folder} has no {part}.tsv")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    task = args.folder.resolve().name.lower()
    if task not in TASKS:
        fail(f"{args.folder} is no folder of a GLUE task; there are {', '.join(TASKS)}")
    columns, classes, parts = TASKS[task]
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        for part in parts:
            convert(source_of(args.folder, part), args.out / f"{part}.jsonl", columns, classes)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{args.folder}: {error}")


if __name__ == "__main__":
    main()
