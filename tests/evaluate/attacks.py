"""Attack programs: each is the body of a stack that tries one thing and says whether it got it.

Data only; `test_attacks.py` runs each in every sandbox: whole, where it must fail; without its defences, where it must
succeed; and, where it has several, with each of them alone, where it must fail. It compares the table in
docs/security.md with this list. `T` is what an attacker could know: paths, process numbers, ports. An attack has
succeeded when its body ends with `won` true, and one that `leaves` a process when the parent is told of it. All others
wait for theirs. It may use ctypes: nothing in Python is a wall.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.evaluate.sandbox.level import LAYERS, Layer, Level

NET, IPC, PID, VIEW = Layer.NET, Layer.IPC, Layer.PID, Layer.VIEW
PRIVILEGES, LANDLOCK, SECCOMP = Layer.PRIVILEGES, Layer.LANDLOCK, Layer.SECCOMP
MEMORY, CPU, FILE_SIZE, OPEN_FILES = Layer.MEMORY, Layer.CPU, Layer.FILE_SIZE, Layer.OPEN_FILES
PROCESSES, GROUP = Layer.PROCESSES, Layer.GROUP
ALARM, WATCHDOG, KEEPER = Layer.ALARM, Layer.WATCHDOG, Layer.KEEPER
ENVIRONMENT, DESCRIPTORS = Layer.ENVIRONMENT, Layer.DESCRIPTORS
FILES = (VIEW, LANDLOCK)
CHANGES = (VIEW, LANDLOCK, SECCOMP)
BOTH = (Level.A, Level.B)

SLEEP = "end = time.monotonic() + 10\nwhile time.monotonic() < end: time.sleep(0.1)\nwon = True"
# The smallest that there can be: it ends with 42.
PROGRAM = (
    "7f454c4602010100000000000000000002003e0001000000780040000000000040000000000000000000000000000000000000004000380001"
    "0000000000000001000000050000000000000000000000000040000000000000004000000000008400000000000000840000000000000000"
    "10000000000000bf2a000000b83c0000000f05"
)

PRELUDE = """\
import ctypes, json, os, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
T = json.load(open("target.json"))
V = T["scratch"] + "/" + NAME
ARM = os.uname().machine == "aarch64"

def ok(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def call(x86, arm, *arguments):
    return ok(libc.syscall(arm if ARM else x86, *[a if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]))

def children(number):
    pids = []
    try:
        for _ in range(number):
            pids.append(ok(libc.fork()))
            pids[-1] or libc._exit(0)
    finally:
        for pid in pids: libc.waitpid(pid, None, 0)
    return len(pids)
"""


@dataclass(frozen=True)
class Attack:
    goal: str  # what kind of harm
    name: str  # what it does
    body: str
    layers: tuple[Layer, ...]  # its defences, the first one foremost: each alone stops it, without all it succeeds
    also: tuple[Layer, ...] = ()  # likewise, but alone they stop it for some users or in some kernels only
    levels: tuple[Level, ...] = BOTH  # where it is tried
    besides: tuple[tuple[Level, str], ...] = ()  # what stops it there too and cannot be left out: no success is shown
    machine: str = ""  # where it can be written at all
    landlock: int = 1  # the first version of Landlock that stops it
    seconds: float = 60.0  # that it may take
    crowd: bool = False  # many processes, if any: then run by a pool of its own, within less memory
    leaves: bool = False  # a process behind, and that is its success

    def defences(self, level: Level) -> tuple[Layer, ...]:
        return tuple(layer for layer in self.layers if layer in LAYERS[level])

    def shown_at(self, level: Level) -> bool:
        return level in self.levels and level not in dict(self.besides)


def _socket(family: str, kind: str, use: str) -> str:
    return f"s = socket.socket(socket.{family}, socket.{kind})\n{use}"


ATTACKS = (
    # Files: credentials, other people's files, and what the machine says about itself
    Attack("credentials", "read a file of the home directory", "won = 'top secret' in open(T['secret']).read()", FILES),
    Attack(
        "credentials",
        "read it by a relative path",
        "won = 'top secret' in open('../' * 30 + T['secret']).read()",
        FILES,
    ),
    Attack("credentials", "read it through a symlink in the tree", "won = 'top secret' in open('link').read()", FILES),
    Attack(
        "credentials",
        "read it through /proc/self/root",
        "won = 'top secret' in open('/proc/self/root' + T['secret']).read()",
        FILES,
    ),
    Attack(
        "credentials",
        "read it through a descriptor of the root directory",
        "root = os.open('/', os.O_PATH)\nfile = os.open(T['secret'][1:], os.O_RDONLY, dir_fd=root)\n"
        "won = b'top secret' in os.read(file, 99)",
        FILES,
    ),
    Attack(
        "credentials", "list the home directory", "won = 'token' in os.listdir(os.path.dirname(T['secret']))", FILES
    ),
    Attack("credentials", "read the password in .git/config", "won = 'hunter2' in open('.git/config').read()", FILES),
    Attack(
        "credentials", "read a variable of the environment", "won = 'LD_LIBRARY_PATH' in os.environ", (ENVIRONMENT,)
    ),
    Attack(
        "credentials",
        "read the environment it was started with in /proc",
        "won = b'LD_LIBRARY_PATH' in open('/proc/self/environ', 'rb').read()",
        FILES,
    ),
    Attack(
        "credentials",
        "use a key of the kernel's keyring",
        "won = call(250, 219, 0, -3, 1) > 0",
        (SECCOMP,),
    ),
    Attack("other files", "read /etc/passwd", "won = 'root:' in open('/etc/passwd').read()", FILES),
    Attack(
        "other files",
        "find out which files there are",
        "won = os.stat(T['secret']).st_size > 0",
        (VIEW,),
        levels=(Level.A,),
    ),
    Attack(
        "other files",
        "watch what others do in a directory",
        "fd = ok(libc.inotify_init1(0))\n"
        "won = ok(libc.inotify_add_watch(fd, os.path.dirname(T['secret']).encode(), 0xFFF)) > 0",
        (VIEW, SECCOMP),
    ),
    Attack(
        "other files", "change a file of the tree", "open('stacks/_extra.py', 'w').write('x = 1')\nwon = True", CHANGES
    ),
    Attack("other files", "make a file elsewhere", "open(T['scratch'] + '/made', 'w').close()\nwon = True", CHANGES),
    Attack("other files", "cut a file off", "won = ok(libc.truncate((V).encode(), 0)) == 0", CHANGES),
    Attack(
        "other files",
        "cut a file off by opening it for reading",
        "os.open(V, os.O_TRUNC)\nwon = True",
        CHANGES,
    ),
    Attack(
        "other files",
        "remove a file and make it anew",
        "os.unlink(V)\nopen(V, 'w').close()\nwon = True",
        CHANGES,
    ),
    Attack(
        "other files",
        "give a file another name, a hard link",
        "name = T['scratch'] + '/' + os.urandom(4).hex()\nos.link(V, name)\nwon = True",
        CHANGES,
    ),
    Attack(
        "other files",
        "make a credential readable to all (chmod)",
        "won = ok(libc.chmod((V).encode(), 0o644)) == 0",
        (VIEW, SECCOMP),
    ),
    Attack(
        "other files",
        "set a file's time",
        "won = ok(libc.utimensat(-100, (V).encode(), None, 0)) == 0",
        (VIEW, SECCOMP),
    ),
    Attack(
        "other files",
        "mark a file with an extended attribute",
        "won = ok(libc.setxattr((V).encode(), b'user.x', b'1', 1, 0)) == 0",
        (VIEW, SECCOMP),
    ),
    Attack(
        "other files",
        "hold a lock on a file of the tree",
        "won = ok(libc.flock(os.open('fleet.toml', 0), 2)) == 0",
        (SECCOMP,),
    ),
    Attack(
        "credentials",
        "read it through a symlink that it lays in /tmp",
        "name = '/tmp/fleet-' + os.urandom(4).hex()\nos.symlink(T['secret'], name)\n"
        "try: won = 'top secret' in open(name).read()\nfinally: os.unlink(name)",
        CHANGES,
    ),
    Attack(
        "other files",
        "open a file by its number, past all directories (open_by_handle_at)",
        "h = bytearray(struct.pack('Ii', 128, 0) + bytes(128))\nb = (ctypes.c_char * len(h)).from_buffer(h)\n"
        "m = ctypes.c_int()\nok(libc.name_to_handle_at(-100, T['secret'].encode(), b, ctypes.byref(m), 0))\n"
        "at = os.open(os.path.dirname(T['secret']), os.O_RDONLY)\n"
        "won = b'top secret' in os.read(ok(libc.open_by_handle_at(at, b, 0)), 99)",
        (SECCOMP, LANDLOCK, PRIVILEGES),
        besides=((Level.A, "user namespace"),),
    ),
    # The next evaluation
    Attack(
        "poisoning",
        "change a package of the lockfile",
        "open(T['locked'] + '/greeting.py', 'w').write('x = 1')\nwon = True",
        CHANGES,
    ),
    Attack(
        "poisoning",
        "compile a package of the lockfile to something else",
        "os.makedirs(T['locked'] + '/__pycache__', exist_ok=True)\n"
        "open(T['locked'] + '/__pycache__/greeting.cpython-311.pyc', 'wb').write(b'x')\nwon = True",
        CHANGES,
    ),
    Attack(
        "poisoning",
        "leave a key behind in the keyring",
        "won = call(248, 217, b'user', b'fleet', b'x', 1, -2) > 0",
        (SECCOMP,),
    ),
    Attack(
        "poisoning",
        "plant a module among Python's packages",
        "open(T['packages'] + '/planted.py', 'w').write('x = 1')\nwon = True",
        CHANGES,
    ),
    Attack(
        "poisoning",
        "write into the cache of evaluations",
        "open(T['cache'] + '/evaluations/forged', 'w').write('x')\nwon = True",
        CHANGES,
    ),
    Attack(
        "poisoning",
        "speak to the parent in the fork server's name",
        "import stat\nfor fd in range(3, 64):\n    try:\n        won = won or stat.S_ISSOCK(os.fstat(fd).st_mode)\n"
        "    except OSError:\n        pass",
        (DESCRIPTORS,),
    ),
    # Network
    Attack(
        "network",
        "connect by TCP",
        _socket("AF_INET", "SOCK_STREAM", "won = ok(libc.connect(s.fileno(), T['tcp'].encode('latin-1'), 16)) == 0"),
        (NET, SECCOMP, LANDLOCK),
    ),
    Attack(
        "network",
        "send a datagram, as a question to a name server",
        _socket(
            "AF_INET",
            "SOCK_DGRAM",
            "won = ok(libc.sendto(s.fileno(), b'x', 1, 0, T['udp'].encode('latin-1'), 16)) == 1",
        ),
        (NET, SECCOMP),
    ),
    Attack(
        "network",
        "connect to an abstract socket",
        _socket(
            "AF_UNIX",
            "SOCK_STREAM",
            "a = struct.pack('H', 1) + b'\\0' + T['abstract'].encode()\n"
            "won = ok(libc.connect(s.fileno(), a, len(a))) == 0",
        ),
        (NET, SECCOMP, LANDLOCK),
    ),
    Attack(
        "network",
        "connect to the socket of a daemon",
        _socket(
            "AF_UNIX",
            "SOCK_STREAM",
            "a = struct.pack('H', 1) + T['daemon'].encode() + b'\\0'\n"
            "won = ok(libc.connect(s.fileno(), a, len(a))) == 0",
        ),
        (VIEW, SECCOMP),
    ),
    Attack("network", "ask the kernel about interfaces (netlink)", "won = ok(libc.socket(16, 3, 0)) > 0", (SECCOMP,)),
    # Other processes
    Attack(
        "signals",
        "send a signal to a process outside",
        "won = ok(libc.kill(T['victim'], 18)) == 0",
        (PID, SECCOMP, LANDLOCK),
    ),
    Attack(
        "signals",
        "send it by a descriptor of the process",
        "fd = call(434, 434, T['victim'], 0)\nwon = call(424, 424, fd, 18, 0, 0) == 0",
        (PID, SECCOMP, LANDLOCK),
        landlock=6,
    ),
    Attack("signals", "send a signal to its whole group", "won = ok(libc.kill(0, 18)) == 0", (SECCOMP,)),
    Attack(
        "signals",
        "let a pipe send the signal (F_SETOWN)",
        "r, w = os.pipe()\nwon = ok(libc.fcntl(r, 8, T['victim'])) == 0",
        (PID, SECCOMP),
    ),
    Attack(
        "ptrace",
        "attach to a process outside",
        "won = ok(libc.ptrace(0x4206, T['victim'], 0, 0)) == 0",
        (SECCOMP, LANDLOCK, PRIVILEGES),
        besides=((Level.A, "user namespace"),),
    ),
    Attack(
        "ptrace",
        "take a descriptor of a process outside",
        "fd = call(434, 434, T['victim'], 0)\nwon = call(438, 438, fd, 0, 0) > 0",
        (SECCOMP, LANDLOCK, PRIVILEGES),
        besides=((Level.A, "user namespace"),),
    ),
    Attack(
        "ptrace",
        "ask whether two processes share memory (kcmp)",
        "won = call(312, 272, os.getpid(), T['victim'], 1, 0, 0) >= 0",
        (SECCOMP, LANDLOCK, PRIVILEGES),
        besides=((Level.A, "user namespace"),),
    ),
    Attack(
        "ptrace",
        "write into the memory of a process outside",
        "b = ctypes.create_string_buffer(8)\nv = struct.pack('PN', ctypes.addressof(b), 8)\n"
        "won = call(310, 270, T['victim'], v, 1, struct.pack('PN', T['at'], 8), 1, 0) == 8",
        (SECCOMP, LANDLOCK, PRIVILEGES),
        besides=((Level.A, "user namespace"),),
    ),
    Attack(
        "/proc",
        "read the environment of a process outside",
        "won = b'VICTIM=' in open(f\"/proc/{T['victim']}/environ\", 'rb').read()",
        (VIEW, LANDLOCK, PRIVILEGES),
        besides=((Level.A, "user namespace"),),
    ),
    Attack(
        "/proc",
        "read the memory of a process outside",
        "won = os.open(f\"/proc/{T['victim']}/mem\", os.O_RDONLY) > 0",
        (VIEW, LANDLOCK, PRIVILEGES),
        besides=((Level.A, "user namespace"),),
    ),
    Attack(
        "/proc",
        "see which processes there are",
        "won = str(T['victim']) in os.listdir('/proc')",
        FILES,
    ),
    Attack(
        "processes",
        "set limits of a process outside",
        "won = call(302, 261, T['victim'], 7, 0, 0) == 0",
        (PID, SECCOMP),
    ),
    Attack(
        "processes",
        "slow a process outside down",
        "won = ok(libc.setpriority(0, T['victim'], 19)) == 0",
        (PID, SECCOMP, PRIVILEGES),
        besides=((Level.A, "user namespace"),),
    ),
    Attack("processes", "start a process", "won = children(1) == 1", (SECCOMP,), (PROCESSES,)),
    Attack(
        "processes",
        "a fork bomb",
        "won = children(40) == 40",
        (SECCOMP, GROUP),
        (PROCESSES,),
        crowd=True,
    ),
    Attack(
        "processes",
        "leave a process behind",
        "if ok(libc.fork()) == 0:\n    libc.setsid()\n    time.sleep(60)\n    libc._exit(0)",
        (PID, SECCOMP),
        (PROCESSES,),
        leaves=True,
    ),
    Attack(
        "processes",
        "threads without end",
        "import threading\nthreading.stack_size(1 << 16)\nfor _ in range(40):\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nwon = True",
        (SECCOMP, GROUP),
        (PROCESSES,),
        crowd=True,
    ),
    Attack("processes", "run a program", "won = libc.system(b'true') == 0", (SECCOMP, LANDLOCK, VIEW), (PROCESSES,)),
    Attack(
        "processes",
        "leave the group that is ended with it",
        "pid = ok(libc.fork())\nif pid == 0:\n    libc._exit(1 if libc.setpgid(0, 0) else 0)\n"
        "won = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0",
        (SECCOMP,),
        (PROCESSES,),
    ),
    Attack("processes", "outlive whoever started it", "won = ok(libc.prctl(1, 0, 0, 0, 0)) == 0", (SECCOMP,)),
    Attack(
        "processes",
        "run a program that lies in memory only",
        f"fd = ok(libc.memfd_create(b'x', 0))\nos.write(fd, bytes.fromhex('{PROGRAM}'))\npid = ok(libc.fork())\n"
        "if pid == 0:\n    libc.fexecve(fd, (ctypes.c_char_p * 2)(b'x'), (ctypes.c_char_p * 1)())\n    libc._exit(1)\n"
        "won = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42",
        (SECCOMP,),
        (PROCESSES,),
        machine="x86_64",
    ),
    # What the machine has
    Attack(
        "memory",
        "take it in many processes, each within its limit",
        "import select\nr, w = os.pipe()\npids = []\nready = dead = 0\ntry:\n    for _ in range(7):\n"
        "        pids.append(ok(libc.fork()))\n        if pids[-1] == 0:\n            x = b'x' * (90 << 20)\n"
        "            os.write(w, b'1')\n            time.sleep(30)\n            libc._exit(0)\n"
        "    while ready < 7 and not dead:\n"
        "        ready += len(os.read(r, 9)) if select.select([r], [], [], 0.1)[0] else 0\n"
        "        dead = os.waitpid(-1, os.WNOHANG)[0]\n    won = ready == 7 and not dead\n"
        "finally:\n    for pid in pids: libc.kill(pid, 9)\n    for pid in pids: libc.waitpid(pid, None, 0)",
        (SECCOMP, GROUP),
        (PROCESSES,),
        crowd=True,
    ),
    Attack("memory", "take more than the limit", "x = bytearray(600 << 20)\nwon = True", (MEMORY,)),
    Attack("memory", "take it as a file in memory", "won = ok(libc.memfd_create(b'x', 0)) > 0", (SECCOMP,)),
    Attack(
        "memory", "leave it behind as a shared segment", "won = ok(libc.shmget(0, 1 << 20, 0o1600)) >= 0", (SECCOMP,)
    ),
    Attack(
        "memory",
        "look into the shared segment of another",
        "won = ok(libc.shmget(T['key'], 0, 0)) >= 0",
        (IPC, SECCOMP),
    ),
    Attack("memory", "leave semaphores behind", "won = ok(libc.semget(0, 9, 0o1600)) >= 0", (SECCOMP,)),
    Attack("memory", "leave messages behind in a queue", "won = ok(libc.msgget(0, 0o1600)) >= 0", (SECCOMP,)),
    Attack(
        "disk",
        "fill /tmp",
        "try:\n    for n in range(20):\n        open(f'/tmp/fill-{n}', 'wb').write(bytes(1 << 20))\n    won = True\n"
        "finally:\n    for n in range(20):\n        try: os.unlink(f'/tmp/fill-{n}')\n        except OSError: pass",
        CHANGES,
    ),
    Attack(
        "disk",
        "make files without end",
        "try:\n    for n in range(1200):\n        open(f'/tmp/many-{n}', 'wb').close()\n    won = True\n"
        "finally:\n    for n in range(1200):\n        try: os.unlink(f'/tmp/many-{n}')\n        except OSError: break",
        CHANGES,
    ),
    Attack(
        "output", "print without end", "for _ in range(3):\n    os.write(1, bytes(1 << 20))\nwon = True", (FILE_SIZE,)
    ),
    Attack(
        "descriptors",
        "open files without end",
        "fds = [os.open('fleet.toml', 0) for _ in range(400)]\nwon = True",
        (OPEN_FILES,),
    ),
    Attack(
        "time",
        "use the processor for longer than allowed",
        "while time.process_time() < 4: pass\nwon = True",
        (CPU,),
    ),
    Attack("time", "sleep for longer than allowed", SLEEP, (ALARM, WATCHDOG, KEEPER), seconds=0.4),
    Attack(
        "time",
        "sleep, the alarm ignored",
        f"import signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\n{SLEEP}",
        (WATCHDOG, KEEPER),
        (ALARM,),
        seconds=0.4,
    ),
    Attack(
        "time",
        "sleep, the alarm ignored and the watchdog called off",
        "import faulthandler, signal\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
        f"faulthandler.cancel_dump_traceback_later()\n{SLEEP}",
        (KEEPER,),
        seconds=0.4,
    ),
    # Ways around the filter and the walls
    Attack(
        "kernel",
        "system calls by a ring that no filter sees (io_uring)",
        "won = call(425, 425, 1, bytes(120)) > 0",
        (SECCOMP,),
        (MEMORY,),
    ),
    Attack(
        "kernel",
        "32-bit system calls (int 0x80)",
        "import mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(bytes.fromhex('53b814000000cd805bc3'))\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(m))\nwon = ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0",
        (SECCOMP,),
        machine="x86_64",
    ),
    Attack(
        "kernel",
        "become root in a user namespace of its own",
        "pid = call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)\npid or libc._exit(0)\n"
        "won = libc.waitpid(pid, None, 0) == pid",
        (SECCOMP,),
        (PROCESSES,),
    ),
    Attack(
        "kernel",
        "hold the kernel up in a page fault, to win races (userfaultfd)",
        "won = call(323, 282, 1) > 0",
        (SECCOMP,),
    ),
    Attack(
        "kernel",
        "mount over the tree",
        "won = ok(libc.mount(b'x', b'/tmp', b'tmpfs', 0, b'size=4k')) == 0",
        (PRIVILEGES, SECCOMP, LANDLOCK),
        besides=((Level.B, "not tried without: it would succeed"),),
    ),
)


@dataclass(frozen=True)
class Other:
    """Stopped by what is not a layer of the sandbox. Its test shows that it fails, and that just this is in its way."""

    goal: str
    name: str
    defence: str
    test: str


OTHERS = (
    Other(
        "output",
        "an answer without end, on every descriptor",
        "the parent stops reading",
        "test_evaluation.py::test_a_flood_in_the_place_of_an_answer_is_stopped",
    ),
    Other(
        "output",
        "notes without end of where it is, to keep the parent busy",
        "a number of them, each read once",
        "test_answer.py::test_notes_are_read_to_a_number_of_them_and_each_once",
    ),
    Other(
        "output",
        "millions of empty values, to fill the parent's memory",
        "they are counted first",
        "test_answer.py::test_values_are_counted_before_they_take_memory",
    ),
    Other(
        "output",
        "problems without end, each a book",
        "what is shown is cut",
        "test_answer.py::test_what_is_shown_of_problems_is_bounded_as_they_are",
    ),
    Other(
        "forged result",
        "a second answer on every descriptor",
        "the parent reads one document",
        "test_evaluation.py::test_an_answer_that_user_code_wrote_is_not_believed",
    ),
    Other(
        "forged result",
        "NaN, numbers too large, keys twice, half characters, nesting without end",
        "one text for one meaning",
        "test_answer.py::test_a_forged_answer_of_the_right_shape_is_a_problem",
    ),
    Other(
        "forged result",
        "an answer for another stack, file or cluster",
        "it may speak of what was asked only",
        "test_answer.py::test_an_answer_is_believed_for_what_was_asked_and_for_nothing_else",
    ),
    Other(
        "forged result",
        "text that a terminal would obey",
        "shown without control characters",
        "test_evaluation.py::test_what_the_code_printed_is_shown_with_its_problem_and_not_otherwise",
    ),
    Other(
        "forged result",
        "a problem that shows a line of a file outside",
        "the parent reads files of the tree only",
        "test_answer.py::test_a_problem_cannot_show_a_line_of_a_file_outside",
    ),
    Other(
        "poisoning",
        "import hooks, builtins and patches for the next evaluation",
        "a process for each",
        "test_attacks.py::test_nothing_of_an_evaluation_is_left_for_the_next",
    ),
    Other(
        "poisoning",
        "compiled files beside the sources",
        "code is compiled from its text",
        "test_evaluation.py::test_compiled_files_of_the_repository_are_not_believed",
    ),
    Other(
        "poisoning",
        "make the sandbox fail, to run without",
        "then no line is run",
        "test_attacks.py::test_what_cannot_be_confined_is_not_run",
    ),
    Other(
        "packages",
        "files that Python runs at its start (.pth, sitecustomize), in a package of the lockfile",
        "never a place for `site`",
        "test_packages.py::test_files_that_python_would_run_at_its_start_are_just_files",
    ),
    Other(
        "packages",
        "code that runs when a package is installed",
        "wheels only",
        "test_packages.py::test_no_code_of_a_package_is_run_to_install_it",
    ),
    Other(
        "packages",
        "another file than the one that was locked",
        "hashes",
        "test_packages.py::test_another_file_than_the_one_that_was_locked_is_not_taken",
    ),
    Other(
        "packages",
        "a package that takes the place of json, fleet or a file of the repository",
        "packages are searched last",
        "test_packages.py::test_a_package_neither_replaces_the_standard_library_nor_fleet_nor_a_file_of_the_repository",
    ),
    Other(
        "packages",
        "a pull request that locks a package for its own preview",
        "the base's lockfile is used",
        "../preview/test_merge.py::test_packages_are_those_that_the_base_locks",
    ),
    Other(
        "policy",
        "a pull request that calls itself trusted",
        "heads are always code of others",
        "../preview/test_merge.py::test_the_head_is_the_code_of_others_whatever_any_settings_say",
    ),
)


def table() -> str:
    """As it stands in docs/security.md."""
    lines = ["| | goal | attack | its defence at level A | at level B |", "|---|---|---|---|---|"]
    rows = [(one.goal, one.name, *(_stopped(one, level) for level in BOTH)) for one in ATTACKS]
    rows += [(one.goal, one.name, one.defence, "the same") for one in OTHERS]
    lines += [f"| {number} | {' | '.join(row)} |" for number, row in enumerate(rows, 1)]
    return "\n".join(lines) + "\n"


def _stopped(attack: Attack, level: Level) -> str:
    if level not in attack.levels:
        return "*not promised, and not counted: see above*"
    first, *others = [str(layer) for layer in attack.defences(level)]
    besides = [f"*{what}*" for where, what in attack.besides if where is level]
    more = [*others, *(f"({layer})" for layer in attack.also if layer in LAYERS[level]), *besides]
    return f"**{first}**" + (f"; also {', '.join(more)}" if more else "")
