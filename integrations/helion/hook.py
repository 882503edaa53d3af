"""Helion: predicted configurations of Helion's kernels instead of a search, or as seeds of one.

    >>> import helion, seqtune.helion
    >>> @helion.kernel(autotuner_fn=seqtune.helion.autotuner())  # doctest: +SKIP
    ... def matmul(x, y): ...

Helion describes a bound kernel by its ConfigSpec: the matrix products in it with their sizes and blocks, the loads of
their operands with their strides, and the values that a configuration may have. A kernel of one product, whose blocks
are rows, columns and depth, is asked of our Triton family; other kernels are answered where a file declares them. For
what is left, and below a wanted confidence, Helion searches as it would without seqtune, and one line says why.
Helion is imported when it asks. Users know this as `seqtune.helion`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.errors import ConfigurationError, KernelError, MisuseError, SeqtuneError, UnavailableError, one_line, shown
from seqtune.hooks.asking import ANY, Asking, Bounds, Tool, declared, fitting, narrowed, problem_of
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import BY_TORCH_NAME
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel as registered
from seqtune.kernels.task import Task
from seqtune.kernels.triton.text import AMD_ONLY

from .formats import ELEMENT

if TYPE_CHECKING:
    from seqtune.kernels.operations.feature import Value

__all__ = ["Autotuner", "aot_file", "autotuner", "seed_configs"]

Describe = Callable[..., Mapping[str, "Value"]]  # the features of a problem, from the arguments of a kernel
# What is read of Helion's ConfigSpec.
_READ = ("block_sizes", "default_config", "l2_groupings", "loop_orders", "matmul_facts", "memory_op_facts", "normalize",
         "supported_config_keys")
TYPES = ("fp16", "bf16", "fp32")  # that triton.gemm multiplies
TENSOR_PRECISIONS = ("default", "high", "tf32", "tf32x3")  # Helion's words for fp32 products on tensor cores


def autotuner(*, kernel: Kernel | str | Path | None = None, problem: Describe | None = None,
              device: Device | str | None = None, checkpoint: str | Path | None = None,
              min_confidence: float | None = None) -> Autotuner:
    """Make the function for `helion.kernel(autotuner_fn=...)`, which predicts a configuration instead of searching.

    `kernel` declares a kernel that is no single matrix product: a Kernel or a JSON file of one, whose parameters are
    named as Helion's (`num_warps`; `block_sizes_0` is the first element of `block_sizes`). `problem` gives the features
    of its problem from the kernel's arguments. `device` counts where no GPU is running (None: the running one). If the
    configuration is not expected to reach the share `min_confidence` of the best speed, Helion searches. Raises
    MisuseError for arguments that can never work.
    """
    return Autotuner(*_checked(kernel, problem), Asking(device, checkpoint, min_confidence))


def seed_configs(kernel: Any, arguments: Sequence[object], count: int = 4, *,
                 declaration: Kernel | str | Path | None = None, problem: Describe | None = None,
                 device: Device | str | None = None, checkpoint: str | Path | None = None) -> list[Any]:
    """Up to `count` configurations of a Helion kernel, best first, for `autotune_seed_configs=`.

    Helion's search starts from them, so that it can only improve on them. The kernel is bound to the arguments;
    `declaration`, `problem`, `device` and `checkpoint` are those of `autotuner`. Raises SeqtuneError where nothing can
    be predicted.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise MisuseError(f"count={shown(count)}; the number of configurations is at least 1")
    if not hasattr(kernel, "bind"):
        raise MisuseError(f"kernel={shown(kernel)} is no kernel of Helion")
    asked = Autotuner(*_checked(declaration, problem), Asking(device, checkpoint))
    return asked.configs(kernel.bind(tuple(arguments)), arguments, count)


def aot_file(dispatcher: str | Path, function: str, **features: str) -> str:
    """The text of the file from which a kernel of `helion.aot_kernel` takes its configuration for a shape.

    Helion looks for it as `heuristic_FUNCTION.py` in the folder HELION_HEURISTIC_DIR, or beside the kernel's file FILE
    as `_helion_aot_FILE_cuda_sm90.py`. `dispatcher` is the JSON file of a dispatch whose kernel is triton.gemm, with
    blocks in the order rows, columns, depth, or is declared with Helion's names. `features` give those that vary in the
    domain, in Python over the kernel's `args`: `m="args[0].shape[0]"`. For a shape without a valid member Helion takes
    its default. Raises MisuseError.
    """
    from seqtune.predictor.dispatch.dispatcher import Dispatcher
    from seqtune.predictor.dispatch.python_file import python_file

    chosen = Dispatcher.load(dispatcher)
    varying = [feature.name for feature in chosen.domain.varying]
    if not function.isidentifier() or set(varying) != set(features):
        raise MisuseError(f"name the kernel's function and give {', '.join(varying)} by its args, as in "
                          f"m='args[0].shape[0]' (found {function!r:.40} with {', '.join(features) or 'none'})")
    configs = "".join(f"        {_helion_names(member)!r},\n" for member in chosen.members)
    given = "".join(f"        {name}={text},\n" for name, text in features.items())
    return (f"{python_file(chosen)}\n\ndef key_{function}(*args):\n    member = choose(\n{given}    ).member\n"
            f"    return -1 if member is None else member\n\n\ndef autotune_{function}(*args):\n    _C = [\n{configs}"
            f"    ]\n    number = key_{function}(*args)\n    if number < 0:\n"
            "        raise LookupError(\"no configuration is valid for this shape\")  # Helion takes its default\n"
            "    return _C[number]\n")


def _helion_names(member: Configuration) -> dict[str, Any]:
    """The settings of a member as Helion's configuration writes them. Raises MisuseError."""
    names = {"BLOCK_M": "block_sizes_0", "BLOCK_N": "block_sizes_1", "BLOCK_K": "block_sizes_2",
             "GROUP_M": "l2_groupings_0"} if member.kernel == "triton.gemm" else {}
    config: dict[str, Any] = {}
    for name, value in sorted((names.get(name, name), value) for name, value in member.settings):
        element = ELEMENT.fullmatch(name)
        if name == "SPLIT_K" and value != 1:
            raise MisuseError(f"{member.kernel} {member.brief()} splits k, which Helion's kernel does not")
        if element is not None:
            config.setdefault(element["key"], []).append(value)
        elif name != "SPLIT_K" and not (names and name in AMD_ONLY and value in (0, 1)):
            config[name] = value
    return config


def _checked(kernel: Kernel | str | Path | None, problem: Describe | None) -> tuple[Kernel | None, Describe | None]:
    """The declared kernel, and how its problem is described. Raises MisuseError if one is given without the other."""
    family = None if kernel is None else declared(kernel)
    if (family is None) != (problem is None):
        raise MisuseError("a declared kernel needs `problem`, a function from the kernel's arguments to the features "
                          "of its problem, and only a declared kernel needs it")
    if problem is not None and not callable(problem):
        raise MisuseError(f"problem={shown(problem)} is no function from the kernel's arguments to features")
    return family, problem


@dataclass(frozen=True)
class Autotuner:
    """The callable behind `autotuner_fn`."""

    family: Kernel | None  # None: the kernel is one matrix product
    describe: Describe | None
    asking: Asking
    helion: Tool = field(default_factory=lambda: Tool("Helion searches"))

    def __call__(self, bound: Any, arguments: Sequence[object], **options: Any) -> Any:
        """An object whose `autotune` returns the predicted configuration; Helion's own search where there is none."""
        from helion.runtime import settings

        try:
            return Predicted(self.configs(bound, arguments, 1)[0])
        except SeqtuneError as error:
            self.helion.chooses(error)
        return settings.default_autotuner_fn(bound, arguments, **options)

    def configs(self, bound: Any, arguments: Sequence[object], count: int) -> list[Any]:
        """The predicted configurations (helion.Config) of a bound kernel, best first. Raises SeqtuneError."""
        spec = bound.config_spec
        missing = next((name for name in _READ if not hasattr(spec, name)), None)
        if missing is not None:
            raise UnavailableError(f"the ConfigSpec of Helion {version('helion')} has no {missing}; that of 1.5 has")
        device = self.asking.gpu()
        if self.family is None or self.describe is None:
            product = Product.of(spec)
            if product.problem["dtype"] == "fp32" and bound.settings.dot_precision not in TENSOR_PRECISIONS:
                raise KernelError(f"its fp32 products are of precision {bound.settings.dot_precision!r:.20}, which "
                                  "tensor cores do not have")
            task = fitting(narrowed(Task.of(product.problem, device, [registered("triton.gemm")]),
                                    product.allowed(spec)))
            settings = [product.settings(configuration, spec) for configuration in self.asking.propose(task, count)]
            order = product.order(spec)
        else:
            problem = problem_of(self.family, _features(self.describe, arguments))
            task = Task.of(problem, device, [self.family])
            settings = [dict(configuration.settings) for configuration in self.asking.propose(task, count)]
            order = None
        return [config_of(spec, each, order) for each in settings]


def _features(describe: Describe, arguments: Sequence[object]) -> Mapping[str, Value]:
    """The features that the user's function gives. Raises MisuseError if they are none."""
    features = describe(*arguments)
    if not isinstance(features, Mapping) or not all(isinstance(name, str) for name in features):
        raise MisuseError(f"`problem` returned {shown(features)}, which is no mapping of features")
    return features


@dataclass(frozen=True, slots=True)
class Predicted:
    """What Helion calls instead of a search."""

    config: Any  # helion.Config

    def autotune(self, *, skip_cache: bool = False) -> Any:
        """The configuration; there is no cache to skip."""
        return self.config


@dataclass(frozen=True, slots=True)
class Product:
    """The one matrix product of a kernel, and its blocks as indices of `block_sizes`."""

    problem: Problem
    rows: int
    columns: int
    depth: int

    @classmethod
    def of(cls, spec: Any) -> Product:
        """The product that Helion describes. Raises KernelError if the kernel is no single product, ProblemError."""
        facts = spec.matmul_facts
        if len(facts) != 1:
            raise KernelError(f"the kernel has {len(facts) or 'no'} matrix products; declare it (kernel=...)")
        (fact,) = facts
        blocks = (fact.m_block_id, fact.n_block_id, fact.k_block_id)
        if len(spec.block_sizes) != 3 or set(blocks) != set(spec.block_sizes.valid_block_ids()):
            raise KernelError("the kernel's blocks are not those of one matrix product, rows, columns and depth; "
                              "declare it (kernel=...)")
        names = [str(dtype).rpartition(".")[2] for dtype in (fact.lhs_dtype, fact.rhs_dtype)]
        dtype = BY_TORCH_NAME.get(names[0])
        if names[0] != names[1] or dtype not in TYPES:
            raise KernelError(f"it multiplies {' and '.join(dict.fromkeys(names))}; only {', '.join(TYPES)}")
        sizes = (fact.static_m, fact.static_n, fact.static_k)
        if None in sizes:
            raise KernelError("Helion does not know the sizes of the product")
        m, n, k = sizes
        problem = Problem.make("gemm", m=m, n=n, k=k, dtype=dtype,
                               trans_a=_transposed(spec, "lhs", (blocks[0], blocks[2])),
                               trans_b=_transposed(spec, "rhs", (blocks[2], blocks[1])))
        return cls(problem, *map(spec.block_sizes.block_id_to_index, blocks))

    def allowed(self, spec: Any) -> dict[str, Bounds]:
        """The parameters of triton.gemm that Helion's configuration has, with their bounds."""
        blocks = {name: spec.block_sizes[index] for name, index in
                  (("BLOCK_M", self.rows), ("BLOCK_N", self.columns), ("BLOCK_K", self.depth))}
        return {"num_warps": ANY, "num_stages": ANY, "SPLIT_K": (1, 1),
                "GROUP_M": ANY if len(spec.l2_groupings) == 1 else (1, 1),
                **{name: (block.min_size, block.max_size) for name, block in blocks.items()},
                **{name: ANY for name in AMD_ONLY if name in spec.supported_config_keys()}}

    def settings(self, configuration: Configuration, spec: Any) -> dict[str, Setting]:
        """A configuration of triton.gemm in Helion's terms."""
        names = {"BLOCK_M": f"block_sizes_{self.rows}", "BLOCK_N": f"block_sizes_{self.columns}",
                 "BLOCK_K": f"block_sizes_{self.depth}", "num_warps": "num_warps", "num_stages": "num_stages",
                 **({"GROUP_M": "l2_groupings_0"} if len(spec.l2_groupings) == 1 else {}),
                 **{name: name for name in AMD_ONLY if name in spec.supported_config_keys()}}
        return {names[name]: value for name, value in configuration.settings if name in names}

    def order(self, spec: Any) -> list[list[int]] | None:
        """The order of loops that lets blocks of rows follow each other, as groups do; None if there is no choice."""
        if len(spec.loop_orders) != 1:
            return None
        (loops,) = spec.loop_orders
        blocks = [spec.block_sizes.block_id_to_index(block) for block in loops.block_ids]
        return [sorted(range(len(blocks)), key=lambda index: blocks[index] != self.rows)]


def _transposed(spec: Any, operand: str, axes: tuple[int, int]) -> str:
    """Whether the first of an operand's axes (given by their blocks) is the contiguous one: "yes" or "no".

    Raises KernelError if the operand is no plain tensor: computed, or without a contiguous axis.
    """
    loads = [fact for fact in spec.memory_op_facts if fact.matmul_operand == operand]
    if len(loads) != 1 or set(loads[0].subscript_block_ids) != set(axes):
        raise KernelError(f"the {operand} of the product is not one tensor; declare the kernel (kernel=...)")
    strides = dict(zip(loads[0].subscript_block_ids, loads[0].subscript_strides, strict=True))
    first, second = (strides[axis] for axis in axes)
    if second == 1:
        return "no"
    if first == 1:
        return "yes"
    raise KernelError(f"the {operand} of the product has no contiguous axis")


def config_of(spec: Any, settings: Mapping[str, Setting], order: list[list[int]] | None = None) -> Any:
    """Helion's default configuration with these settings, as Helion normalises it (helion.Config).

    Raises MisuseError for a name that its configurations lack, ConfigurationError where Helion refuses a value or
    replaces it.
    """
    import helion

    config = dict(spec.default_config())
    keys = {name: _key_of(spec, config, name) for name in settings}
    for name, value in settings.items():
        key, index = keys[name]
        config[key] = value if index is None else [value if number == index else old
                                                   for number, old in enumerate(config[key])]
    if order is not None and "loop_orders" in config:
        config["loop_orders"] = order
    try:
        spec.normalize(config)
    except helion.exc.InvalidConfig as error:
        raise ConfigurationError(f"Helion refuses the configuration: {one_line(error)}") from None
    for name, (key, index) in keys.items():
        kept = config.get(key) if index is None else config[key][index]
        if kept != settings[name]:
            raise ConfigurationError(f"Helion replaces {name}={settings[name]} by {kept!r:.40}")
    return helion.Config(**config)


def _key_of(spec: Any, config: Mapping[str, Any], name: str) -> tuple[str, int | None]:
    """The key of a configuration that the name of a parameter means, and the index in its list; None without a list.

    Raises MisuseError if there is none.
    """
    match = ELEMENT.fullmatch(name)
    if match is not None and isinstance(config.get(match["key"]), list):
        if int(match["index"]) < len(config[match["key"]]):
            return match["key"], int(match["index"])
    elif not isinstance(config.get(name), list) and name in spec.supported_config_keys():
        return name, None
    raise MisuseError(f"Helion's configurations of this kernel have no {name!r:.60}; there are "
                      f"{', '.join(sorted(config))}")
