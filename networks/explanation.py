"""explain: what computes each step of an optimised model, and how long it takes.

    >>> from seqtune.pytorch import explain
    >>> print(explain(fast, x))  # doctest: +SKIP
    >>> explain(fast, x).write("network.html")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqtune.errors import MisuseError
from seqtune.kernels.files import write_whole
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.tuner.load import Load, LoadMeter

from .capture.examples import result_for
from .compiled import Compiled
from .module import NetworkModule
from .nodes import Layer, Node, Pointwise, Product, Tuned
from .openvino_nodes import by_step, openvino_nodes
from .optimized import Optimized
from .parts import UNCOMPILED, left_out
from .program.device_threads import TURN

UNCOMPARED = "not compared with PyTorch's code"


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One step: what it computes, from which steps, with which kernel, and its least seconds alone."""

    number: int
    operation: str  # PyTorch's name, and that of the node in the exported graph
    shape: tuple[int, ...]
    element: str  # fp32 or bf16: how the result is stored
    reads: tuple[int, ...]  # numbers of steps; operands and constants of the model are left out
    kernel: str  # a kernel family, or "step" for generated code without parameters
    parameters: str
    fused: str  # what the kernel computes after its sums
    seconds: float
    openvino: tuple[tuple[str, float], ...] | None = None  # kernel and seconds of its nodes; None if not asked for


@dataclass(frozen=True, slots=True)
class NetworkExplanation:
    """All steps of a model in order, and the operations that stayed PyTorch's with the reason."""

    device: str
    steps: tuple[ExplainedStep, ...]
    kept: tuple[tuple[str, str], ...]
    openvino_rest: tuple[tuple[str, float], ...] = ()  # name and seconds of OpenVINO's nodes that belong to no step
    compared: tuple[str, ...] = ()  # the network's time and that of PyTorch's form of it, or that nothing was compared
    in_parts: bool = False  # whether parts of the model were compiled, each with a comparison of its own
    load: Load = field(default_factory=Load)  # of the machine while the steps were timed

    @property
    def subject(self) -> str:
        """The subject of each line of `compared`, in words."""
        return "a part of the network" if self.in_parts else "the whole network"

    @property
    def total(self) -> str:
        """The number of steps and the sum of their times, and whether PyTorch computes something that has no time."""
        rest = "; what PyTorch computes has no time here" if self.kept else ""
        return (f"{len(self.steps)} steps, {sum(step.seconds for step in self.steps) * 1e3:.3f} ms on {self.device}"
                f"{rest}")

    @property
    def doubt(self) -> str:
        """A line that says that the machine was busy while the steps were timed; empty if it was quiet."""
        return (f"{self.load} while these steps were timed: their times may be far too long; explain again when the "
                "machine is quiet") if self.load.heavy else ""

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{step.number:4} {step.seconds * 1e6:9.1f} us  {step.operation:40} {step.element} {step.kernel} "
                 f"{step.parameters}{' + ' + step.fused if step.fused else ''}{_beside(step)}" for step in self.steps]
        lines += [f"     {seconds * 1e6:9.1f} us  of OpenVINO alone: {name}" for name, seconds in self.openvino_rest]
        lines += [f"   PyTorch computes {name}: {reason}" for name, reason in self.kept]
        lines += [f"   {self.subject}: {line}" for line in self.compared]
        return "\n".join([*lines, *([self.doubt] if self.doubt else []), self.total])

    def write(self, path: str | Path) -> None:
        """Write a page of HTML that loads nothing. Raises SeqtuneError where that fails."""
        write_whole(Path(path), _page(self))


def explain(fast: Optimized, *example: Tensor, openvino: bool = False) -> NetworkExplanation:
    """Run an optimised model on the operands that it was optimised for, and time each step alone.

    A step that is timed alone finds its operands in the caches, as in the network. On a busy machine, the times are too
    long, and a line of the explanation says so. What PyTorch computes is not timed. `openvino` adds the nodes of
    OpenVINO in fp32 that compute the same operations, as its profile shows them. Raises UnavailableError without
    OpenVINO, MisuseError for it and a model that was optimised in parts, and for what `optimize` did not return or
    other operands, SeqtuneError for a model that it cannot read.
    """
    if not isinstance(fast, Optimized):
        raise MisuseError(f"a {type(fast).__name__} is not an optimised model; explain what optimize(...) returned")
    if not all(isinstance(x, Tensor) for x in example):
        raise MisuseError("explain runs the model on tensors; give those that it was optimised for")
    whole = fast.model if isinstance(fast.model, Compiled) else None
    if openvino and whole is None:
        raise MisuseError("this model was optimised in parts; OpenVINO's nodes are shown for whole models only")
    programs = [module for module in fast.modules() if isinstance(module, NetworkModule)]
    operands = _operands_of(programs, lambda: result_for(fast, example, "these operands"))
    if programs and not operands:
        raise MisuseError("these operands do not go through the kernels; explain the model with operands of the shapes "
                          "that it was optimised for")
    steps: list[ExplainedStep] = []
    origins: dict[str, int] = {}
    meter = LoadMeter()
    with TURN, torch.no_grad():
        for program in programs:
            if program in operands:
                origins |= {job.node.origin: number for number, job in enumerate(program.jobs, len(steps))
                            if job.node is not None}
                steps += _steps(program, program.measure(*operands[program]), len(steps))
    load = meter.well_known_load()  # threads that wait for a CPU make a short step a thousand times as long
    graphs = [module for module in fast.modules() if isinstance(module, Compiled)]
    kept = [entry for graph in graphs for entry in graph.fallbacks]
    kept += [(layers, UNCOMPILED) for layers in [left_out(fast.model)] if layers]
    compared = [UNCOMPARED if graph.verdict is None else str(graph.verdict) for graph in graphs]
    rest: tuple[tuple[str, float], ...] = ()
    if openvino and whole is not None:
        nodes, network = openvino_nodes(whole.original, example, fast.device.threads)
        matched = by_step(nodes, network, origins)
        steps = [replace(step, openvino=tuple((node.kernel, node.seconds) for node in matched.get(step.number, [])))
                 for step in steps]
        rest = tuple((node.name, node.seconds) for node in matched.get(-1, []))
    return NetworkExplanation(fast.device.name, tuple(steps), tuple(kept), rest, tuple(compared),
                              in_parts=whole is None, load=load)


def _operands_of(programs: Sequence[NetworkModule],
                 run: Callable[[], object]) -> dict[NetworkModule, tuple[Tensor, ...]]:
    """The operands that each program gets in a run; a program that is not called is left out."""
    operands: dict[NetworkModule, tuple[Tensor, ...]] = {}
    handles = [program.register_forward_pre_hook(lambda module, given: operands.__setitem__(module, given))
               for program in programs]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return operands


def _beside(step: ExplainedStep) -> str:
    return "" if step.openvino is None else f" | OpenVINO: {_nodes(step)}"


def _nodes(step: ExplainedStep) -> str:
    """The nodes of OpenVINO for a step, in words."""
    if step.openvino is None:
        return ""
    return "; ".join(f"{kernel} {seconds * 1e6:.0f} us" for kernel, seconds in step.openvino) or "no node of its own"


def _steps(program: NetworkModule, seconds: list[float], first: int) -> Iterator[ExplainedStep]:
    writers: dict[object, int] = {}
    for number, (job, least) in enumerate(zip(program.jobs, seconds, strict=True), first):
        node = job.node
        reads = sorted({writers[binding.value.buffer] for binding in job.bindings
                        if not binding.writes and binding.value.buffer in writers})
        writers |= {binding.value.buffer: number for binding in job.bindings if binding.writes}
        result = next(binding.value.view for binding in job.bindings if binding.writes)
        configuration = program.configurations.get(node) if isinstance(node, Tuned) else None
        yield ExplainedStep(
            number, job.name if node is None else f"{node.name} ({node.origin})",
            result.shape, result.element.dtype, tuple(reads),
            "step" if configuration is None else configuration.kernel,
            _formula(node) if configuration is None else configuration.brief(), _fused(node), least)


def _formula(node: Node | None) -> str:
    return _names(node.formula) if isinstance(node, Pointwise) else ""


def _fused(node: Node | None) -> str:
    if isinstance(node, Product):
        return _names(node.epilogue)
    if not isinstance(node, Layer):
        return ""
    return ", ".join([*(["bias"] if node.bias is not None else []), *([_names(node.epilogue)] if node.epilogue.lines
                                                                      else [])])


def _names(formula: Formula) -> str:
    return " ".join(str(line[0]) for line in formula.lines)


_STYLE = """body{font:14px system-ui,sans-serif;margin:2em;max-width:75em}table{border-collapse:collapse}
td,th{padding:.2em .6em;text-align:left;border-bottom:1px solid #ddd;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}.bar{background:#0072b2;height:.7em;display:inline-block}"""


def _page(explanation: NetworkExplanation) -> str:
    longest = max((step.seconds for step in explanation.steps), default=1.0)
    rows = "\n".join(_row(step, longest) for step in explanation.steps)
    kept = "".join(f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in explanation.kept)
    whole = "".join(f"<p>{explanation.subject.capitalize()}: {escape(line)}.</p>" for line in explanation.compared)
    doubt = f"\n<p>{escape(explanation.doubt)}.</p>" if explanation.doubt else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Steps of a network</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{_STYLE}</style></head><body><h1>{escape(explanation.total)}</h1>
<p>Times are the least of each step alone, in microseconds.</p>{doubt}
<table><tr><th>step</th><th>reads</th><th>operation</th><th>result</th><th>kernel</th><th>parameters</th>
<th>fused</th><th>us</th><th>OpenVINO</th><th></th></tr>
{rows}</table>{_rest(explanation)}
{whole}
<h2>Left to PyTorch</h2>{f"<ul>{kept}</ul>" if kept else "<p>Nothing.</p>"}</body></html>
"""


def _row(step: ExplainedStep, longest: float) -> str:
    texts = (step.operation, f"{'×'.join(map(str, step.shape))} {step.element}", step.kernel, step.parameters,
             step.fused)
    cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
    return (f'<tr><td class="n">{step.number}</td><td>{", ".join(map(str, step.reads))}</td>{cells}'
            f'<td class="n">{step.seconds * 1e6:.1f}</td><td>{escape(_nodes(step))}</td>'
            f'<td><span class="bar" style="width:{step.seconds / longest * 10:.2f}em"></span></td></tr>')


def _rest(explanation: NetworkExplanation) -> str:
    if not explanation.openvino_rest:
        return ""
    nodes = "".join(f"<li>{escape(name)}: {seconds * 1e6:.0f} us</li>" for name, seconds in explanation.openvino_rest)
    return f"<h2>Nodes of OpenVINO without a step</h2><ul>{nodes}</ul>"
