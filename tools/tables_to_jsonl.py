#!/usr/bin/env python3
"""Makes JSON lines of Parquet and Arrow files, for `data.text` of a recipe and for evaluation tasks.

    .venv/bin/python tools/tables_to_jsonl.py TABLES... --out FILE.jsonl [--columns text,title] [--rename content=text]

TABLES are files, or folders of them, read in sorted order: .parquet, and Arrow IPC as .arrow or .feather, in the file
format (Feather 2) or the stream format (as the package datasets writes). Only the named columns are converted (default:
all); --rename OLD=NEW renames one, as data.text_field is "text" unless the recipe says otherwise. Lists and records
become JSON's. FILE may end in .gz; it appears only when it is complete. Memory stays bounded: rows are read in batches.
"""

import argparse
import datetime
import gzip
import json
import os
import sys
from pathlib import Path

import needs

BATCH_ROWS = 1024
ENDINGS = (".parquet", ".arrow", ".feather")


def fail(message):
    sys.exit(f"tables_to_jsonl: {message}")


def find_files(paths):
    files = []
    for path in map(Path, paths):
        if not path.exists():
            fail(f"there is no file or folder {path}")
        inside = [path]
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix in ENDINGS and file.is_file())
        if not inside:
            fail(f"{path} holds no file ending in {', '.join(ENDINGS)}")
        files += inside
    return files


def pairs(renames):
    for rename in renames:
        old, equals, new = rename.partition("=")
        if not (old and equals and new):
            fail(f"--rename must be OLD=NEW, got {rename}")
        yield old, new


def plain(value):
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"holds {type(value).__name__}, which JSON lacks; leave the column out with --columns")


def batches(file, columns, pyarrow):
    """The names of all columns of a file, and its rows with the named ones, in batches."""
    if file.suffix not in ENDINGS:
        fail(f"{file} ends in none of {', '.join(ENDINGS)}")
    if file.suffix == ".parquet":
        table = pyarrow.parquet.ParquetFile(file)
        return table.schema_arrow.names, table.iter_batches(batch_size=BATCH_ROWS, columns=columns)
    source = pyarrow.memory_map(str(file))
    if source.read(6) == b"ARROW1":
        reader = pyarrow.ipc.open_file(source)
        wholes = (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        source.seek(0)
        reader = wholes = pyarrow.ipc.open_stream(source)
    parts = (whole.slice(first, BATCH_ROWS) for whole in wholes for first in range(0, whole.num_rows, BATCH_ROWS))
    return reader.schema.names, (part.select(columns) if columns else part for part in parts)


def convert(file, columns, names, out, pyarrow):
    """Writes the rows of one file; returns their number."""
    known, parts = batches(file, columns, pyarrow)
    for column in columns or ():
        if column not in known:
            fail(f"{file} has no column {column}; it has {', '.join(known)}")
    rows = 0
    for batch in parts:
        for row in batch.to_pylist():
            renamed = {names.get(name, name): value for name, value in row.items()}
            if len(renamed) < len(row):
                fail(f"{file}: --rename gives two columns one name")
            out.write(json.dumps(renamed, ensure_ascii=False, default=plain) + "\n")
        rows += batch.num_rows
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--columns", type=lambda text: text.split(","))
    parser.add_argument("--rename", action="append", default=[])
    args = parser.parse_args()
    needs.packages("pyarrow")
    import pyarrow
    import pyarrow.ipc
    import pyarrow.parquet

    if not args.out.name.endswith((".jsonl", ".jsonl.gz")):
        fail(f"--out must end in .jsonl or .jsonl.gz, got {args.out}")
    names = dict(pairs(args.rename))
    partial = args.out.with_name(args.out.name + ".partial")
    opener = gzip.open if args.out.suffix == ".gz" else open
    rows, file = 0, None
    try:
        with opener(partial, "wt", encoding="utf-8") as out:
            for file in find_files(args.tables):
                rows += convert(file, args.columns, names, out, pyarrow)
        os.replace(partial, args.out)
    except (pyarrow.ArrowException, OSError, TypeError) as error:
        fail(f"{file or args.out}: {str(error).splitlines()[0]}")
    finally:
        partial.unlink(missing_ok=True)
    print(f"{args.out}: {rows} rows")


if __name__ == "__main__":
    main()
