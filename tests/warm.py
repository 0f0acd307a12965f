"""The command line without its start: a process that has loaded it forks one for each call.

`python warm.py SOCKET` waits for calls, and `python warm.py SOCKET WORD...` is one: a process with the words, folder,
environment and open files of its caller, whose exit code the caller takes over. What starting itself may get wrong, and
what a signal does, is for tests that start `cli_files.PROGRAM`.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys


def called(path: str) -> None:
    """Wait for calls; returns in a new process for each, which has all that the caller has, and only there."""
    parent = os.getppid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        listening.settimeout(2)
        print("ready", flush=True)
        while os.getppid() == parent:
            try:
                caller, _ = listening.accept()
            except TimeoutError:
                continue
            if os.fork() == 0 and _answered(caller):
                return
            caller.close()
    os._exit(0)


def _answered(caller: socket.socket) -> bool:
    """Fork once more: true in the process that does the work; the other tells the caller how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(caller, 1, 3)
    with caller.makefile("rb") as request:
        words, folder, environment = marshal.load(request)  # noqa: S302 - from a test
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        caller.sendall(marshal.dumps(code))
        os._exit(0)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    caller.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = words
    return True


def call(path: str, words: list[str]) -> int:
    """The exit code of the words; negative for the signal that ended them."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(path)
        socket.send_fds(caller, [b"0"], [0, 1, 2])
        caller.sendall(marshal.dumps((words, os.getcwd(), dict(os.environ))))
        caller.shutdown(socket.SHUT_WR)
        with caller.makefile("rb") as answer:
            code: int = marshal.load(answer)  # noqa: S302 - from the process that the test started
    return code


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(call(sys.argv[1], sys.argv[2:]))
    from typer.testing import CliRunner

    import dpi
    from dpi.cli import main
    from dpi.cli.app import app
    from dpi.cli.commands import COMMANDS, ELSEWHERE

    for _name in dpi.__all__:
        getattr(dpi, _name)
    for _name in COMMANDS.keys() - ELSEWHERE.keys():
        CliRunner().invoke(app, [_name, "--help"])
    assert len(os.listdir("/proc/self/task")) == 1, "a process with threads must not be forked"  # polars starts some
    called(sys.argv[1])
    main()
