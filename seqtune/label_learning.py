"""Learning from a foreign tuner's choices: training on labels, and judging on perf-dbs and find-dbs of MIOpen's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqtune.kernels.device import Device

from .errors import MisuseError
from .inputs import Say, load_labels, one_thread, silent, warned

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.data.labels import Labels, Races
    from seqtune.predictor.labels.checkpoint import LabelCheckpoint
    from seqtune.predictor.labels.label_options import LabelOptions
    from seqtune.predictor.labels.methods import Method
    from seqtune.predictor.labels.mixture_weights import Chains
    from seqtune.predictor.labels.seen_problems import Learned
    from seqtune.predictor.training.loop import Progress as TrainingProgress

NAME = "miopen"  # of the shipped checkpoint
BY = ("direction", "dtype")
FINISH_EPOCHS, FINISH_RATE = 3, 0.2  # on all problems, after the training on most; the rate as a share of that before
BASELINES = ("majority", "nearest", "trees", "trees_beam", "tree_ranker", "two_towers", "lstm")


def holds_labels(data: Dataset) -> bool:
    """Whether a data set tells of a foreign tuner's choices, or of its solvers' times, rather than of measurements."""
    return bool(len(data)) and all(device.backend == "miopen" for device in data.devices.values())


def train_labels(data: Dataset, out: str | Path, options: LabelOptions | None = None, *, everything: bool = False,
                 trees: bool = True, progress: Callable[[TrainingProgress], None] | None = None,
                 say: Say = silent) -> dict[str, Any]:
    """Train on a data set's labels and races but those of the held-out tenth of the problems and save the checkpoint;
    returns a report. `trees`: with chains of boosted trees beside the transformer. `everything`: the checkpoint is then
    judged on the held-out problems, which its metrics keep, finished on all problems, and its trees grown from all."""
    from seqtune.data.formats.miopen_import import tables_of
    from seqtune.data.labels import read_labels, read_races
    from seqtune.predictor.labels.checkpoint import LabelCheckpoint
    from seqtune.predictor.labels.label_options import LabelOptions
    from seqtune.predictor.labels.mixture_weights import best_weights, grow
    from seqtune.predictor.labels.training import set_aside, train
    from seqtune.predictor.labels.translator import LabelTranslator
    from seqtune.predictor.training.state import describe

    options = options or LabelOptions()
    say("reading the labels")
    labels, races = read_labels(data), read_races(data)
    fitting, timed = _training(labels, races)
    trained = train(fitting, timed, options, progress, say=say)
    assert isinstance(trained.model, LabelTranslator)
    chains: Chains = {}
    weight = 0.5
    weights: dict[str, float] = {}
    if trees:
        known = {name: one.known() for name, one in fitting.items()}
        parts = {name: set_aside(one, options.validation) for name, one in known.items()}
        if options.validation:
            say("growing trees on a part, to weigh them")
            chains = grow({name: part for name, (part, _) in parts.items()}, options.threads, options.seed)
            weight, weights = best_weights(trained.model, trained.vocabulary, chains,
                                           {name: aside for name, (_, aside) in parts.items()})
        say("growing trees")
        chains = grow(known, options.threads, options.seed)
    metrics = {name: value for name, value in trained.report.items() if name != "history"}
    provenance: dict[str, Any] = {"source": data.provenance.get("source", ""), "options": describe(options)}
    found = LabelCheckpoint(trained.model.size, trained.model.arrays(), trained.vocabulary, tables_of(data), chains,
                            weight, weights, _learned(fitting, timed), provenance, metrics, options.seed)
    if everything:
        found = _finished(found, labels, races, options, progress, say)
    found.save(out)
    return {"out": str(out), **trained.report}


def _finished(found: LabelCheckpoint, labels: dict[str, Labels], races: Races | None, options: LabelOptions,
              progress: Callable[[TrainingProgress], None] | None, say: Say) -> LabelCheckpoint:
    """The checkpoint after it has learned from the held-out problems, too, on which it is judged before."""
    from seqtune.predictor.labels.mixture_weights import grow
    from seqtune.predictor.labels.training import Trained, train
    from seqtune.predictor.labels.translator import LabelTranslator

    with one_thread():
        held_out: Any = judged_rows(found, labels, races, say)
    every = {name: one for name, one in labels.items() if name in found.kernels()}
    say("finishing on everything")
    finish = replace(options, epochs=FINISH_EPOCHS, rate=options.rate * FINISH_RATE, validation=0,
                     state=None if options.state is None else options.state / "finish")
    trained = train(every, races, finish, progress, Trained(found.model, found.vocabulary, {}), say=say)
    assert isinstance(trained.model, LabelTranslator)
    chains = found.chains
    if chains:
        say("growing trees on everything")
        chains = grow({name: one.known() for name, one in every.items()}, options.threads, options.seed)
    learned = {name: trained.report[name] for name in ("labels", "races")}
    return replace(found, state=trained.model.arrays(), chains=chains, learned=_learned(every, races),
                   provenance={**found.provenance, "finished": {"epochs": FINISH_EPOCHS, "rate": finish.rate,
                                                                "on": "held-out problems, too", **learned}},
                   metrics={**found.metrics, "held_out": held_out})


def judged_rows(checkpoint: LabelCheckpoint, labels: dict[str, Labels], races: Races | None,
                say: Say = silent) -> list[dict[str, Any]]:
    """Per device and solver, then per device, on the held-out problems."""
    from seqtune.predictor.labels.methods import Beam
    from seqtune.predictor.labels.scores import judge, race_rows
    from seqtune.predictor.labels.solver_choice import choose

    kernels = checkpoint.kernels()
    held_out = {name: one.spoken_by(kernels[name]).split()[1] for name, one in labels.items() if name in kernels}
    rows = [row.to_json() for row in judge(Beam(checkpoint.next_word()), held_out, progress=say)]
    if races is not None:
        raced = races.take(np.flatnonzero(races.questions.held_out))
        rows += [row.to_json() for row in race_rows(raced, choose(checkpoint.model, checkpoint.vocabulary, raced))]
    return rows


def _learned(labels: dict[str, Labels], races: Races | None) -> Learned:
    from seqtune.predictor.labels.seen_problems import Learned

    hashes = [one.questions.hashes for one in labels.values()]
    return Learned.of(np.concatenate(hashes if races is None else [*hashes, races.hashes]))


def evaluate_labels(paths: Sequence[str | Path], *, checkpoint: str | Path = NAME, baselines: bool = False,
                    devices: Sequence[str | Device] = (), by: bool = False, progress: Say = silent,
                    warn: Say = warned) -> list[dict[str, Any]]:
    """Rows per device and solver of the labels in perf-dbs, then per device of the races in find-dbs.

    Judged are the labels and races that the checkpoint has not learned from. `baselines` are fitted on those of the
    rest that are not held out; `by` adds parts by direction and data type.
    """
    from seqtune.data.formats.miopen_import import as_gpu, read_files
    from seqtune.data.formats.table import find_files
    from seqtune.data.labels import read_labels, read_races
    from seqtune.predictor.labels.methods import Beam
    from seqtune.predictor.labels.scores import judge, race_rows
    from seqtune.predictor.labels.solver_choice import TreeChoice, choose

    loaded = load_labels(checkpoint)
    files = find_files("miopen", paths)
    progress("reading")
    data, _ = read_files(files, [as_gpu(one) for one in devices])
    labels, races = read_labels(data), read_races(data)
    kernels = loaded.kernels()
    judged = {name: _unlearned(one.spoken_by(kernels[name]), loaded) for name, one in labels.items() if name in kernels}
    judged = {name: one for name, one in judged.items() if len(one)}
    loaded.vocabulary.check(kernels[name] for name in judged)
    raced = None if races is None else races.take(np.flatnonzero(~loaded.learned.knows(races.hashes)))
    if not judged and (raced is None or not len(raced)):
        raise MisuseError("nothing to judge: the checkpoint has learned from every problem in these files")
    left = sum(map(len, labels.values())) - sum(map(len, judged.values()))
    if left:
        warn(f"{left} labels are not judged: the checkpoint has learned from their problems, or lacks their solvers")
    rows: list[dict[str, Any]] = []
    with one_thread():
        fitting, timed = _training(
            {name: _learned_from(labels[name].spoken_by(kernels[name]), loaded).known() for name in judged},
            None if races is None else races.take(np.flatnonzero(loaded.learned.knows(races.hashes))))
        others: dict[str, Method] = {}
        if baselines and judged:
            lacking = ", ".join(name for name, one in judged.items() if len(fitting.get(name, ())) < len(one))
            if lacking:
                warn("no baselines: they learn from more labels than are judged; name perf-dbs with those of "
                     f"{lacking}")
            else:
                others = fit_baselines(fitting, progress)
        rows += [row.to_json() for row in judge(Beam(loaded.next_word()), judged, others, BY if by else (), progress)]
        if raced is not None and len(raced):
            progress("judging the choice of solvers")
            trees = None
            if baselines and (timed is None or len(timed) < len(raced)):
                warn("no trees beside the choice of solvers: they learn from more times than are judged; name the "
                     "find-dbs that hold them, too")
            elif baselines and timed is not None:
                trees = TreeChoice(timed).choose(raced)
            rows += [row.to_json() for row in race_rows(raced, choose(loaded.model, loaded.vocabulary, raced), trees)]
    return rows


def fit_baselines(fitting: dict[str, Labels], progress: Say = silent, options: LabelOptions | None = None,
                  names: Sequence[str] = BASELINES) -> dict[str, Method]:
    """Majority, nearest neighbour, a chain of boosted trees per device (greedy, and with the beam), two rankers and
    MIOpen's LSTM, or some of them, all fitted on the same labels."""
    from seqtune.predictor.labels.baselines import Majority, Nearest, by_device
    from seqtune.predictor.labels.classifier_chain import ChainOptions, ChainWords, KernelChain
    from seqtune.predictor.labels.lstm import Recurrent
    from seqtune.predictor.labels.methods import Beam
    from seqtune.predictor.labels.rankers import Candidates, TreeRanker, TreeRankerOptions, TwoTowers, seen_places
    from seqtune.predictor.labels.training import train, vocabulary_of
    from seqtune.predictor.labels.translator import LabelWords

    options = options or baseline_options()
    found: dict[str, Method] = {}
    if "majority" in names:
        found["majority"] = Majority(fitting)
    if "nearest" in names:
        found["nearest"] = Nearest(fitting)
    if {"trees", "trees_beam"} & set(names):
        progress("fitting chains of trees")
        grown = ChainOptions(threads=options.threads)
        words = ChainWords({group: KernelChain.fit(labels, grown) for group, labels in by_device(fitting).items()},
                           vocabulary_of(fitting, None))
        found |= {name: Beam(words, *width) for name, width in (("trees", (1,)), ("trees_beam", ())) if name in names}
    if "tree_ranker" in names:
        progress("fitting a ranker of trees")
        found["tree_ranker"] = TreeRanker(fitting, TreeRankerOptions(threads=options.threads))
    if "two_towers" in names:
        progress("fitting two towers")
        found["two_towers"] = Candidates(TwoTowers.fit(fitting, options), seen_places(fitting))
    if "lstm" in names:
        progress("fitting the LSTM")
        recurrent = train(fitting, None, replace(options, rate=3e-3), make=Recurrent)
        found["lstm"] = Beam(LabelWords(recurrent.model, recurrent.vocabulary), width=1)
    return found


def baseline_options(epochs: int = 20, threads: int = 2) -> LabelOptions:
    """How the two-tower ranker and the LSTM are trained."""
    from seqtune.predictor.labels.label_options import LabelOptions

    return LabelOptions(epochs=epochs, threads=threads, batch=256, rate=2e-3, smoothing=0.05, even=0.8, most=3.0,
                        validation=0)


def _training(labels: dict[str, Labels], races: Races | None) -> tuple[dict[str, Labels], Races | None]:
    split = {name: one.split()[0] for name, one in labels.items()}
    kept = None if races is None else races.take(np.flatnonzero(~races.questions.held_out))
    return {name: one for name, one in split.items() if len(one)}, kept


def _learned_from(labels: Labels, checkpoint: LabelCheckpoint) -> Labels:
    return labels.take(np.flatnonzero(checkpoint.learned.knows(labels.questions.hashes)))


def _unlearned(labels: Labels, checkpoint: LabelCheckpoint) -> Labels:
    return labels.take(np.flatnonzero(~checkpoint.learned.knows(labels.questions.hashes)))
