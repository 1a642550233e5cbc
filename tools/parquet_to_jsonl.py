#!/usr/bin/env python3
"""Makes JSON lines of Parquet files, for `data.text` of a recipe and for evaluation tasks.

    .venv/bin/python tools/parquet_to_jsonl.py PARQUET... --out FILE.jsonl [--columns text,title] [--rename content=text]

PARQUET are files or folders of them, read in sorted order. Only the named columns are read (default: all); --rename
OLD=NEW renames one, as data.text_field is "text" unless the recipe says otherwise. Lists and records become JSON's. FILE
may end in .gz; it appears only when it is complete. Memory stays bounded: rows are read in batches.
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


def fail(message):
    sys.exit(f"parquet_to_jsonl: {message}")


def find_files(paths):
    files = []
    for path in map(Path, paths):
        if not path.exists():
            fail(f"there is no file or folder {path}")
        inside = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not inside:
            fail(f"{path} holds no file ending in .parquet")
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


def convert(file, columns, names, out, parquet):
    """Writes the rows of one file; returns their number."""
    table = parquet.ParquetFile(file)
    known = table.schema_arrow.names
    for column in columns or ():
        if column not in known:
            fail(f"{file} has no column {column}; it has {', '.join(known)}")
    rows = 0
    for batch in table.iter_batches(batch_size=BATCH_ROWS, columns=columns):
        for row in batch.to_pylist():
            renamed = {names.get(name, name): value for name, value in row.items()}
            if len(renamed) < len(row):
                fail(f"{file}: --rename gives two columns one name")
            out.write(json.dumps(renamed, ensure_ascii=False, default=plain) + "\n")
        rows += batch.num_rows
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parquet", nargs="+")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--columns", type=lambda text: text.split(","))
    parser.add_argument("--rename", action="append", default=[])
    args = parser.parse_args()
    needs.packages("pyarrow")
    import pyarrow
    from pyarrow import parquet

    if not args.out.name.endswith((".jsonl", ".jsonl.gz")):
        fail(f"--out must end in .jsonl or .jsonl.gz, got {args.out}")
    names = dict(pairs(args.rename))
    partial = args.out.with_name(args.out.name + ".partial")
    opener = gzip.open if args.out.suffix == ".gz" else open
    rows, file = 0, None
    try:
        with opener(partial, "wt", encoding="utf-8") as out:
            for file in find_files(args.parquet):
                rows += convert(file, args.columns, names, out, parquet)
        os.replace(partial, args.out)
    except (pyarrow.ArrowException, OSError, TypeError) as error:
        fail(f"{file or args.out}: {str(error).splitlines()[0]}")
    finally:
        partial.unlink(missing_ok=True)
    print(f"{args.out}: {rows} rows")


if __name__ == "__main__":
    main()
