// Pruning: what each constraint excludes of all combinations of values, in an example of each kernel and device.
function drawPruning(records) {
  const { facts } = records, { examples, undeclared } = facts.pruning, nodes = [];
  if (examples.length) {
    nodes.push(el("p", null, "For each kernel and device, the problem with the most measured configurations: of all combinations of values, what each constraint excludes " +
      "alone (several may exclude the same one), what is left, and what was measured."));
  }
  for (const [index, example] of examples.entries()) {
    const active = example.constraints.filter((each) => each.share > 0).sort((a, b) => b.share - a.share);
    const idle = example.constraints.length - active.length;
    const rows = active.map((each) => [`${each.sampled ? "about " : ""}${percent(each.share)}`, `${each.sampled ? "about " : ""}${large(each.share * example.combinations)}`, each.reason, el("code", null, each.expression)]);
    nodes.push(el("details", index === 0 ? { open: "" } : null,
      el("summary", null, `${facts.kernels[example.kernel].name} on ${facts.overview[example.machine].label}: ${large(example.combinations)} combinations, ${large(example.left)} left, ${whole(example.measured)} measured`),
      note(example.problem), rows.length ? table([["excludes", "number"], ["combinations", "number"], ["because", "words"], ["condition of a valid configuration", "words"]], rows) : el("p", null, "No constraint excludes a combination."),
      idle ? note(`${idle} ${idle === 1 ? "constraint excludes" : "constraints exclude"} nothing for this problem.`) : null));
  }
  if (!examples.length && !undeclared.length) nodes.push(el("p", null, "No space of these kernels could be enumerated for these machines."));
  if (undeclared.length) nodes.push(el("p", null, `No library in use declares ${undeclared.join(", ")}, so their constraints are not known here; name the library with --library.`));
  show("pruning", "examples", ...nodes);
}
