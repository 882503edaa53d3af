"""Inductor: predicted configurations of the Triton templates of torch.compile, instead of a benchmark of some twenty.

    >>> import torch, seqtune.inductor
    >>> with seqtune.inductor.choosing():  # doctest: +SKIP
    ...     torch.compile(model, mode="max-autotune-no-cudagraphs")(x)

Inductor asks an `InductorChoices` for the choices of every matrix product before it generates any code. The one here
keeps the choices of the vendor's library and replaces all of Triton's by one, so that two are timed, or none if the
predicted one is to stand alone. What no kernel here describes (convolutions, flex attention, fp32 without TF32) and
what is not certain enough is left to Inductor, and one line says why. Users know this as `seqtune.inductor`. Importing
it loads PyTorch: `pip install 'seqtune[pytorch]'`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.errors import KernelError, SeqtuneError, UnavailableError, check_installed, one_line
from seqtune.hooks.asking import ANY, Asking, Tool, declared, fitting, narrowed, problem_of
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import BY_TORCH_NAME
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Kernel, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel as registered
from seqtune.kernels.task import Task
from seqtune.kernels.version import VERSION
from seqtune.predictor.checkpoint_folder import find
from seqtune.predictor.predictors import UNTRAINED, answers_for

check_installed("pytorch", "torch")

import torch  # noqa: E402

try:
    from torch._inductor import config, select_algorithm
    from torch._inductor.choices import InductorChoices
    from torch._inductor.virtualized import V
except ImportError as error:
    raise UnavailableError(f"the Inductor of PyTorch {torch.__version__} is not one that can be asked: "
                           f"{one_line(error)}") from None

if TYPE_CHECKING:
    from seqtune.kernels.operations.feature import Value

__all__ = ["PredictedChoices", "choosing", "kernel_options"]

TEMPLATES = {"mm": "triton::mm", "addmm": "triton::mm", "scaled_mm": "triton::mm", "bmm": "triton::bmm",
             "baddbmm": "triton::bmm"}  # Inductor's word for an operation -> the template that is answered
FP8 = {"float8_e4m3fn": "fp8_w8a8", "float8_e4m3fnuz": "fp8_w8a8"}
PREDICTED = "seqtune"  # the annotation of a predicted choice


@contextlib.contextmanager
def choosing(*, alone: bool = False, device: Device | str | None = None, checkpoint: str | Path | None = None,
             min_confidence: float | None = None) -> Iterator[PredictedChoices]:
    """Let Inductor take predicted configurations in this thread, for what is compiled inside the context.

    With `alone` no other choice is left, so that Inductor times nothing; else it times the predicted one against the
    vendor's library, if `max_autotune_gemm_backends` has ATEN. `device` counts where no GPU is running (None: the
    running one); `checkpoint` names a model (None: the one for the device). Where the configuration is not expected to
    reach the share `min_confidence` of the best speed, Inductor chooses. Raises MisuseError, CheckpointError for a
    checkpoint that cannot be read, and UnavailableError where PyTorch's Inductor has no such hook.
    """
    if not hasattr(InductorChoices, "_finalize_template_configs"):
        raise UnavailableError(f"the Inductor of PyTorch {torch.__version__} does not ask for choices "
                               "(InductorChoices._finalize_template_configs); that of 2.13 does")
    choices = PredictedChoices(alone=alone, device=device, checkpoint=checkpoint, min_confidence=min_confidence)
    choices.uuid()  # reads the checkpoint
    selection = select_algorithm.get_algorithm_selector_cache()
    if alone:
        selection.add_preprocessing_fn(predicted_alone)
    try:
        with V.set_choices_handler(choices), config.patch(inductor_choices_class=lambda: choices):
            yield choices
    finally:
        if predicted_alone in selection.preprocessing_fns:  # PyTorch may have been told to clear them
            selection.preprocessing_fns.remove(predicted_alone)


def kernel_options(kernel: Kernel | str | Path, *, device: Device | str | None = None,
                   checkpoint: str | Path | None = None, min_confidence: float | None = None,
                   **features: Value) -> dict[str, Setting]:
    """The options of a kernel that you declare, for `flex_attention(..., kernel_options=)`.

    No kernel here describes flex attention, so `kernel` does: a Kernel, or a JSON file of one, whose parameters are
    named as the options (BLOCK_M, BLOCK_N, num_warps, num_stages); `features` give its problem. Where nothing is
    predicted, or the prediction is not expected to reach the share `min_confidence` of the best speed, there are no
    options, so that Inductor chooses, and one line says why. Raises MisuseError and FormatError.
    """
    asking, family = Asking(device, checkpoint, min_confidence), declared(kernel)
    try:
        task = Task.of(problem_of(family, features), asking.gpu(), [family])
        return dict(asking.propose(task, 1)[0].settings)
    except SeqtuneError as error:
        Tool("Inductor chooses").chooses(error)
        return {}


def predicted_alone(choices: list[Any]) -> list[Any]:
    """The predicted choice of an operation without the others; all choices where none is predicted."""
    return [choice for choice in choices if PREDICTED in choice.annotations] or choices


class PredictedChoices(InductorChoices):
    """What Inductor asks for choices. The arguments are those of `choosing`, which leaves a choice `alone`."""

    def __init__(self, *, alone: bool = False, device: Device | str | None = None,
                 checkpoint: str | Path | None = None, min_confidence: float | None = None) -> None:
        super().__init__()
        self.asking, self.alone = Asking(device, checkpoint, min_confidence), alone
        self.inductor = Tool("Inductor chooses")

    def uuid(self) -> str:
        """The identity of all that an answer depends on beside the problem, for the keys of Inductor's caches."""
        asking = self.asking
        name = asking.checkpoint or answers_for("triton")
        content = "" if name in UNTRAINED else (find(name) / "seqtune.json").read_text()  # it has the files' digests
        device = asking.device.key if isinstance(asking.device, Device) else asking.device
        identity = [VERSION, str(name), content, device, asking.min_confidence, self.alone]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def _finalize_template_configs(self, template_choices: dict[str, Any], kernel_inputs: Any, templates: list[Any],
                                   op_name: str, kwarg_overrides: dict[str, dict[str, Any]] | None = None) -> list[Any]:
        """The choices of the vendor's library and the predicted one; Inductor's own where none is predicted.

        `template_choices` has a generator of choices for the name of each template.
        """
        template, chosen = TEMPLATES.get(op_name, ""), template_choices
        if not template and any(name.startswith("triton::") for name in chosen):
            self._leave(op_name, kernel_inputs.device_type)
        elif template in chosen and kernel_inputs.device_type == "cuda":  # PyTorch's word for AMD's GPUs, too
            first = next(chosen[template], None)
            try:
                if first is not None:  # the template takes the problem
                    only = {template: self.predicted(first, kernel_inputs, op_name)}
                    libraries = {each.uid for each in templates
                                 if isinstance(each, select_algorithm.ExternKernelChoice)}
                    chosen = {name: iter([only[name]]) if name in only else choices
                              for name, choices in chosen.items() if name in only or name in libraries}
            except SeqtuneError as error:
                self.inductor.chooses(error)
                chosen = {**chosen, template: chain([first], chosen[template])}
        final: list[Any] = super()._finalize_template_configs(chosen, kernel_inputs, templates, op_name,
                                                              kwarg_overrides)
        return final

    def predicted(self, first: Any, inputs: Any, op_name: str) -> Any:
        """The first of a template's choices with the predicted settings. Raises SeqtuneError."""
        device = self.asking.gpu()
        problem, family = described(op_name, inputs, first.extra_kwargs)
        own = first.params.to_kwargs()
        names = {parameter.name: name for parameter in family.parameters
                 if (name := parameter.name.replace("_SIZE", "")) in own}
        task = fitting(narrowed(Task.of(problem, device, [family]), dict.fromkeys(names, ANY)))
        (configuration,) = self.asking.propose(task, 1)
        settings: dict[str, Any] = {name: configuration[ours] for ours, name in names.items()}
        depth = inputs.mnk_symbolic()[2]
        settings["EVEN_K"] = V.graph.sizevars.statically_known_multiple_of(depth, settings["BLOCK_K"])
        choice = type(first)(first.template, type(first.params)({**own, **settings}), first.extra_kwargs, first.layout,
                             first.inputs)
        choice.annotations[PREDICTED] = configuration
        return choice

    def get_conv_configs(self, device_type: str | None = "cuda") -> Any:
        """Inductor's own configurations of its convolution template, which no kernel here describes."""
        self._leave("convolutions", device_type)
        return super().get_conv_configs(device_type)

    def get_flex_attention_fwd_configs(self, head_dim: int, dtype: torch.dtype,
                                       device_type: str | None = "cuda") -> list[Any]:
        """Inductor's own configurations of flex attention, which no kernel here describes."""
        self._leave("flex attention", device_type)
        configs: list[Any] = super().get_flex_attention_fwd_configs(head_dim, dtype, device_type)
        return configs

    def _leave(self, template: str, device_type: str | None) -> None:
        """Say that Inductor chooses for a template on a GPU."""
        if device_type == "cuda":
            self.inductor.chooses(KernelError(f"no kernel here describes its template of {template}"))


def described(op_name: str, inputs: Any, extra: Mapping[str, Any]) -> tuple[Problem, Kernel]:
    """The problem of a template's inputs (MMKernelInputs), and the kernel that describes the template.

    Dynamic sizes count by their hints. Raises KernelError where no kernel describes it, ProblemError.
    """
    m, n, k = inputs.mnk_hinted()
    strides = {id(node): stride[-2:] for node, stride in zip(inputs.nodes(), inputs.strides_hinted(), strict=True)}
    left, right = inputs.mat1mat2()
    types = [str(node.get_dtype()).rpartition(".")[2] for node in (left, right)]
    dtype = (FP8 if op_name == "scaled_mm" else BY_TORCH_NAME).get(types[0])
    if types[0] != types[1] or dtype is None:
        raise KernelError(f"no kernel here multiplies {' and '.join(dict.fromkeys(types))} for its {op_name}")
    if dtype == "fp32" and not extra.get("ALLOW_TF32"):
        raise KernelError("fp32 products without TF32 are not those of tensor cores")
    features: dict[str, Value] = {
        "m": m, "n": n, "k": k, "dtype": dtype, "trans_a": _transposed(strides[id(left)], (m, k)),
        "trans_b": _transposed(strides[id(right)], (k, n))}
    if op_name == "scaled_mm":
        if (features.pop("trans_a"), features.pop("trans_b")) != ("no", "yes"):
            raise KernelError("no kernel here multiplies 8-bit numbers that are not contiguous along k")
        return Problem.make("recorded", kernel="scaled_mm", scale_k=0, **features), scaled()
    if op_name in ("bmm", "baddbmm") and (batch := inputs.batch_hinted()) > 1:
        return Problem.make("recorded", kernel="bmm", batch=batch, **features), batched()
    if op_name == "addmm" and inputs.strides_hinted()[0][0] == 0:  # a row for all rows
        features["bias"] = "yes"
    return Problem.make("gemm", **features), registered("triton.gemm")


def _transposed(strides: tuple[int, int], sizes: tuple[int, int]) -> str:
    """Whether the first of a matrix's axes is the contiguous one: "yes" or "no". Raises KernelError if none is."""
    if strides[1] == 1 or sizes[1] == 1:
        return "no"
    if strides[0] == 1 or sizes[0] == 1:
        return "yes"
    raise KernelError("no kernel here multiplies matrices without a contiguous axis")


@lru_cache(maxsize=1)
def batched() -> Kernel:
    """triton.gemm for a batch of equal products, each with blocks of its own, as Inductor's template `bmm` has them."""
    family = registered("triton.gemm")
    own = {"products": Expression("batch"),
           "blocks": Expression("batch * ceil_div(m, BLOCK_M) * ceil_div(n, BLOCK_N) * SPLIT_K")}
    return replace(family, name="inductor.bmm", operation="recorded", implementation=None,
                   derived=tuple((name, own.get(name, expression)) for name, expression in family.derived))


@lru_cache(maxsize=1)
def scaled() -> Kernel:
    """triton.scaled_gemm where a tensor or a row has one scale (`scale_k` is 0), which the epilogue multiplies by."""
    return replace(registered("triton.scaled_gemm"), name="inductor.scaled_mm", operation="recorded")
