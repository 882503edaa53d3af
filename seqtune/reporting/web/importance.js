// Importance: a table for each kernel, a row for each parameter, a bar for each machine.
function bar(share, chance) {
  const width = 90, root = svg("svg", { width: width + 48, height: 16, role: "img", "aria-label": `${percent(share)}, by chance ${percent(chance)}` });
  root.append(svg("rect", { class: "track", x: 0, y: 3, width, height: 10, rx: 2 }),
    svg("rect", { class: "bar", x: 0, y: 3, width: width * share, height: 10, rx: 2 }),
    svg("path", { class: "tick", d: `M${width * Math.min(1, chance)} 0v16` }),
    svg("text", { x: width + 6, y: 12 }, percent(share)));
  return root;
}

function drawImportance({ facts }) {
  const nodes = [el("p", null, "Share of the variance of log time within a problem that the value of one parameter explains alone. The upright mark is what " +
    "chance alone would explain: a parameter whose bar does not pass it says nothing.")];
  facts.kernels.forEach((kernel, index) => {
    const own = facts.importance.filter((row) => row.kernel === index);
    if (!own.length) return;
    const machines = [...new Set(own.map((row) => row.machine))].sort((a, b) => a - b);
    const total = new Map();
    for (const row of own) total.set(row.parameter, Math.max(total.get(row.parameter) || 0, row.share));
    const names = [...total.keys()].sort((a, b) => total.get(b) - total.get(a));
    const rows = names.map((name) => [name, ...machines.map((machine) => {
      const row = own.find((each) => each.parameter === name && each.machine === machine);
      return row ? bar(row.share, row.chance) : "one value";
    })]);
    const problems = (machine) => Math.max(...own.filter((row) => row.machine === machine).map((row) => row.problems));
    nodes.push(el("h3", null, kernel.name), table(["parameter", ...machines.map((machine) =>
      `${facts.overview[machine].label} (${counted(problems(machine), "problem")})`)], rows));
  });
  if (nodes.length === 1) nodes.push(el("p", null, "No kernel has a problem with three configurations of different values that ran."));
  nodes.push(note("Correlation ratio, eta squared (K. Pearson, 1905), the effect size of a one-way analysis of variance (R. A. Fisher, 1925): the sum of squares between " +
    "values divided by the whole sum, both within problems and added over them. Parameters act together, so the shares need not add up to 100 %."));
  show("importance", "tables", ...nodes);
}
