"""The first process of a real node. Run by path, without packages: it may import the standard library only.

It is process 1 of namespaces of its own (processes, mounts, network, host name), so that all that runs on the node
ends when it ends, however it ends: containers, their shims, mounts and all.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

# What a kubelet wants of the kernel, which the machine and all of its nodes share. It reads these values, finds them as
# it wants them, and leaves the machine's own alone: they would stay when the lab is gone.
KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def main() -> None:
    node = json.loads(Path(sys.argv[1]).read_text())
    private_places(node)
    socket.sethostname(node["name"])
    connect(node)
    supervise(node["programs"], node["environment"])


def private_places(node: dict) -> None:  # type: ignore[type-arg]  # plain JSON
    """Mount what the node has of its own, so that programs that write to fixed places do not write to the machine."""
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "proc", "proc", "/proc")
    for target in node["empty"]:
        run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", target)
    for target, source in node["binds"].items():
        Path(source).mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", source, target)
    for name, value in KERNEL.items():
        if (switch := Path("/proc/sys") / name).exists():
            source = Path("/run/kernel") / name
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_text(f"{value}\n")
            run("mount", "--bind", str(source), str(switch))
    # Volumes that pods share with the node have to see each other's mounts; the machine's stay apart.
    run("mount", "--make-rshared", "/")


def connect(node: dict) -> None:  # type: ignore[type-arg]
    """Wait for the node's cable, and give the node its address and routes."""
    run("ip", "link", "set", "lo", "up")
    while True:  # the lab lays the cable from outside
        try:
            socket.if_nametoindex("eth0")
            break
        except OSError:
            time.sleep(0.01)
    run("ip", "addr", "add", node["address"], "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    routes = "".join(f"route add {target} via {gateway}\n" for target, gateway in node["routes"].items())
    subprocess.run(["ip", "-batch", "-"], input=routes.encode(), check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def supervise(programs: dict, environment: dict) -> None:  # type: ignore[type-arg]
    """Keep the programs running, as a service manager would, and reap every orphan of the node."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    running: dict[int, str] = {}
    due = dict.fromkeys(programs, 0.0)
    while True:
        for name in [name for name, when in due.items() if when <= time.monotonic()]:
            del due[name]
            running[start(name, programs[name], environment)] = name
        ended, _ = os.waitpid(-1, os.WNOHANG) if running or due else os.wait()
        if ended in running:
            name = running.pop(ended)
            print(f"{name} ended and is started again", flush=True)
            due[name] = time.monotonic() + 1
        if ended == 0:
            time.sleep(0.2)


def start(name: str, program: dict, environment: dict) -> int:  # type: ignore[type-arg]
    with Path(program["log"]).open("ab") as log:
        return subprocess.Popen(
            program["command"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env={**os.environ, **environment},
        ).pid


def run(*command: str) -> None:
    subprocess.run(command, check=True)


main()
