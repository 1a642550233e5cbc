"""Executes cells as the kernel of a notebook does: in its main thread, inside an event loop, and with Ctrl-C only while one is
executed. Cells are lines of JSON on standard input; each is answered by what it raised, or null."""

import asyncio
import json
import signal
import sys


async def execute(cell, names):
    exec(compile(cell, "<cell>", "exec"), names)


async def main():
    names = {}
    for line in sys.stdin:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        raised = None
        try:
            await execute(json.loads(line), names)
        except (Exception, KeyboardInterrupt) as error:
            raised = type(error).__name__
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(json.dumps(raised), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(main())
