// Axes: a chart with two scales, ticks and labels. Scales are linear or logarithmic.
function scale(least, most, begin, end, logarithmic) {
  const f = logarithmic ? Math.log : (value) => value;
  const low = f(least), high = f(most) === low ? low + 1 : f(most);
  const at = (value) => begin + (end - begin) * (f(value) - low) / (high - low);
  return { at, ticks: logarithmic ? logTicks(least, most) : linearTicks(least, most) };
}
function linearTicks(least, most) {
  const rough = (most - least) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const ticks = [];
  for (let tick = Math.ceil(least / step - 1e-9); tick * step <= most * (1 + 1e-9); tick++) ticks.push(tick * step);
  return ticks;
}
function logTicks(least, most) {
  if (most < 5 * least) return linearTicks(least, most);
  const ticks = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most) + 1; power++) {
    for (const each of [1, 2, 5]) ticks.push(each * 10 ** power);
  }
  const shown = ticks.filter((tick) => tick >= least * 0.999 && tick <= most * 1.001);
  const power = (tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9;
  return shown.length > 9 ? shown.filter(power) : shown;
}
function chart({ width, height, x, y, label, right = 16 }) {
  const left = 66, top = 12, bottom = 44;
  const across = scale(x.least, x.most, left, width - right, x.logarithmic);
  const up = scale(y.least, y.most, height - bottom, top, y.logarithmic);
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const tick of up.ticks) {
    const at = up.at(tick);
    root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }),
      svg("text", { class: "quiet", x: left - 7, y: at + 4, "text-anchor": "end" }, y.text(tick)));
  }
  for (const tick of across.ticks) {
    root.append(svg("text", { class: "quiet", x: across.at(tick), y: height - bottom + 17, "text-anchor": "middle" },
      x.text(tick)));
  }
  root.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    svg("text", { x: (left + width - right) / 2, y: height - 7, "text-anchor": "middle" }, x.label));
  if (y.label) {
    root.append(svg("text", { x: 13, y: (top + height - bottom) / 2, "text-anchor": "middle",
      transform: `rotate(-90 13 ${(top + height - bottom) / 2})` }, y.label));
  }
  return { root, x: across.at, y: up.at, left, right: width - right, top, bottom: height - bottom };
}
