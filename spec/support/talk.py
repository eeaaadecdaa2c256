"""Talks to a command on a terminal of its own, for repl_spec.lua: talk.py COMMAND... < SCRIPT

Each line of the script is sent once a prompt was seen, its Python escapes resolved. What was printed goes to stdout."""
import os
import pty
import select
import signal
import sys
import time

script = [line.encode().decode("unicode_escape").encode() for line in sys.stdin.read().splitlines()]
try:
    pid, terminal = pty.fork()
except OSError as e:
    sys.exit(f"no pseudo-terminal: {e}")
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
output, seen, sent, deadline = b"", 0, b"", time.monotonic() + 30
while time.monotonic() < deadline:
    if select.select([terminal], [], [], 1)[0]:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:  # its end is closed
            break
        if not chunk:
            break
        output += chunk
    elif sent.endswith(b"\x03"):  # readline misses one between its prompt and its first wait
        os.write(terminal, b"\x03")
    if script and output[seen:].endswith(b"> "):
        seen = len(output)
        sent = script.pop(0)
        os.write(terminal, sent)
else:
    os.kill(pid, signal.SIGKILL)
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(output.replace(b"\r\n", b"\n"))
print("status", os.waitstatus_to_exitcode(status))
