#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time per training step on a network of a given rate and delay, made on this machine.

Each rank runs in a network namespace of its own. A veth pair joins it to a namespace that is the switch, and tc limits
the rate both ways. Without a delay the switch is a bridge. With one it is this program: it reads frames from the links
and passes each on after the delay, because netem, the usual tool, is not in every kernel. mpirun runs in the namespace
of rank 0, enters the others by a launch agent, and uses TCP only. Round trip and rate are measured first, with plain
sockets, because two processors do not reach 10 Gbit/s. Everything is removed at the end.

    bench/network.py --ranks 2 --rate 1 --delay 0.1 -- build/hashattn train listops --data DIR --steps 20

prints one JSON object: milliseconds per step in all (without evaluations and saving), of computing, and of exchange
(the part "ranks" of --profile on rank 0, which includes waiting for slower ranks). With --sequence-parallel most
messages are part of attention, and so of computing. The command gets --out, --profile and --threads 1. Needs root,
iproute2 and Open MPI. More ranks than processors compute in turn, so only the time of exchange means something then.
"""
import argparse
import ctypes
import fcntl
import json
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import deque

PREFIX = f"ha{os.getpid() % 100000}"
MTU = 60000  # a frame is a large part of a message, so that the switch handles few of them
QUEUE = 64 << 20  # bytes that a link may hold; nothing is dropped
PORT = 5201


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def namespace(number):
    return f"{PREFIX}n{number}"


def address(number):
    return f"10.77.0.{number + 1}"


def in_namespace(number, *words):
    return ["ip", "netns", "exec", namespace(number), *words]


def checksums_off(device):
    """The switch passes frames on as they are, so their checksums must be complete. For a device of this namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for command in (0x15, 0x17):  # ETHTOOL_SRXCSUM, ETHTOOL_STXCSUM
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            fcntl.ioctl(s, 0x8946, struct.pack("16sP", device.encode(), ctypes.addressof(value)))  # SIOCETHTOOL


def limit_rate(words, device, rate):
    burst = max(256 << 10, int(rate * 125e6 * 2e-4))  # bytes: 0.2 ms, and several frames
    run(*words, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}gbit", "burst", f"{burst}",
        "limit", f"{QUEUE}")


def build(ranks, rate, delay):
    switch = "s"
    run("ip", "netns", "add", namespace(switch))
    if delay == 0:
        run(*in_namespace(switch, "ip", "link", "add", "bridge", "type", "bridge"))
        run(*in_namespace(switch, "ip", "link", "set", "bridge", "mtu", f"{MTU}", "up"))
    for i in range(ranks):
        run("ip", "netns", "add", namespace(i))
        run("ip", "link", "add", "name", "port", "netns", namespace(i), "mtu", f"{MTU}", "type", "veth",
            "peer", "name", f"p{i}", "netns", namespace(switch), "mtu", f"{MTU}")
        run(*in_namespace(i, "ip", "address", "add", f"{address(i)}/24", "dev", "port"))
        run(*in_namespace(i, "ip", "link", "set", "lo", "up"))
        run(*in_namespace(i, "ip", "link", "set", "port", "up"))
        run(*in_namespace(i, sys.executable, __file__, "--checksums-off", "port"))
        run(*in_namespace(i, "sysctl", "-q", "-w", "net.ipv4.tcp_rmem=4096 1048576 33554432",
                          "net.ipv4.tcp_wmem=4096 1048576 33554432"))
        limit_rate(in_namespace(i), "port", rate)
        if delay == 0:
            run(*in_namespace(switch, "ip", "link", "set", f"p{i}", "master", "bridge"))
        run(*in_namespace(switch, "ip", "link", "set", f"p{i}", "up"))
        limit_rate(in_namespace(switch), f"p{i}", rate)


def remove(ranks):
    for i in [*range(ranks), "s"]:
        subprocess.run(["ip", "netns", "del", namespace(i)], stderr=subprocess.DEVNULL, check=False)


def relay(ports, delay):
    """The switch, inside its namespace: frames of port i leave `delay` seconds after they arrive."""
    ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: wake up within a microsecond
    sockets, owner = [], {}
    for i in range(ports):
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        s.bind((f"p{i}", 0))
        s.setsockopt(263, 23, 1)  # SOL_PACKET, PACKET_IGNORE_OUTGOING: not what the switch sends itself
        s.setsockopt(socket.SOL_SOCKET, 33, QUEUE)  # SO_RCVBUFFORCE
        s.setsockopt(socket.SOL_SOCKET, 32, QUEUE)  # SO_SNDBUFFORCE
        s.setblocking(False)
        sockets.append(s)
    waiting = deque()
    print("ready", flush=True)
    while True:
        left = None if not waiting else max(waiting[0][0] - time.monotonic(), 0)
        for s in select.select(sockets, [], [], left)[0]:
            try:
                for _ in range(16):
                    frame = s.recv(MTU + 100)
                    owner[frame[6:12]] = s
                    waiting.append((time.monotonic() + delay, s, frame))
            except BlockingIOError:
                pass
        while waiting and waiting[0][0] <= time.monotonic():
            _, source, frame = waiting.popleft()
            to = owner.get(frame[:6])
            for s in [to] if to is not None else [s for s in sockets if s is not source]:
                try:
                    s.send(frame)
                except BlockingIOError:
                    pass  # a full queue loses the frame, as a switch does; TCP sends it again


def answer():
    """The other end of measure(): sends back single bytes, then counts what follows."""
    with socket.create_server(("", PORT)) as server:
        print("ready", flush=True)
        s, _ = server.accept()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(200):
            s.send(s.recv(1))
        size = struct.unpack("Q", s.recv(8))[0]
        buffer = bytearray(1 << 20)
        while size > 0:
            size -= s.recv_into(buffer)
        s.send(b"x")


def measure(host, size):
    """Round trip in seconds (the median) and bytes per second of one stream of `size` bytes."""
    with socket.create_connection((host, PORT)) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        times = []
        for _ in range(200):
            start = time.monotonic()
            s.send(b"x")
            s.recv(1)
            times.append(time.monotonic() - start)
        trip = sorted(times)[len(times) // 2]
        s.send(struct.pack("Q", size))
        start = time.monotonic()
        s.sendall(bytes(size))
        s.recv(1)
        print(json.dumps({"round_trip_ms": round(trip * 1e3, 4),
                          "measured_gbit": round(size * 8e-9 / (time.monotonic() - start - trip), 3)}))


def started(words):
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    if process.stdout.readline() != "ready\n":
        sys.exit(f"{words[0]} has not started")
    return process


def train(options, folder):
    """Runs the command on all ranks. Returns its --profile, ms per step, and the bytes that rank 0 sent."""
    agent = os.path.join(folder, "agent.sh")
    with open(agent, "w") as out:  # mpirun calls it with a host and a command
        out.write(f'#!/bin/sh\nlast=${{1##*.}}\nshift\nexec ip netns exec {PREFIX}n$((last - 1)) '
                  f'unshare --uts sh -c "hostname r$last; $*"\n')
    os.chmod(agent, 0o755)
    hosts = ",".join(f"{address(i)}:1" for i in range(options.ranks))
    words = in_namespace(0, "unshare", "--uts", "sh", "-c", 'hostname r1; exec "$@"', "sh",
                         "mpirun", "--allow-run-as-root", "-n", f"{options.ranks}", "--host", hosts)
    for name, value in (("plm_rsh_agent", agent), ("pml", "ob1"), ("btl", "self,tcp"), ("btl_tcp_if_include", "port"),
                        ("oob_tcp_if_include", "port"), ("rmaps_base_oversubscribe", "1"),
                        ("hwloc_base_binding_policy", "none"), ("orte_tmpdir_base", folder)):
        words += ["--mca", name, value]
    run_folder = os.path.join(folder, "run")
    words += [os.path.abspath(options.command[0]), *options.command[1:]]
    words += ["--out", run_folder, "--profile", "--threads", "1"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"the training failed with code {done.returncode}: {done.stderr[-1000:]}")
    lines = re.findall(r"^  (\S[\w ]*?)  +([\d.]+) +[\d.]+ % +[\d.]+ %$", done.stderr, re.M)
    parts = {name: float(ms) for name, ms in lines}
    sent = re.search(r"(\d+) bytes sent by rank 0", done.stderr)
    return parts, int(sent.group(1)) if sent else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, choices=(2, 3, 4))
    parser.add_argument("--rate", type=float, default=1, help="of each link, Gbit/s")
    parser.add_argument("--delay", type=float, default=0.1, help="one way, ms; 0: none is added")
    parser.add_argument("--checksums-off", help=argparse.SUPPRESS)  # the parts that run inside a namespace
    parser.add_argument("--relay", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    if options.checksums_off:
        return checksums_off(options.checksums_off)
    if options.relay:
        return relay(options.relay, options.delay * 1e-3)
    if options.answer:
        return answer()
    if options.measure:
        return measure(options.measure, int(options.rate * 25e6))
    folder, helpers = tempfile.mkdtemp(), []
    own = [sys.executable, os.path.abspath(__file__), "--delay", f"{options.delay}", "--rate", f"{options.rate}"]
    try:
        build(options.ranks, options.rate, options.delay)
        if options.delay > 0:
            helpers.append(started(["nice", "-n", "-20", *in_namespace("s", *own, "--relay", f"{options.ranks}")]))
        other = started(in_namespace(1, *own, "--answer"))
        measured = subprocess.run(in_namespace(0, *own, "--measure", address(1)), check=True, capture_output=True)
        other.wait()
        result = {"ranks": options.ranks, "gbit": options.rate, "delay_ms": options.delay}
        result.update(json.loads(measured.stdout))
        if options.command:
            parts, sent = train(options, folder)
            exchange = parts.get("ranks", 0)
            step = parts["all"] - parts.get("evaluation", 0) - parts.get("saving", 0)
            result.update(step_ms=round(step, 3), exchange_ms=exchange, computing_ms=round(step - exchange, 3),
                          bytes_sent=sent)
        print(json.dumps(result))
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()
        remove(options.ranks)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
