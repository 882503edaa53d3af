// The best configurations of the chosen problem, and the place of its safe default.
const BEST_SHOWN = 10;

function drawConfigurations(records, state) {
  const index = state.case, found = records.configurations(index);
  if (!found.length) { show("choice", "configurations"); return; }
  const best = found[0].seconds;
  const kernel = records.of("default_kernel", index) - 1, configuration = records.of("default_configuration", index) - 1;
  const place = kernel < 0 || configuration < 0 ? -1
    : found.findIndex((each) => each.kernel === kernel && each.configuration === configuration);
  const row = (each, rank) => [whole(rank + 1), rank === place ? `${records.settings(each.kernel, each.configuration)} (safe default)`
    : records.settings(each.kernel, each.configuration), duration(each.seconds), percent(best / each.seconds), whole(each.levels.length)];
  const rows = found.slice(0, BEST_SHOWN).map(row);
  if (place >= BEST_SHOWN) rows.push(row(found[place], place));
  const text = records.facts.default_texts[index];
  const sentence = place >= 0 ? `The safe default is number ${whole(place + 1)} of ${whole(found.length)} configurations that ran; it takes ${times(found[place].seconds / best)} the least time.`
    : text ? `The safe default, ${text}, has no measured time here.`
      : configuration >= 0 ? "The safe default was measured here and failed." : "The safe default is not known: no library in use declares the kernels, or the facts of the machine are not stored.";
  show("choice", "configurations", el("h3", null, "Best configurations"),
    table([["", "number"], ["configuration", "words"], ["time", "number"], ["share of the best speed", "number"], ["measured", "number"]], rows),
    el("p", null, sentence), note("The time of a configuration is the median of its measurements."));
}
