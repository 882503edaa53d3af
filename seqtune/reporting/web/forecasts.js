// Predicted against measured: expected and measured share of the first proposal, and the reliability curve.
function drawForecasts(records) {
  const { facts } = records, { forecasts } = facts;
  if (!forecasts) {
    show("forecasts", "figure", el("p", null, "This report was written without a checkpoint. ", el("code", null, "seqtune report ... --checkpoint default"),
      " compares what a checkpoint expects of its first proposal with what was measured."));
    return;
  }
  const measured = forecasts.points.filter((point) => point.share !== null), known = measured.filter((point) => point.expected !== null);
  const words = [el("p", null, `The checkpoint ${forecasts.checkpoint} was asked for ${counted(forecasts.drawn, "problem")} on a device${forecasts.drawn < records.cases ? `, drawn at random from ${whole(records.cases)}, held-out ones first` : ""}. ` +
    `It proposed for ${whole(forecasts.points.length)}, and ${whole(measured.length)} of its first proposals are among the measured configurations.`)];
  for (const { reason, count } of forecasts.refused) words.push(note(`No proposal for ${whole(count)}: ${reason}.`));
  if (!known.length) {
    words.push(el("p", null, measured.length ? "This checkpoint does not say what share it expects." : "There is nothing to compare."));
    show("forecasts", "figure", ...words);
    return;
  }
  const lowest = (name) => Math.max(0, Math.min(0.9, ...known.map((point) => point[name])) - 0.02);
  const leastX = lowest("expected"), leastY = lowest("share"), corner = Math.max(leastX, leastY);
  const width = Math.max(300, Math.min(620, section("forecasts").clientWidth));
  const figure = chart({ width, height: Math.min(440, width), x: { least: leastX, most: 1.01, text: percent, label: "expected share of the best speed" },
    y: { least: leastY, most: 1.01, text: percent, label: "measured share" }, label: `Expected and measured share of ${known.length} first proposals` });
  figure.root.append(svg("path", { class: "axis", d: `M${figure.x(corner)} ${figure.y(corner)}L${figure.x(1)} ${figure.y(1)}` }));
  for (const point of known) {
    const x = figure.x(point.expected), y = figure.y(point.share);
    const mark = point.held_out || !forecasts.only_held_out ? svg("circle", { class: "evaluated", cx: x, cy: y, r: 3.5 }) : svg("path", { class: "learned", d: `M${x} ${y - 4}l4 7h-8z` });
    mark.append(svg("title", null, `${facts.problems[point.problem]} on ${facts.overview[point.machine].label}: expected ${percent(point.expected)}, measured ${percent(point.share)}`));
    figure.root.append(mark);
  }
  const curve = forecasts.curve;
  if (curve.length > 1) figure.root.append(svg("path", { class: "curve", d: `M${curve.map((knot) => `${figure.x(knot.expected)} ${figure.y(knot.share)}`).join("L")}` }));
  for (const knot of curve) figure.root.append(svg("rect", { class: "knot", x: figure.x(knot.expected) - 5, y: figure.y(knot.share) - 5, width: 10, height: 10 }));
  const parts = curve.length === 1 ? "mean of the" : `means of ${curve.length} equal parts of the`;
  words.push(el("figure", null, figure.root, el("figcaption", null, forecasts.only_held_out
    ? "Filled circles: problems that no model may learn from. Hollow triangles: problems that the checkpoint may have learned from. "
    : "The data holds no problem out, so the checkpoint may have learned from all of them. ",
  `${curve.length === 1 ? "Square" : "Squares and line"}: ${parts} ${forecasts.only_held_out ? "held-out points" : "points"}. On the thin line, the measured share equals the expected one.`)),
  table([["points", "number"], ["expected, mean", "number"], ["measured, mean", "number"]], curve.map((knot) => [whole(knot.count), (100 * knot.expected).toFixed(1) + " %", (100 * knot.share).toFixed(1) + " %"])),
  el("p", null, `In ${whole(forecasts.inside)} of ${whole(forecasts.evaluated)} ${forecasts.only_held_out ? "held-out cases" : "cases"} (${percent(forecasts.inside / forecasts.evaluated)}) the measured share is in the checkpoint's interval, which should hold 80 %.`),
  note("A measured share is relative to the best measured configuration; where not all were measured, the true share may be lower."));
  show("forecasts", "figure", ...words);
}
