"""Pipes: a run has none, one that the caller names is read, and Ctrl-C ends the wait for it.

Planted and caught: the log of a run read through a pipe; a wait that Ctrl-C does not end.
SPDX-License-Identifier: Apache-2.0
"""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import hashattn

WAITING = """
    import signal, sys
    import hashattn
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with hashattn.Run(sys.argv[1]) as run:
        print("waits", flush=True)
        try:
            run.predict(sys.argv[2], progress=PROGRESS)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            raise
"""


def test_the_log_of_a_run_is_a_regular_file(text_run, tmp_path):
    shutil.copytree(text_run, tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").unlink()
    os.mkfifo(tmp_path / "run" / "log.jsonl")
    signal.alarm(20)  # opening the pipe would wait for a writer
    with hashattn.Run(tmp_path / "run") as run:
        with pytest.raises(hashattn.BadFileError, match="log.jsonl: a regular file is needed"):
            run.log
    signal.alarm(0)


@pytest.mark.parametrize("silent", (False, True))
@pytest.mark.parametrize("progress", ("True", "False"))
def test_ctrl_c_ends_the_wait_for_a_pipe(text_run, tmp_path, silent, progress):
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    code = textwrap.dedent(WAITING).replace("PROGRESS", progress)
    process = subprocess.Popen([sys.executable, "-c", code, text_run, pipe], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waits\n"
    writer = os.open(pipe, os.O_RDWR) if silent else -1
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(20) == -signal.SIGINT
    finally:
        process.kill()
        if writer >= 0:
            os.close(writer)
    assert process.stdout.read() == "interrupted\n"
    process.stdout.close()
