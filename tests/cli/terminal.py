"""Runs a program on a terminal of its own, 24 lines of 80 columns.

argv: the program and its arguments. stdin: a JSON list of [expected, action, value]: when the text `expected` was shown
after the one before it, the action is done: "type" sends the value, "resize" sets [lines, columns], "signal" sends it.
Prints all that was shown, as JSON with the program's status and whether the terminal echoes again.
"""
import fcntl, json, os, pty, select, signal, struct, sys, termios, time

steps = json.load(sys.stdin)


def resize(lines, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


# The terminal is opened here too: it outlives the program, and can be looked at then.
terminal, inside = pty.openpty()
resize(24, 80)
pid = os.fork()
if pid == 0:
    os.close(terminal)
    os.login_tty(inside)
    os.execv(sys.argv[1], sys.argv[1:])
shown, mark, until, status = "", 0, time.monotonic() + 60, None


def more():
    """Reads what is there; False when the program has ended and nothing is left."""
    global shown, status
    if time.monotonic() > until:
        os.kill(pid, signal.SIGKILL)
        sys.exit(f"nothing came of it within a minute; shown so far:\n{shown!r}")
    if select.select([terminal], [], [], 0.1)[0]:
        shown += os.read(terminal, 65536).decode()
        return True
    if status is None:
        ended, how = os.waitpid(pid, os.WNOHANG)
        if ended:
            status = os.waitstatus_to_exitcode(how)
        return True
    return False


for expected, action, value in steps:
    while expected not in shown[mark:]:
        if not more():
            sys.exit(f"it ended before {expected!r} was shown:\n{shown!r}")
    mark = shown.index(expected, mark) + len(expected)
    if action == "type":
        os.write(terminal, value.encode())
    elif action == "resize":
        resize(*value)
    elif action == "signal":
        os.kill(pid, value)
while more():
    pass
echoes = bool(termios.tcgetattr(inside)[3] & termios.ECHO)
json.dump({"shown": shown.replace("\r\n", "\n"), "status": status, "echoes": echoes}, sys.stdout)
