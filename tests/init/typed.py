"""Runs a program on a terminal of its own and types answers.

argv: the program and its arguments. stdin: a JSON list of [expected, typed]: when the text `expected` was shown after
the one before it, `typed` is sent ("\u0004" is Ctrl-D). Prints all that was shown, and ends with the program's status.
"""
import json, os, pty, select, sys, time

steps = json.load(sys.stdin)
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown, mark, until = "", 0, time.monotonic() + 60


def more():
    global shown
    if time.monotonic() > until:
        sys.exit(f"nothing came of it within a minute; shown so far:\n{shown}")
    if not select.select([terminal], [], [], 1)[0]:
        return True
    try:
        new = os.read(terminal, 65536)
    except OSError:  # Linux says so when the other end is closed.
        return False
    shown += new.decode()
    return bool(new)


for expected, typed in steps:
    while expected not in shown[mark:]:
        if not more():
            sys.exit(f"it ended before {expected!r} was shown:\n{shown}")
    # Not the end of all that was shown: the next question may have come with it.
    mark = shown.index(expected, mark) + len(expected)
    os.write(terminal, typed.encode())
while more():
    pass
sys.stdout.write(shown.replace("\r\n", "\n"))
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
