// Landscape: the least time over all other parameters, for each pair of values of two parameters.
// Viridis (S. van der Walt and N. Smith, 2015): lightness grows with the share, also without colour vision.
const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121],
  [110, 206, 88], [181, 222, 43], [253, 231, 37]];
const MOST_VALUES = 40, MOST_WORDY = 16;

function shade(share) {
  const at = Math.max(0, Math.min(1, share)) * (VIRIDIS.length - 1), low = Math.min(VIRIDIS.length - 2, Math.floor(at));
  const colour = VIRIDIS[low].map((part, i) => Math.round(part + (VIRIDIS[low + 1][i] - part) * (at - low)));
  const light = colour.map((part) => (part / 255) ** 2.2);  // relative luminance of WCAG, with a gamma of 2.2
  const luminance = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
  return { background: `rgb(${colour.join(",")})`, color: luminance > 0.18 ? "#000" : "#fff" };
}

function drawLandscape(records, state, changed) {
  const measured = records.configurations(state.case);
  const kernels = [...new Set(measured.map((each) => each.kernel))].filter((kernel) =>
    records.facts.kernels[kernel].parameters.filter((parameter) => parameter.values.length > 1).length > 1);
  if (!kernels.length) {
    show("landscape", "controls", el("p", null, measured.length ? "No kernel of this problem has two parameters with several measured values."
      : "There are no times of this problem in the page."));
    show("landscape", "cells");
    return;
  }
  if (!kernels.includes(state.kernel)) { state.kernel = kernels[0]; state.x = state.y = -1; }
  const { parameters } = records.facts.kernels[state.kernel];
  const own = measured.filter((each) => each.kernel === state.kernel);
  const varied = parameters.map((_, index) => index).filter((index) => parameters[index].values.length > 1);
  const ranked = varied.map((index) => [index, spread(records, state.kernel, own, index)]).sort((a, b) => b[1] - a[1]).map(([index]) => index);
  if (!varied.includes(state.x) || !varied.includes(state.y) || state.x === state.y) [state.x, state.y] = [ranked[0], ranked[1]];
  const names = varied.map((index) => [String(index), parameters[index].name]);
  show("landscape", "controls", el("div", { class: "controls" },
    select("Kernel", kernels.map((kernel) => [String(kernel), records.facts.kernels[kernel].name]), state.kernel,
      (value) => { state.kernel = Number(value); state.x = state.y = -1; changed("Kernel"); }),
    select("Across", names, state.x, (value) => { if (Number(value) === state.y) state.y = state.x; state.x = Number(value); changed("Across"); }),
    select("Down", names, state.y, (value) => { if (Number(value) === state.x) state.x = state.y; state.y = Number(value); changed("Down"); })));
  show("landscape", "cells", ...cells(records, state, own));
}

// How far the least times of a parameter's values differ: the range of their logarithms.
function spread(records, kernel, own, parameter) {
  const least = new Map();
  for (const each of own) {
    const value = records.value(kernel, each.configuration, parameter);
    if (!least.has(value)) least.set(value, each.seconds);  // fastest first
  }
  return least.size > 1 ? Math.log(Math.max(...least.values()) / Math.min(...least.values())) : 0;
}

function cells(records, state, own) {
  const { name, parameters } = records.facts.kernels[state.kernel];
  const least = new Map(), used = [new Map(), new Map()];
  for (const each of own) {
    const pair = [state.x, state.y].map((parameter) => records.value(state.kernel, each.configuration, parameter));
    pair.forEach((value, axis) => used[axis].set(value, (used[axis].get(value) || 0) + 1));
    const key = pair.join();
    if (!least.has(key)) least.set(key, each);
  }
  const axes = used.map((values) => [...values.keys()].sort((a, b) => values.get(b) - values.get(a)).slice(0, MOST_VALUES).sort((a, b) => a - b));
  const cut = used.some((values) => values.size > MOST_VALUES);
  const [across, down] = axes, tight = across.length > MOST_WORDY || section("landscape").clientWidth < 60 + 48 * across.length;
  const text = (parameter, value) => String(parameters[parameter].values[value] ?? "none");
  const best = own[0].seconds;
  const row = (y) => el("tr", null, el("th", { scope: "row" }, text(state.y, y)), ...across.map((x) => {
    const each = least.get(`${x},${y}`);
    if (!each) return el("td", { class: "empty", title: "not measured" });
    const share = best / each.seconds, cell = el("td", { title: `${percent(share)}, ${duration(each.seconds)}: ${records.settings(each.kernel, each.configuration)}` },
      tight ? "" : (100 * share).toFixed(0));
    Object.assign(cell.style, shade(share));
    if (tight) cell.setAttribute("aria-label", percent(share));
    return cell;
  }));
  const steps = [0.1, 0.3, 0.5, 0.7, 0.9, 1].map((share) => {
    const step = el("span", { class: "step" }, `${100 * share}`.slice(0, 3));
    Object.assign(step.style, shade(share));
    return step;
  });
  return [
    el("p", null, `${name}: share of the best speed in per cent, ${parameters[state.x].name} across, ${parameters[state.y].name} down.`),
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "landscape" }, el("table", { class: tight ? "cells tight" : "cells" },
      el("thead", null, el("tr", null, el("th", null, `${parameters[state.y].name} \\ ${parameters[state.x].name}`), ...across.map((x) => el("th", { scope: "col" }, text(state.x, x))))),
      el("tbody", null, ...down.map(row)))),
    el("div", { class: "scale" }, "slow", ...steps, "best; hatched: not measured"),
    note(`Each cell is the fastest measured configuration with these two values, whatever its other values.${cut ? ` Only the ${MOST_VALUES} most measured values of a parameter are shown.` : ""}`)];
}
