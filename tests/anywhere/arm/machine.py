"""EmulatedMachine: an ARM machine in a folder. Its Python and its programs run under QEMU, and nothing needs root.

Debian's packages and the wheels of PyPI are unpacked, not installed. The folder is a virtual environment whose `python`
is a script that starts the emulator, so that everything a test starts by `sys.executable` is emulated as well. Its `cc`
compiles for ARM, and leaves a program as such a script, too. The variable QEMU_CPU names the processor.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.paths import ROOT

SUITE = "bookworm"  # Debian 12, whose Python is 3.11; the packages' versions are those of its newest point release
MIRROR = "http://deb.debian.org/debian"
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# The emulator and the compiler, which run here.
TOOLS = ("qemu-user-static", "gcc-12-aarch64-linux-gnu", "cpp-12-aarch64-linux-gnu", "binutils-aarch64-linux-gnu",
         "libgcc-12-dev-arm64-cross", "libisl23", "libmpc3", "libmpfr6", "libgmp10")
# What runs on the emulated machine, and the headers to compile for it.
LIBRARIES = (
    "libc6", "libgcc-s1", "libstdc++6", "libgomp1", "zlib1g", "libexpat1", "libffi8", "libssl3", "libbz2-1.0",
    "liblzma5", "libsqlite3-0", "libreadline8", "libtinfo6", "libncursesw6", "libuuid1", "libdb5.3", "libcrypt1",
    "libnsl2", "libtirpc3", "python3.11", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib",
    "libc6-dev", "linux-libc-dev")
FOR_TESTS = ("pytest", "pytest-xdist", "hypothesis", "packaging")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_26_aarch64", "manylinux_2_17_aarch64",
             "manylinux2014_aarch64")
# What decides about requirements there, as the packaging standard names it.
MARKERS = {"platform_machine": "aarch64", "platform_system": "Linux", "sys_platform": "linux", "os_name": "posix",
           "python_version": "3.11", "python_full_version": "3.11.2", "implementation_name": "cpython",
           "platform_python_implementation": "CPython", "extra": ""}
DEFAULT_CPU = "neoverse-n1"
SLOWDOWN = 10  # by how much the emulator is slower: a measuring worker starts in 6 s, where a machine takes 0.6 s
# The emulator keeps a table of every page of addresses, also of those that are only reserved around buffers, for ever:
# without a limit, 0.8 GB for each kernel that runs.
MOST_ADDRESSES = 16 << 20  # KiB
_PYTHON = """#!/bin/sh
ulimit -v {addresses}
exec '{tools}/usr/bin/qemu-aarch64-static' -cpu "${{QEMU_CPU:-{cpu}}}" -L '{root}' -0 '{home}/bin/{name}' \\
  '{root}/usr/bin/python3.11' "$@"
"""
_COMPILER = """#!/bin/sh
LD_LIBRARY_PATH='{tools}/usr/lib/x86_64-linux-gnu' \\
'{tools}/usr/bin/aarch64-linux-gnu-gcc-12' '--sysroot={root}' -B'{tools}/usr/bin/aarch64-linux-gnu-' "$@" || exit
out=a.out program=yes
for word; do
  case $word in -c|-S|-E|-shared|-v|--version|-dumpversion|-print*|-fsyntax-only) program=no ;; esac
  [ "$before" = -o ] && out=$word
  before=$word
done
case $out in /*) ;; *) out=$PWD/$out ;; esac
if [ $program = yes ] && [ -f "$out" ]; then
  mv "$out" "$out.aarch64"
  printf '#!/bin/sh\\nexec %s -cpu "${{QEMU_CPU:-{cpu}}}" -L %s %s "$@"\\n' "'{tools}/usr/bin/qemu-aarch64-static'" \\
    "'{root}'" "'$out.aarch64'" > "$out"
  chmod +x "$out"
fi
"""


class Impossible(Exception):
    """This machine cannot have an emulated one; the message says why."""


class EmulatedMachine:
    """The machine in a folder, and the environment of what runs on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.root, self.tools = self.folder / "root", self.folder / "tools"
        self.python = self.folder / "bin" / "python"

    def build(self, wheel: Path) -> None:
        """Fetch and unpack what is missing. `wheel` is ours, whose declared dependencies are installed with it.

        Raises Impossible.
        """
        if sys.platform != "linux" or os.uname().machine != "x86_64":
            raise Impossible("the emulator's packages are those of Linux on x86-64")
        missing = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
        if missing or not KEYS.exists():
            raise Impossible(f"Debian's packages are unpacked here, and there is no {', '.join(missing) or KEYS}; on "
                             "Ubuntu: apt-get install debian-archive-keyring")
        self._packages()
        self._wheels(wheel)
        self._scripts()

    def environment(self, cpu: str = DEFAULT_CPU, **variables: str) -> dict[str, str]:
        """The variables of a process on the machine with a processor, as QEMU names it."""
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("OPENBLAS_", "ATEN_", "NPY_", "XDG_", "SEQTUNE_", "PYTHON", "VIRTUAL_ENV"))}
        kept |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {**kept, "HOME": str(home), "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "QEMU_CPU": cpu, "PYTHONDONTWRITEBYTECODE": "1",
                "SEQTUNE_TEST_SLOWDOWN": str(SLOWDOWN), **variables}

    def versions(self) -> dict[str, str]:
        """The versions of the packages, by name."""
        versions: dict[str, str] = json.loads((self.folder / "packages.json").read_text())
        return versions

    def _packages(self) -> None:
        wanted = [*(f"{name}:amd64" for name in TOOLS), *(f"{name}:arm64" for name in LIBRARIES)]
        note = self.folder / "packages.json"
        if note.is_file() and set(self.versions()) == {name.partition(":")[0] for name in wanted}:
            return
        state, debs = self.folder / "apt", self.folder / "debs"
        for path in (state / "lists" / "partial", state / "archives" / "partial", debs):
            path.mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        (state / "sources.list").write_text(f"deb [arch=amd64,arm64 signed-by={KEYS}] {MIRROR} {SUITE} main\n")
        settings = {"Dir::State": state, "Dir::State::Lists": state / "lists", "Dir::State::status": state / "status",
                    "Dir::Cache": state, "Dir::Etc::sourcelist": state / "sources.list",
                    "Dir::Etc::sourceparts": "/dev/null", "APT::Architectures::": "amd64", "APT::Sandbox::User": "",
                    "Acquire::Languages": "none"}
        apt = ["apt-get", "-q", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}")),
               "-o", "APT::Architectures::=arm64"]
        _run([*apt, "update"])
        _run([*apt, "download", *wanted], cwd=debs)
        versions = {}
        for deb in sorted(debs.glob("*.deb")):
            name, version, machine = deb.stem.split("_")
            _run(["dpkg-deb", "-x", str(deb), str(self.root if machine == "arm64" else self.tools)])
            versions[name] = version.replace("%3a", ":")
        for emulator in (self.tools / "usr" / "bin").glob("qemu-*"):
            if emulator.name != "qemu-aarch64-static":
                emulator.unlink()
        shutil.rmtree(debs)
        note.write_text(json.dumps(versions, indent=1))

    def _wheels(self, wheel: Path) -> None:
        """Install the wheel with its declared dependencies, in the versions of constraints.txt."""
        with zipfile.ZipFile(wheel) as archive:
            name = next(entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA"))
            declared = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []
        wanted = []
        for requirement in map(Requirement, declared):
            if requirement.marker is None or requirement.marker.evaluate(MARKERS):
                requirement.marker = None  # pip would ask it of this machine
                wanted.append(str(requirement))
        note, site = self.folder / "wheels.json", self.folder / "lib" / "python3.11" / "site-packages"
        words = [*sorted(wanted), *FOR_TESTS, (ROOT / "constraints.txt").read_text()]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--target", str(site),
               "--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none",
               "--only-binary=:all:", *(word for name in PLATFORMS for word in ("--platform", name))]
        if not note.is_file() or json.loads(note.read_text()) != words:
            shutil.rmtree(site, ignore_errors=True)
            _run([*pip, "--constraint", str(ROOT / "constraints.txt"), *wanted, *FOR_TESTS])
            note.write_text(json.dumps(words))
        _run([*pip, "--no-deps", "--upgrade", str(wheel)])

    def _scripts(self) -> None:
        (self.folder / "bin").mkdir(exist_ok=True)
        (self.folder / "pyvenv.cfg").write_text(f"home = {self.root}/usr/bin\n")
        facts = {"tools": self.tools, "root": self.root, "home": self.folder, "cpu": DEFAULT_CPU,
                 "addresses": MOST_ADDRESSES}
        texts = {**{name: _PYTHON.format(**facts, name=name) for name in ("python", "python3", "python3.11")},
                 **{name: _COMPILER.format(**facts) for name in ("cc", "gcc")}}
        for name, text in texts.items():
            path = self.folder / "bin" / name
            path.write_text(text)
            path.chmod(0o755)


def _run(words: Sequence[str], cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
    """Run a command of the building. Raises Impossible with its last line of errors."""
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no reason").splitlines()
        reason = next((line for line in lines if "error" in line.lower() or line.startswith("E:")), lines[-1])
        raise Impossible(f"{Path(words[0]).name} failed: {reason:.300}")
