#!/usr/bin/env python3
"""Writes the vectors of strings in a database of an R package (data/Rdata.rdb) as text files, a string a line.

The file is a row of objects, each compressed by zlib behind the length that it has unpacked, in the format of
R's serialize() ("R Internals", section 1.8).
"""

import argparse
import struct
import zlib
from pathlib import Path

STRINGS = 16  # the type of a vector of strings


def objects(data):
    """The serialized objects of a database, in its order."""
    while data:
        length, = struct.unpack_from(">I", data)
        stream = zlib.decompressobj()
        unpacked = stream.decompress(data[4:])
        if not stream.eof or len(unpacked) != length:
            raise SystemExit("rdb_to_text: the file is no database compressed by zlib, or is cut off")
        yield unpacked
        data = stream.unused_data


def strings_of(unpacked):
    """The strings of a serialized vector of strings, or None for an object of another type."""
    version, = struct.unpack_from(">i", unpacked, 2)  # behind "X\n"
    at = 14  # behind two versions of R
    if version == 3:  # the name of an encoding
        at += 4 + struct.unpack_from(">i", unpacked, at)[0]
    flags, count = struct.unpack_from(">ii", unpacked, at)
    at += 8
    if flags & 0xFF != STRINGS:
        return None
    strings = []
    for _ in range(count):
        _, length = struct.unpack_from(">ii", unpacked, at)
        strings.append(unpacked[at + 8:at + 8 + length].decode())
        at += 8 + length
    return strings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=Path)
    parser.add_argument("files", type=Path, nargs="+", help="one for each vector of strings, in their order")
    args = parser.parse_args()

    vectors = [strings for strings in map(strings_of, objects(args.database.read_bytes())) if strings is not None]
    if len(vectors) != len(args.files):
        raise SystemExit(f"rdb_to_text: {args.database} has {len(vectors)} vectors of strings, "
                         f"and {len(args.files)} files are named for them")
    for file, strings in zip(args.files, vectors):
        file.write_text("".join(f"{line}\n" for line in strings))


if __name__ == "__main__":
    main()
