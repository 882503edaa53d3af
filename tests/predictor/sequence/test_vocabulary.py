"""Tests of words and numeric codes of source and target sentences."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from seqtune.errors import CheckpointError, ConfigurationError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter, Setting
from seqtune.kernels.problem import Problem
from seqtune.predictor.sequence.declaration import Declaration
from seqtune.predictor.sequence.numeric_codes import CODE_SIZE, MODULI, codes
from seqtune.predictor.sequence.source_facts import RATIO_NAMES
from seqtune.predictor.sequence.vocabulary import PAD, UNKNOWN, SourceBatch, Vocabulary

DEVICE = Device("toy:a", "toy", "arch1", "simd", threads=2, extra=(("flavour", "mint"), ("queues", 3)))
FIRST = Kernel("toy.first", "conv2d", ("toy",), (
    Parameter("tile", (1, 2, 14)), Parameter("order", ("a", "b")), Parameter("eight", (8, "8"))),
    (Constraint.of("tile <= row_w", "too wide"),), (("tile", 1),))
SECOND = Kernel("toy.second", "conv2d", ("toy",), (Parameter("tile", (2, 28)),), (), (("tile", 2),))
PROBLEM = Problem.make("conv2d", c=64, h=56, w=56, k=64, r=3, s=3)
VOCABULARY = Vocabulary.build([FIRST, SECOND], [DEVICE])


def test_a_code_shows_divisibility_exactly_and_magnitude_smoothly() -> None:
    divisible = slice(-5 * len(MODULI), -4 * len(MODULI))  # the first of the five patterns
    for value in (1, 7, 56, 96, 224, 1000):
        assert [bool(bit) for bit in codes([value])[0][divisible]] == [value % modulus == 0 for modulus in MODULI]
    near, far = np.abs(np.diff(codes([1000.5, 1001.5, 4000.5]), axis=0)).sum(axis=1)
    assert near < 0.01 < far


def test_codes_of_unlike_small_numbers_differ_and_unknown_is_neither_zero_nor_a_word() -> None:
    found = codes([*range(65), None, "word", 0.5, -3])
    assert found.shape == (69, CODE_SIZE)
    assert len(np.unique(found.round(5), axis=0)) == len(found)
    assert found[65, 0] == 1
    assert found[65].sum() == 1
    assert not found[66].any()


def test_a_source_names_every_feature_derived_quantity_and_device_fact() -> None:
    sentence = VOCABULARY.source(PROBLEM, DEVICE)
    said = [VOCABULARY.names[name] for name in sentence.names]
    assert "<unknown>" not in said
    assert {"type", "conv2d.out_h", "conv2d.row_w", "conv2d.flop", "device.queues", *RATIO_NAMES} <= set(said)
    words = {VOCABULARY.words[word] for word in sentence.words if word != PAD}
    assert {"type=conv2d", "dtype=fp32", "layout=NCHW", "backend=toy", "flavour=mint"} <= words
    assert "<unknown>" not in words
    numbers = sentence.words == PAD
    assert sentence.codes[numbers].any(axis=1).all()
    assert not sentence.codes[~numbers].any()
    assert sentence.quantities[VOCABULARY.quantities.index("conv2d.row_w")] == 54


def test_what_was_never_seen_is_unknown_but_keeps_its_numbers() -> None:
    other = Device("toy:b", "toy", "arch2", "wide", threads=5, extra=(("colour", 7),))
    sentence = VOCABULARY.source(PROBLEM, other)
    said = [VOCABULARY.names[name] for name in sentence.names]
    assert sentence.words[said.index("device.instruction_set")] == UNKNOWN
    extra = -1 - len(RATIO_NAMES)
    assert sentence.names[extra] == UNKNOWN
    assert np.array_equal(sentence.codes[extra], codes([7])[0])
    assert np.array_equal(sentence.codes[said.index("device.threads")], codes([5])[0])


def test_kernels_share_the_words_of_parameters_with_the_same_name() -> None:
    assert VOCABULARY.value_words("toy.first")[0][1] == VOCABULARY.value_words("toy.second")[0][0]
    assert len(set(VOCABULARY.value_words("toy.first")[2].tolist())) == 2, "8 and '8' are two words"
    assert VOCABULARY.longest == 4
    groups = VOCABULARY.target_groups()
    assert groups[VOCABULARY.kernel("toy.first")] == groups[VOCABULARY.kernel("toy.second")]
    assert groups.max() < len(VOCABULARY.parameter_names)


def test_a_target_is_the_kernel_and_its_settings_in_order() -> None:
    configuration = Configuration("toy.first", (("tile", 14), ("order", "b"), ("eight", "8")))
    said = [VOCABULARY.targets[word] for word in VOCABULARY.target(configuration)]
    assert said == ["kernel:toy.first", "tile=14", 'order="b"', 'eight="8"']
    with pytest.raises(ConfigurationError, match="tile=3"):
        VOCABULARY.target(Configuration.of("toy.first", {"tile": 3}))
    with pytest.raises(CheckpointError, match=r"does not know the kernel 'toy\.third'; .*; train on problems"):
        VOCABULARY.target(Configuration.of("toy.third", {}))


def test_extending_keeps_every_number_and_takes_the_newer_declaration() -> None:
    newer = dataclasses.replace(SECOND, version=2, parameters=(Parameter("tile", (2, 28, 30)), Parameter("deep", (1,))))
    device = Device("toy:c", "toy", "arch3", "simd512")
    larger = VOCABULARY.extended([newer], [device])
    assert larger.targets[:len(VOCABULARY.targets)] == VOCABULARY.targets
    assert larger.words[:len(VOCABULARY.words)] == VOCABULARY.words
    assert larger.names[:len(VOCABULARY.names)] == VOCABULARY.names
    assert np.array_equal(larger.target_groups()[:len(VOCABULARY.targets)], VOCABULARY.target_groups())
    assert "instruction_set=simd512" in larger.words
    larger.check([FIRST, newer])
    with pytest.raises(CheckpointError, match="another vocabulary"):
        VOCABULARY.check([FIRST, newer])


@pytest.mark.parametrize(("change", "said"), [
    ({"name": "toy.new"}, "toy.new is not in it"),
    ({"version": 7}, "toy.second has version 1 in it and 7 here"),
    ({"parameters": (Parameter("tile", (2, 29)),)}, "toy.second.tile has the values 2,28 in it and 2,29 here"),
    ({"parameters": (Parameter("tail", (2, 28)),)}, "toy.second has the parameters tile in it and tail here"),
    ({"derived": (("area", Expression("tile * tile")),)},
     "toy.second derives other quantities in it than here (area)"),
])
def test_a_kernel_that_differs_is_named_with_what_differs(change: dict[str, object], said: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        VOCABULARY.check([FIRST, dataclasses.replace(SECOND, **change)])  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_a_kernel_that_changed_after_its_check_is_compared_again() -> None:
    vocabulary = Vocabulary.build([FIRST, SECOND], [DEVICE])
    vocabulary.check([FIRST, SECOND])
    vocabulary.check([SECOND])
    with pytest.raises(CheckpointError):
        vocabulary.check([FIRST, dataclasses.replace(SECOND, version=7)])
    vocabulary.check([FIRST])


def of_values(*values: Setting) -> Kernel:
    return Kernel("toy.mixed", "conv2d", ("toy",), (Parameter("x", values),), (), (("x", values[0]),))


MIXED = of_values(1, 1.0, True, "1", 0.5, False, "true", -2.5)


def test_fractions_and_booleans_are_numbers_and_keep_their_types_in_json() -> None:
    vocabulary = Vocabulary.build([MIXED], [DEVICE])
    assert list(map(repr, vocabulary.target_values()[3:])) == list(map(repr, MIXED.parameters[0].values))
    coded = codes(vocabulary.target_values()[3:])
    assert (coded[[0, 0, 4, 5, 7]] == codes([1.0, True, 0.5, 0, -2.5])).all()
    assert not coded[[3, 6]].any()
    kept = Declaration.model_validate_json(vocabulary.kernels[0].model_dump_json())
    assert list(map(repr, kept.parameters[0][1])) == list(map(repr, MIXED.parameters[0].values))
    words = [int(vocabulary.target(Configuration.of("toy.mixed", {"x": value}))[1])
             for value in MIXED.parameters[0].values]
    assert words == list(range(3, 11))


@pytest.mark.parametrize(("there", "here"), [((1, 2), (1.0, 2)), ((0, 1), (False, True)), ((1.0,), (True,)),
                                             (("1",), (1,))])
def test_equal_values_of_different_types_are_different_values(there: tuple[Setting, ...],
                                                              here: tuple[Setting, ...]) -> None:
    assert not Vocabulary.build([of_values(*there)], [DEVICE]).differences([of_values(*there)])
    with pytest.raises(CheckpointError, match="x has "):
        Vocabulary.build([of_values(*there)], [DEVICE]).check([of_values(*here)])


@pytest.mark.parametrize(("there", "here", "shown"), [
    (("0.25", "0.5", "1.0"), (0.25, 0.5, 1.0), "0.25,0.5,1.0"), (("True", "False"), (True, False), "true,false"),
    ((2, "0.5"), (2, 0.5), "2,0.5")])
def test_a_checkpoint_whose_words_stand_for_numbers_says_that_it_must_be_trained_again(
        there: tuple[Setting, ...], here: tuple[Setting, ...], shown: str) -> None:
    newer = dataclasses.replace(of_values(*here), version=2)
    with pytest.raises(CheckpointError, match="toy.mixed.x has " + shown + " as words in it and as numbers here, so it "
                                              "must be trained again"):
        Vocabulary.build([of_values(*there)], [DEVICE]).check([newer])


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9223372036854775808"])
def test_a_declaration_holds_finite_numbers_of_64_bits(number: str) -> None:
    text = Declaration.of(of_values(0.5)).model_dump_json().replace("0.5", number)
    with pytest.raises(ValueError, match=r"finite|number"):
        Declaration.model_validate_json(text)


def test_a_batch_pads_to_the_longest_and_masks_the_padding() -> None:
    short = VOCABULARY.source(Problem.make("recorded", size=3), DEVICE)
    long = VOCABULARY.source(PROBLEM, DEVICE)
    batch = SourceBatch.of([short, long])
    assert batch.mask.sum(axis=1).tolist() == [len(short.names), len(long.names)]
    assert not batch.names[0, len(short.names):].any()
    assert np.array_equal(batch.codes[1], long.codes)


def test_a_vocabulary_of_facts_goes_on_reading_facts_and_one_of_ratios_sees_no_name_of_a_machine() -> None:
    old = Vocabulary.build([FIRST, SECOND], [DEVICE], listed="facts")
    read = Vocabulary(old.names, old.words, old.targets, old.kernels, old.derived)  # as from a checkpoint
    said = [read.names[name] for name in read.source(PROBLEM, DEVICE).names]
    assert {"device.architecture", "device.peak_gflops", "device.l2_bytes"} <= set(said)
    assert read.extended([FIRST], [DEVICE]) == old
    assert not {"device.architecture", "device.peak_gflops", "device.l2_bytes", "device.bandwidth_gbs"} & {
        *VOCABULARY.names}
    twin = dataclasses.replace(DEVICE, name="toy:z", architecture="arch9", model="another")
    one, other = VOCABULARY.source(PROBLEM, DEVICE), VOCABULARY.source(PROBLEM, twin)
    assert np.array_equal(one.codes, other.codes)
    assert np.array_equal(one.words, other.words)


def test_a_checkpoint_reads_the_ratios_that_it_was_trained_with() -> None:
    fewer = tuple(name for name in VOCABULARY.names if name != RATIO_NAMES[2])
    older = Vocabulary(fewer, VOCABULARY.words, VOCABULARY.targets, VOCABULARY.kernels, VOCABULARY.derived)
    sentence = older.source(PROBLEM, DEVICE)
    said = [older.names[name] for name in sentence.names]
    assert said[1 - len(RATIO_NAMES):] == [*RATIO_NAMES[:2], *RATIO_NAMES[3:]]
    assert older.with_ratios(sentence, PROBLEM, DEVICE).codes.shape == sentence.codes.shape
