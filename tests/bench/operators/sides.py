"""How the operators are built and started: Kopf in an environment of its own, controller-runtime by the lab's Go."""

from __future__ import annotations

import compileall
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fleet.lab import files
from fleet.lab.programs.build import Module, build_module
from tests.bench.command import fleet_command

HERE = Path(__file__).parent
KOPF = "1.45.2"
CONTROLLER_RUNTIME = "0.24.1"


@dataclass(frozen=True, slots=True)
class _OfBench(Module):
    @property
    def source(self) -> Path:
        return HERE / "go"


GO = _OfBench("operator", CONTROLLER_RUNTIME)


def commands() -> dict[str, list[str]]:
    """By side; each takes KUBECONFIG CONTEXT NAMESPACE ENGINE INTERVAL, and `bare` the first three and a number."""
    fleet_command()  # compiles what would be compiled with each start
    return {
        "fleet.kube.runtime": [sys.executable, "-m", "tests.bench.operators.ours"],
        f"controller-runtime {CONTROLLER_RUNTIME}": [str(build_module(GO) / GO.name)],
        f"Kopf {KOPF}": [str(_python_with_kopf()), str(HERE / "with_kopf.py")],
        "bare": [sys.executable, str(HERE / "writes.py")],
    }


def _python_with_kopf() -> Path:
    target = files.cache_directory() / "bench" / f"kopf-{KOPF}-python{sys.version_info.major}.{sys.version_info.minor}"
    python = target / "bin" / "python"
    if not (target / "whole").exists():
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", target], check=True)
        uv = shutil.which("uv")
        install = [uv, "pip", "install", "--python"] if uv else [sys.executable, "-m", "pip", "--python"]
        subprocess.run([*install, python, *([] if uv else ["install"]), f"kopf=={KOPF}"], check=True)
        compileall.compile_dir(target / "lib", quiet=2)
        (target / "whole").touch()
    return python
