"""Tables of predictions: one, why it was made, those of an ONNX file and of the demonstration; and what was built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqtune.kernels.kernel import shown_setting

from ...api.results import duration
from .console import out, rows, show, table_of

if TYPE_CHECKING:
    from seqtune.predictor.confidence.explanation import Explanation
    from seqtune.tuner.building.chosen import Chosen

    from ...api.onnx_model import OnnxPrediction
    from ...api.results import Answer, BuiltFolder, Demonstration, Prediction


def prediction(answer: Prediction) -> None:
    """Print the candidates, the default and, where measured, the winner."""
    out.print(f"{answer.problem.brief()} on {answer.device.name}", markup=False)
    measured = answer.verified
    columns = ["", "configuration"]
    with_chances = any(candidate.probability is not None for candidate in answer.candidates)
    columns += ["probability"] if with_chances else []
    with_confidence = any(candidate.confidence is not None for candidate in answer.candidates)
    columns += ["expected share", "80 %"] if with_confidence else []
    columns += ["time", "spread", "error", "status"] if measured else []
    table = table_of(*columns, right=("probability", "expected share", "80 %", "time", "spread", "error"))

    def add(label: str, candidate: Answer) -> None:
        cells = [label, f"{candidate.configuration.kernel} {candidate.configuration.brief()}"]
        if with_chances:
            cells.append("-" if candidate.probability is None else f"{candidate.probability:.3f}")
        if with_confidence:
            expected = candidate.confidence
            cells += ["-", "-"] if expected is None else [
                f"{expected.share:.2f}", f"{expected.low:.2f} to {expected.high:.2f}"]
        measurement = candidate.measurement if measured else None
        if measured and measurement is None:  # there was no time for it
            cells += ["-"] * 4
        elif measurement is not None:
            alone = measured_alone(candidate)
            cells += [duration(candidate.seconds), f"{100 * measurement.spread:.1f} %",
                      "-" if measurement.error is None else f"{measurement.error:.1e}",
                      measurement.status.value + (f": {measurement.message}" if measurement.message else "") + (
                          ", alone" if alone else "")]
        table.add_row(*cells)

    def measured_alone(candidate: Answer) -> bool:
        return with_rounds and candidate.seconds is not None and candidate.typical_seconds is None

    with_rounds = any(each.typical_seconds is not None for each in (*answer.candidates, answer.default))

    for number, candidate in enumerate(answer.candidates, start=1):
        add(str(number), candidate)
    add("default", answer.default)
    show(table)
    if answer.confidence is not None:
        answering = "the first proposal" if answer.winner == answer.candidates[0] and not answer.remembered else (
            "the safe default" if answer.winner == answer.default else "the winner, before it was measured")
        out.print(f"{answering}: {answer.confidence}")
    for note in answer.notes():
        out.say(note)
    if measured and with_rounds:
        alone = any(map(measured_alone, answer.candidates))
        out.print("time: median of the rounds" + ("; alone: the least time, too long for the rounds" if alone else ""))
    if measured or answer.remembered is not None:
        out.say(f"winner: {answer.conclusion()}")
        took, given = answer.elapsed_seconds, answer.budget_seconds
        if took is not None and given is not None:
            out.print(f"verified in {duration(took)} of {duration(given)} (--seconds)")


def explanation(answer: Explanation) -> None:
    """Print why the first proposal was made."""
    out.say("one value away from the first proposal: expected time, or the constraint that forbids it")
    rows([{"parameter": step.parameter, "value": shown_setting(step.value), "next": shown_setting(step.next_value),
           "means": step.reason or ("-" if step.slowdown is None else f"{step.slowdown:.2f}x the time")}
          for step in answer.steps])
    if answer.known:
        out.say("the nearest problems of the shipped data, and their fastest configurations")
        rows([{"problem": known.problem.brief(), "device": known.device.name,
               "winner": f"{known.winner.kernel} {known.winner.brief()}", "time": duration(known.seconds)}
              for known in answer.known])
    if answer.facts:
        out.say("facts that decided: the second proposal's expected time over the first's, with the fact and with "
                "the known ones' median instead (a simple ablation)")
        rows([{"fact": fact.fact, "value": f"{fact.value:g}", "median": f"{fact.median:g}",
               "lead": f"{fact.lead:.3f}", "without": f"{fact.lead_without:.3f}"} for fact in answer.facts])
    if answer.experts:
        out.print("share of the best speed that each expert expects of each proposal", markup=False)
        shares = [*((expert.expert, expert.shares) for expert in answer.experts), ("mean", answer.mean_shares)]
        rows([{"expert": name.replace("_", " "),
               **{str(number): f"{share:.3f}" for number, share in enumerate(own, start=1)}}
              for name, own in shares])


def onnx_model(model: OnnxPrediction) -> None:
    """Print a line for each problem of a model, and lines on what else it has."""
    nodes = sum(len(row.nodes) for row in model.rows)
    out.say(f"{model.path} on {model.device}: {nodes} convolutions and products, {len(model.rows)} different ones")
    measured = any(row.answer.verification is not None for row in model.rows)
    numbers = ("count", "work", *(("time", "share", "speed-up") if measured else ()))
    table = table_of("problem", *numbers[:2], "configuration", *numbers[2:], right=numbers)
    for row in model.rows:
        winner, verification = row.answer.winner, row.answer.verification
        cells = [row.answer.problem.brief(), str(row.count), f"{100 * row.work_share:.1f} %",
                 "-" if winner is None else f"{winner.configuration.kernel} {winner.configuration.brief()}"]
        if measured:
            speedup = None if verification is None else verification.speedup
            cells += [duration(row.seconds), "-" if row.time_share is None else f"{100 * row.time_share:.1f} %",
                      "-" if speedup is None else f"{speedup:.2f}x"]
        table.add_row(*cells)
    if model.rows:
        show(table)
    for note in model.notes():
        out.say(note)


def demo(demonstration: Demonstration) -> None:
    """Print a line for each problem and device, and why some have no times."""
    table = table_of("problem", "device", "winner", "default", "best", "speed-up", "GFLOP/s", "significant",
                   right=("default", "best", "speed-up", "GFLOP/s"))
    for answer in demonstration.predictions:
        winner = answer.winner
        seconds = winner.seconds
        flop = answer.problem.names().get("flop")
        table.add_row(
            answer.problem.brief(), answer.device.name, f"{winner.configuration.kernel} {winner.configuration.brief()}",
            duration(answer.default.seconds), duration(seconds),
            "-" if answer.speedup is None else f"{answer.speedup:.2f}x",
            f"{flop / seconds / 1e9:.0f}" if isinstance(flop, int) and seconds else "-",
            "yes" if answer.significant else "no")
    show(table)
    for answer in demonstration.predictions:
        if answer.unverified:
            out.say(f"{answer.problem.brief()} on {answer.device.name} is not verified: {answer.unverified}")
    if any(answer.loaded for answer in demonstration.predictions):
        out.say("measured while other work had much of the machine; measure again when it is quiet")
    for backend, reason in demonstration.unavailable.items():
        out.print(f"{backend} is left out: {reason}", markup=False)


def built(folder: BuiltFolder) -> None:
    """Print a line for each kernel, the problems that are left out, and where to read on."""
    for chosen in folder.kernels:
        out.say(f"{chosen.name}: {chosen.brief()} ({chosen.origin}{_times(chosen)})")
    for problem, reason in folder.left_out:
        out.say(f"left out: {problem.brief()}: {reason}")
    out.say(f"{folder.out}: {len(folder.files)} files for {folder.device.name}; its README.md says how to compile, "
            "check and call them")


def _times(chosen: Chosen) -> str:
    if chosen.seconds is None:
        return ""
    beside = f", the default's {duration(chosen.default_seconds)}" if chosen.default_seconds is not None else ""
    return f", {duration(chosen.seconds)}{beside}"
