"""Configs: our configurations as triton.Config objects under the names of a user's kernel, and a list to begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seqtune.errors import MisuseError, check_installed
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.registry import is_registered, kernel

from ..formats import OPTIONS

# BLOCK_M, BLOCK_N, BLOCK_K, num_warps and num_stages of `space("gemm")` after the default: large blocks for large
# products, flat ones for few rows, deep ones for small products. None needs more than 100 KB of shared memory.
_GEMM = ((128, 256, 64, 8, 3), (128, 128, 32, 4, 4), (64, 128, 64, 4, 3), (16, 64, 128, 4, 3), (32, 32, 128, 2, 3))


def library() -> Any:
    """Triton's module. Raises MissingPackageError."""
    check_installed("triton", "triton")
    import triton

    return triton


def space(operation: str = "gemm", *, names: Mapping[str, str] | None = None,
          only: Sequence[str] = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")) -> list[Any]:
    """A list of triton.Config for `configs=`: the safe default first, and some others of different shapes.

    triton.autotune asks `prune` only if its list has two or more. `names` gives the kernel's names of our parameters,
    `only` those that the kernel has. Raises MisuseError where there is no family, MissingPackageError without Triton.
    """
    family = family_of(operation)
    check_names(names, family)
    _check_parameters(only, family)
    default = dict(family.default)
    settings = [default, *(dict(default, BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, num_warps=warps, num_stages=stages)
                           for m, n, k, warps, stages in _GEMM)]
    wanted = {*only, *OPTIONS}
    return [config_of({name: value for name, value in each.items() if name in wanted}, names or {})
            for each in settings]


def family_of(operation: str) -> Kernel:
    """Our Triton family for an operation. Raises MisuseError."""
    name = f"triton.{operation}"
    if not is_registered(name) or kernel(name).implementation is None:
        raise MisuseError(f"there are no configurations of Triton for {operation!r:.40}; there are some for gemm")
    return kernel(name)


def check_names(names: object, family: Kernel | None = None) -> None:
    """Check that `names` gives each parameter a name of its own, and no other word one. Raises MisuseError."""
    if names is None:
        return
    if not isinstance(names, Mapping) or not all(isinstance(word, str) for word in (*names, *names.values())):
        raise MisuseError('names is no mapping of our names to the kernel\'s, as in {"BLOCK_M": "BLOCK_SIZE_M"}')
    if family is not None:
        _check_parameters(names, family)
    theirs = [*names.values(), *(name for name in (family.by_name if family is not None else ()) if name not in names)]
    twice = next((name for name in names.values() if theirs.count(name) > 1), None)
    if twice is not None:
        raise MisuseError(f"{twice!r:.40} would be the name of two parameters; `names` must tell them apart")


def _check_parameters(words: Iterable[str], family: Kernel) -> None:
    """Raise MisuseError if a word is no parameter of the family."""
    wrong = next((word for word in words if word not in family.by_name), None)
    if wrong is not None:
        raise MisuseError(f"{family.name} has no parameter {wrong!r:.40}; there are {', '.join(family.by_name)}")


def config_of(settings: Mapping[str, Setting], names: Mapping[str, str], like: Any = None) -> Any:
    """A triton.Config of our settings under the kernel's names.

    The config `like` gives what we do not choose: its other kwargs and its pre_hook.
    """
    own = {name: value for name, value in settings.items() if name in OPTIONS}
    if own.get("maxnreg") == 0:
        own.pop("maxnreg")  # a data set's word for "not set"
    kwargs = {names.get(name, name): value for name, value in settings.items() if name not in own and name != "maxnreg"}
    if like is not None:
        kwargs = {**like.kwargs, **kwargs}
    return library().Config(kwargs, **own, pre_hook=None if like is None else like.pre_hook)


def settings_of(config: Any, names: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a triton.Config under our names, without a kwarg whose name is our name of another parameter."""
    ours = {theirs: name for name, theirs in names.items()}
    options = {name: value for name in OPTIONS if (value := getattr(config, name, None)) is not None}
    return {**options, **{ours.get(name, name): value for name, value in config.kwargs.items()
                          if name in ours or name not in names}}


def nearest(configuration: Configuration, configs: Sequence[Any], names: Mapping[str, str]) -> Any:
    """The config that shares the most settings with a configuration; the first of several."""
    def shared(config: Any) -> int:
        theirs = settings_of(config, names)
        return sum(theirs.get(name) == value for name, value in configuration.settings)

    return max(configs, key=shared)
