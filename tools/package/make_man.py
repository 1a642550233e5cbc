#!/usr/bin/env python3
"""make_man.py PROGRAM... > thinwire.1: the manual page, made of the program's own help.

A line of help is a heading ("Options:"), a term with its meaning, two or more spaces apart or on the
next line, or text. The page's date is that of SOURCE_DATE_EPOCH,
or else today's.
"""

import os
import re
import subprocess
import sys
import time

HEADING = re.compile(r"^([A-Z][^:]*):$")
REPEATED = re.compile(r"Exit status:|interrupted it \(|\[Option Group:| +Options:$")
TERM = re.compile(r"^ {2,}(\S.*?)(?: {2,}(\S.*))?$")


def help_of(program, command):
    return subprocess.run([*program, *command, "--help"], check=True, capture_output=True,
                          text=True).stdout.splitlines()


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def commands_in(lines):
    """Names of the commands that a help lists: in all its sections but those of options."""
    section, names = "", []
    for line in lines:
        if heading := HEADING.match(line):
            section = heading[1]
        elif section not in ("", "Options", "Positionals", "Examples") and (term := TERM.match(line)):
            if re.fullmatch(r"[a-z]+", term[1]):
                names.append(term[1])
        elif not line:
            section = ""
    return names


def body(lines, heading_macro):
    for line in lines:
        if not line:
            yield ".PP"
        elif heading := HEADING.match(line):
            yield f'{heading_macro} "{escape(heading[1])}"'
        elif term := TERM.match(line):
            indented = len(line) - len(line.lstrip()) > 8  # the meaning of the term above
            if not indented:
                yield f".TP\n.B {escape(term[1])}"
            if meaning := term[1] if indented else term[2]:
                yield escape(meaning)
        else:
            yield escape(line)


def page_of(program, command):
    """A command's section, and those of its own commands."""
    lines = [line for line in help_of(program, command) if not REPEATED.match(line)]
    usage = next(line for line in lines if line.startswith("Usage: "))
    lines.remove(usage)
    yield f'.SH "{escape(" ".join(["thinwire", *command]).upper())}"'
    yield f".B {escape(usage.removeprefix('Usage: '))}\n.PP"
    yield from body(lines, ".SS")
    for name in commands_in(lines):
        yield from page_of(program, [*command, name])


def main():
    program = sys.argv[1:]
    version = subprocess.run([*program, "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    lines = help_of(program, [])
    print(f'.TH THINWIRE 1 "{date}" "thinwire {version}"')
    print(".SH NAME\nthinwire \\- trains language models on machines in different places")
    print(".SH SYNOPSIS\n.B thinwire\n.I COMMAND\n[ARGUMENT...]\n.SH DESCRIPTION")
    print("\n".join(body([line for line in lines if not line.startswith("Usage: ")], ".SS")))
    for name in commands_in(lines):
        print("\n".join(page_of(program, [name])))


main()
