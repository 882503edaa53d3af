// Convergence: the best time so far over the trials, or the times in rank order where the order is not known.
function drawConvergence(records, state) {
  const { facts } = records, index = state.case;
  const heading = el("h3", null, `${records.problem(index)} on ${facts.overview[state.machine].label}`);
  if (records.begins[index] === records.begins[index + 1]) {
    const best = facts.best_texts[index];
    show("choice", "convergence", heading, el("p", null,
      "The records of this problem are left out, so that the page stays small. ",
      records.of("best", index) ? `Least time: ${duration(records.seconds(records.of("best", index)))}${best ? `, ${best}` : ""}.` : "No configuration of it ran."));
    return;
  }
  const line = facts.ordered ? measuredOrder(records, index) : rankOrder(records, index);
  if (!line.points.length) {
    show("choice", "convergence", heading, el("p", null, "No configuration of this problem ran."));
    return;
  }
  const preset = records.seconds(records.of("default", index));
  const seconds = line.dots.map((dot) => dot.seconds).concat(Number.isFinite(preset) ? [preset] : []);
  const least = Math.min(...seconds) * 0.96, most = Math.max(...seconds) * 1.04;
  const width = Math.max(300, Math.min(900, section("choice").clientWidth));
  const wordless = width < 560;
  const figure = chart({ width, height: 280, right: wordless ? 16 : 118, label: line.label,
    x: { least: Math.min(1, line.count), most: Math.max(2, line.count), text: whole, label: line.across },
    y: { least, most, logarithmic: true, text: duration, label: "time of one launch" } });
  const dots = line.dots.length > 3000 ? line.dots.filter((_, i) => i % Math.ceil(line.dots.length / 3000) === 0) : line.dots;
  if (facts.ordered) figure.root.append(...dots.map((dot) => svg("circle", { class: "dot", r: 2, cx: figure.x(dot.at), cy: figure.y(dot.seconds) })));
  figure.root.append(...line.failed.slice(0, 2000).map((at) => svg("path", { class: "failed", d: `M${figure.x(at)} ${figure.bottom - 7}v7` })));
  figure.root.append(svg("path", { class: "best", d: line.points.map((point, i) =>
    (i === 0 ? `M${figure.x(point.at)} ${figure.y(point.seconds)}` : `${facts.ordered ? `H${figure.x(point.at)}V` : `L${figure.x(point.at)} `}${figure.y(point.seconds)}`)).join("") }));
  const end = line.points[line.points.length - 1];
  const anchor = wordless ? { x: figure.right - 4, "text-anchor": "end" } : { x: figure.right + 6 };
  const shift = wordless ? -7 : 4;
  const close = Number.isFinite(preset) && Math.abs(figure.y(preset) - figure.y(end.seconds)) < 15;
  figure.root.append(svg("text", { class: "bestword", ...anchor, y: Math.max(figure.top + 10, figure.y(end.seconds) + (close ? 15 : shift)) }, line.word));
  if (Number.isFinite(preset)) {
    figure.root.append(svg("path", { class: "default", d: `M${figure.left} ${figure.y(preset)}H${figure.right}` }),
      svg("text", { class: "defaultword", ...anchor, y: figure.y(preset) + shift }, "safe default"));
  }
  show("choice", "convergence", heading, el("figure", null, figure.root, el("figcaption", null, line.caption)));
}

function measuredOrder(records, index) {
  const points = [], dots = [], failed = [];
  let best = Infinity, count = 0;
  for (let row = records.begins[index]; row < records.begins[index + 1]; row++) {
    if (records.of("repeated", row)) continue;
    count++;
    const seconds = records.seconds(records.of("seconds", row));
    if (!Number.isFinite(seconds)) { failed.push(count); continue; }
    dots.push({ at: count, seconds });
    if (seconds < best) points.push({ at: count, seconds: best = seconds });
  }
  if (points.length && points[points.length - 1].at < count) points.push({ at: count, seconds: best });
  return { points, dots, failed, count, across: "trials, in the order of measuring", word: "best so far",
    label: `Best time so far over ${count} trials: ${duration(best)} at the end`,
    caption: `Line: best time so far. Dots: each trial. ${failed.length ? `Marks at the foot: ${whole(failed.length)} trials that failed. ` : ""}Intended repetitions are not trials.` };
}

function rankOrder(records, index) {
  const measured = records.configurations(index);
  const points = measured.map((each, rank) => ({ at: rank + 1, seconds: each.seconds }));
  return { points, dots: points, failed: [], count: measured.length, across: "configurations, fastest first", word: "in rank order",
    label: `Times of ${measured.length} configurations in rank order`,
    caption: "A data set does not keep the order of measuring, so this is the time of each configuration by rank. A report on the journal " +
      "shows the best time so far over the trials." };
}
