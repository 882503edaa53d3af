"""TableFile: the identity of a file of tuned settings, as its name tells it, and the file's content.

The content maps a number of tokens to the settings of a Triton kernel. A file belongs to the experts of a layer,
`E=256,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json`, or to a linear layer,
`N=512,K=7168,device_name=...`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from seqtune.data.json_content import parse_json
from seqtune.errors import FormatError
from seqtune.kernels.files import read_bounded
from seqtune.kernels.operations.feature import LARGEST_SIZE
from seqtune.kernels.problem import Problem

PROJECTS = ("vllm", "sglang")
DTYPES = ("fp8_w8a8", "int8_w8a8", "int8_w8a16", "int4_w4a16")  # bf16 and fp16 are not in names
LARGEST_FILE = 1_000_000  # bytes; the largest one of SGLang 0.5.23 has 8,000
MOST_ENTRIES = 200
SHARED = 32  # numbers of experts of models with a shared one are multiples of it; one more includes the shared one
VERSION = "triton_version"  # a key of vLLM's files beside the numbers of tokens

Settings: TypeAlias = dict[str, int]
Table: TypeAlias = dict[int, Settings]  # number of tokens -> settings

_NAME = re.compile(
    r"(?P<a>[EN])=(?P<first>[0-9]{1,7}),(?P<b>[NK])=(?P<second>[0-9]{1,7})"
    r",device_name=(?P<device>[A-Za-z0-9()+._-]{1,80}?)"
    r"(?:,dtype=(?P<dtype>[a-z0-9]+_[a-z0-9]+))?"
    r"(?:,block_shape=\[(?P<scale_n>[0-9]{1,7}), ?(?P<scale_k>[0-9]{1,7})\])?"
    r"(?P<per_channel>,per_channel_quant=True)?(?P<down>_down)?\.json")


@dataclass(frozen=True, slots=True, order=True)
class TableFile:
    """The identity of one file."""

    experts: int  # 0: a linear layer
    n: int  # width inside an expert on one GPU, or the layer's outputs
    k: int  # the layer's inputs; 0 for experts
    device: str  # the GPU's name with underscores
    dtype: str = ""  # empty: bf16 or fp16
    scale_n: int = 0  # outputs and inputs that share a scale; 0: no blocks
    scale_k: int = 0
    per_channel: bool = False
    down: bool = False  # SGLang's file of the second product

    def is_of(self, project: str) -> bool:
        """Whether the project looks for such files.

        SGLang alone has files of the second product, of scales per channel, and of experts with the shared one.
        """
        shared = self.experts > SHARED and self.experts % SHARED == 1
        return project == "sglang" or not (self.down or self.per_channel or shared)

    def name(self, project: str) -> str:
        """The name by which the project looks for the file. SGLang's block shapes have a space after the comma."""
        sizes = f"E={self.experts},N={self.n}" if self.experts else f"N={self.n},K={self.k}"
        comma = ", " if project == "sglang" else ","
        dtype = f",dtype={self.dtype}" if self.dtype else ""
        blocks = f",block_shape=[{self.scale_n}{comma}{self.scale_k}]" if self.scale_n else ""
        scales = ",per_channel_quant=True" if self.per_channel else ""
        return f"{sizes},device_name={self.device}{dtype}{blocks}{scales}{'_down' if self.down else ''}.json"

    @classmethod
    def parse(cls, name: str) -> TableFile:
        """The inverse of `name`, for both projects. Raises FormatError."""
        match = _NAME.fullmatch(name)
        if match is None or match["a"] + match["b"] not in ("EN", "NK"):
            raise FormatError(f"{name!r:.120} is not the name of a file of vLLM or SGLang")
        moe = match["a"] == "E"
        first, second = int(match["first"]), int(match["second"])
        scale_n, scale_k = int(match["scale_n"] or 0), int(match["scale_k"] or 0)
        dtype = match["dtype"] or ""
        if not (0 < first <= LARGEST_SIZE and 0 < second <= LARGEST_SIZE and bool(scale_n) == bool(scale_k)
                and max(scale_n, scale_k) <= LARGEST_SIZE and (not dtype or dtype in DTYPES)
                and (moe or (dtype in DTYPES[:2] and scale_n > 0 and not match["down"] and not match["per_channel"]))):
            raise FormatError(f"{name!r:.120} has sizes or a dtype that are not known here")
        return cls(first if moe else 0, second if moe else first, 0 if moe else second, match["device"],
                   dtype, scale_n, scale_k, bool(match["per_channel"]), bool(match["down"]))

    @classmethod
    def of(cls, problem: Problem, device: str) -> TableFile:
        """The file that holds the settings of a problem. Raises ProblemError for other operations."""
        dtype, scale_n, scale_k = str(problem["dtype"]), problem.size("scale_n"), problem.size("scale_k")
        name = device.replace(" ", "_")
        if problem.type == "scaled_gemm":
            return cls(0, problem.size("n"), problem.size("k"), name, dtype, scale_n, scale_k)
        return cls(problem.size("experts"), problem.size("intermediate"), 0, name,
                   dtype if dtype in DTYPES else "", scale_n, scale_k, problem["per_channel"] == "yes",
                   problem["half"] == "down")

    def problem(self, tokens: int, hidden: int | None = None, top_k: int | None = None, expert_parallel: int = 1,
                dtype: str = "bf16") -> Problem:
        """The problem of a number of tokens. `hidden` and `top_k`, which no name tells, may be unknown.

        `dtype` is the element type where the name has none. Raises ProblemError.
        """
        if not self.experts:
            return Problem.make("scaled_gemm", m=tokens, n=self.n, k=self.k, dtype=self.dtype, scale_n=self.scale_n,
                                scale_k=self.scale_k)
        return Problem.make("fused_moe", tokens=tokens, experts=self.experts, top_k=top_k, hidden=hidden,
                            intermediate=self.n, half="down" if self.down else "up", dtype=self.dtype or dtype,
                            scale_n=self.scale_n, scale_k=self.scale_k, per_channel="yes" if self.per_channel else "no",
                            expert_parallel=expert_parallel)


def read_table(path: Path) -> tuple[Table, str | None]:
    """Read a file's settings and its version of Triton, if it names one. Raises FormatError."""
    content = parse_json(read_bounded(path, LARGEST_FILE), path)
    if not isinstance(content, dict) or len(content) > MOST_ENTRIES:
        raise FormatError(f"{path} is not an object of at most {MOST_ENTRIES} numbers of tokens")
    version = content.pop(VERSION, None)
    table: Table = {}
    for tokens, settings in content.items():
        if not (re.fullmatch(r"[1-9][0-9]{0,6}", tokens) and isinstance(settings, dict)
                and all(isinstance(value, int) and abs(value) < LARGEST_SIZE for value in settings.values())):
            raise FormatError(f"{path}: {tokens!r:.20} is not a number of tokens with settings that are whole numbers")
        table[int(tokens)] = {name: int(value) for name, value in settings.items()}
    if not table:
        raise FormatError(f"{path} holds no settings")
    return table, version if isinstance(version, str) else None


def table_text(table: Mapping[int, Mapping[str, int]], version: str | None = None) -> str:
    """The content of a file as both projects write it."""
    entries = {str(tokens): {name: bool(value) if name == "USE_TMA" else value for name, value in settings.items()}
               for tokens, settings in sorted(table.items())}
    return json.dumps({**({VERSION: version} if version else {}), **entries}, indent=4) + "\n"
