"""MIOpenDriver command lines, as AMD's MIOpen prints them in its logs, and the convolutions that they describe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from seqtune.errors import ProblemError, warned
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.foreign_text import ForeignText

# Its options (its driver/conv_driver.hpp): letter -> (long name, feature); the numbers are its defaults.
DRIVER_DTYPES = {"conv": "fp32", "convfp16": "fp16", "convbfp16": "bf16", "convint8": "int8"}
_DRIVER_FEATURES = {
    "n": ("batchsize", "n"), "c": ("in_channels", "c"), "H": ("in_h", "h"), "W": ("in_w", "w"),
    "k": ("out_channels", "k"), "y": ("fil_h", "r"), "x": ("fil_w", "s"), "p": ("pad_h", "pad_h"),
    "q": ("pad_w", "pad_w"), "u": ("conv_stride_h", "stride_h"), "v": ("conv_stride_w", "stride_w"),
    "l": ("dilation_h", "dilation_h"), "j": ("dilation_w", "dilation_w"), "g": ("group_count", "groups"),
}
_DRIVER_OPTIONS = {
    "F": "forw", "m": "mode", "I": "in_layout", "O": "out_layout", "f": "fil_layout", "_": "spatial_dim",
    "z": "pad_mode", "b": "bias", "r": "pad_val", "Z": "tensor_vect",
}
_DRIVER_IGNORED = {  # options that control the run only
    "i": "iter", "V": "verify", "C": "verification_cache", "t": "time", "w": "wall", "s": "search", "P": "printconv",
    "o": "dump_output", "d": "in_data", "e": "weights", "a": "in_bias", "D": "dout_data", "S": "solution",
    "L": "vector_length", "G": "gpualloc", "!": "in_d", "@": "fil_d", "#": "conv_stride_d", "$": "pad_d",
    "^": "dilation_d",
}
_DIRECTIONS = {1: "forward", 2: "backward_data", 4: "backward_weights"}  # bits of --forw; 0 stands for all
PROGRAM = "MIOpenDriver"
_DRIVER_DEFAULTS = {"n": 100}  # its other defaults are the same as ours


def driver_words(words: Sequence[str]) -> Sequence[str] | None:
    """The words after the program name if `words` is a MIOpenDriver command line, else None.

    In MIOpen's logs, others stand before it: `MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv ...`.
    """
    start = next((index for index, word in enumerate(words, 1)
                  if PROGRAM in word and PurePath(word).name == PROGRAM), 0)
    rest = words[start:]
    options = any(word.startswith("-") for word in rest[1:])
    return rest if start or (bool(rest) and rest[0] in DRIVER_DTYPES and options) else None


def driver_features(words: Sequence[str]) -> dict[str, object]:
    """The conv2d features in a command line, some still as text. Raises ProblemError.

    `words` are the words after the program name.
    """
    if not words or words[0] not in DRIVER_DTYPES:
        program = words[0][:40] if words else "nothing"
        raise ProblemError(f"MIOpenDriver {program}: only {', '.join(DRIVER_DTYPES)} can be read")
    features = {letter: feature for letter, (_, feature) in _DRIVER_FEATURES.items()}
    names = {long: letter for letter, (long, _) in _DRIVER_FEATURES.items()}
    names |= {long: letter for table in (_DRIVER_OPTIONS, _DRIVER_IGNORED) for letter, long in table.items()}
    values: dict[str, object] = {**_DRIVER_DEFAULTS, "dtype": DRIVER_DTYPES[words[0]]}
    options: dict[str, str] = {}
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        flag, equals, text = word.partition("=")
        letter = names.get(flag[2:]) if flag.startswith("--") else flag[1:] if re.fullmatch(r"-.", flag) else None
        if letter is None or not (letter in features or letter in _DRIVER_OPTIONS or letter in _DRIVER_IGNORED):
            raise ProblemError(f"MIOpenDriver has no option {word[:40]!r} that can be read here")
        if not equals:
            if not rest:
                raise ProblemError(f"the MIOpenDriver option {word} needs a value")
            text = rest.pop(0)
        if letter in features:
            values[features[letter]] = text
        elif letter in _DRIVER_OPTIONS:
            options[_DRIVER_OPTIONS[letter]] = text
    for name, flag in (("c", "-c"), ("h", "-H"), ("w", "-W"), ("k", "-k"), ("r", "-y"), ("s", "-x")):
        if name not in values:
            meaning = operation("conv2d").by_name[name].meaning
            raise ProblemError(f"the MIOpenDriver command line needs {flag} ({meaning})")
    values.update(_driver_options(options))
    return values


def _driver_options(options: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    accepted = {"mode": ("conv",), "spatial_dim": ("2",), "pad_val": ("0",), "tensor_vect": ("0",),
                "pad_mode": ("default", "conv", "valid")}
    for name, fine in accepted.items():
        if options.get(name, fine[0]) not in fine:
            value = options[name][:40]
            raise ProblemError(f"MIOpenDriver --{name} {value} cannot be read here, only {' or '.join(fine)}")
    if options.get("pad_mode") == "valid":
        values.update(pad_h=0, pad_w=0)
    layouts = {options[name].upper() for name in ("in_layout", "out_layout", "fil_layout") if options.get(name)}
    if len(layouts) > 1:
        raise ProblemError(f"mixed layouts {' and '.join(sorted(layouts))[:60]}; input, filter and output must agree")
    if layouts:
        values["layout"] = layouts.pop()
    forward = options.get("forw", "0")
    if forward not in set("01234567"):
        raise ProblemError(f"MIOpenDriver --forw {forward[:40]} is not one of 0 (all), 1 forward, 2 data, 4 weights")
    directions = [direction for bit, direction in _DIRECTIONS.items() if int(forward) & bit or forward == "0"]
    values["direction"] = directions[0]
    if len(directions) > 1 and "forw" in options:
        warned(f"MIOpenDriver --forw {forward} runs {', '.join(directions)}; the answer is for {directions[0]} alone "
               f"({', '.join(f'-F {bit}: {direction}' for bit, direction in _DIRECTIONS.items())})")
    if options.get("bias", "0") not in ("", "0"):
        values["bias"] = "yes"
    return values


DRIVER = ForeignText("conv2d", driver_words, driver_features)
