// The best configurations of the chosen problem, and the rank of its safe default.
const BEST_SHOWN = 10;

function drawConfigurations(records, state) {
  const index = state.case, measured = records.configurations(index);
  if (!measured.length) { show("choice", "configurations"); return; }
  const best = measured[0].seconds;
  const kernel = records.of("default_kernel", index) - 1, configuration = records.of("default_configuration", index) - 1;
  const defaultRank = kernel < 0 || configuration < 0 ? -1
    : measured.findIndex((each) => each.kernel === kernel && each.configuration === configuration);
  const row = (each, rank) => [whole(rank + 1), rank === defaultRank ? `${records.settings(each.kernel, each.configuration)} (safe default)`
    : records.settings(each.kernel, each.configuration), duration(each.seconds), percent(best / each.seconds), whole(each.levels.length)];
  const rows = measured.slice(0, BEST_SHOWN).map(row);
  if (defaultRank >= BEST_SHOWN) rows.push(row(measured[defaultRank], defaultRank));
  const text = records.facts.default_texts[index];
  const sentence = defaultRank >= 0 ? `The safe default is number ${whole(defaultRank + 1)} of ${whole(measured.length)} configurations that ran; it takes ${times(measured[defaultRank].seconds / best)} the least time.`
    : text ? `The safe default, ${text}, has no measured time here.`
      : configuration >= 0 ? "The safe default was measured here and failed." : "The safe default is not known: no library in use declares the kernels, or the facts of the machine are not stored.";
  show("choice", "configurations", el("h3", null, "Best configurations"),
    table([["", "number"], ["configuration", "words"], ["time", "number"], ["share of the best speed", "number"], ["measured", "number"]], rows),
    el("p", null, sentence), note("The time of a configuration is the median of its measurements."));
}
