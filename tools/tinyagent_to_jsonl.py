#!/usr/bin/env python3
"""Makes JSON lines of TinyAgent's data set, for a recipe (data.records = "prompts") and the evaluation task tinyagent.

    tools/tinyagent_to_jsonl.py testing_data.json --out data/eval/tinyagent/test.jsonl

The data set (https://huggingface.co/datasets/squeeze-ai-lab/TinyAgent-dataset) is one JSON object; each of its records has
an "output" list of what a model was asked and answered. Those whose "type" is "plan" become lines {"prompt": raw_input,
"completion": raw_output}, the prompt with a line break at its end and the completion without white space around it. FILE
appears only when it is complete. Memory: about the size of the data set.
"""

import argparse
import json
import os
import sys
from pathlib import Path

BLANKS = " \t\r\n"


def fail(message):
    sys.exit(f"tinyagent_to_jsonl: {message}")


def records(text):
    """The values of a JSON object, one after another; the whole of them would take several times the memory."""
    decoder = json.JSONDecoder()

    def skip(place, sign):
        while place < len(text) and text[place] in BLANKS:
            place += 1
        if text[place : place + 1] not in sign:
            raise ValueError(f"expected {' or '.join(sign)} at character {place}")
        return place + 1

    place = skip(0, ["{"])
    while text[place - 1] != "}":
        name, place = decoder.raw_decode(text, skip(place, ['"']) - 1)
        place = skip(place, [":"])
        while text[place : place + 1].isspace():
            place += 1
        record, place = decoder.raw_decode(text, place)
        place = skip(place, [",", "}"])
        yield name, record


def lines(name, record):
    """The plans of one record."""
    try:
        for answer in record["output"]:
            if answer["type"] == "plan":
                prompt, completion = answer["raw_input"].rstrip() + "\n", answer["raw_output"].strip()
                yield json.dumps({"prompt": prompt, "completion": completion}, ensure_ascii=False) + "\n"
    except (KeyError, TypeError, AttributeError) as error:
        fail(f"record {name} is not one of TinyAgent's: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    partial = args.out.with_name(args.out.name + ".partial")
    count = 0
    try:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "w", encoding="utf-8") as out:
            for name, record in records(args.data.read_text(encoding="utf-8")):
                for line in lines(name, record):
                    out.write(line)
                    count += 1
        os.replace(partial, args.out)
    except (OSError, ValueError) as error:
        fail(f"{args.data}: {error}")
    finally:
        partial.unlink(missing_ok=True)
    print(f"{args.out}: {count} plans")


if __name__ == "__main__":
    main()
