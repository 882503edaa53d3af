// Failures: by status, kernel, machine and reason, with an example of each.
const MEANINGS = { constraints: "refused: not in its search space", compile: "did not build", runtime: "the driver or the launch refused", timeout: "took too long",
  correctness: "wrong results", crash: "the worker process died" };

function drawFailures({ facts }) {
  const { kinds, more_kinds, more_records, records, reasons_kept } = facts.failures;
  if (!records) {
    show("failures", "table", el("p", null, `None of the ${whole(facts.records)} records failed.`));
    return;
  }
  const counts = new Map();
  for (const kind of kinds) counts.set(kind.status, (counts.get(kind.status) || 0) + kind.count);
  const sums = [...counts].map(([status, count]) => `${whole(count)} ${status} (${MEANINGS[status] || "failed"})`).join("; ");
  const rows = kinds.map((kind) => [whole(kind.count), kind.status, kind.kernel, facts.overview[kind.machine].label, ...(reasons_kept ? [kind.reason || "no message"] : []),
    el("details", null, el("summary", null, "show"), el("code", null, `${kind.problem}: ${kind.configuration}`))]);
  show("failures", "table", el("p", null, `${whole(records)} of ${whole(facts.records)} records did not succeed: ${sums}.`),
    table([["records", "number"], "status", "kernel", "device", ...(reasons_kept ? [["reason", "words"]] : []), ["an example", "words"]], rows),
    reasons_kept ? note("Messages that differ only in numbers are counted together; the reason shown is that of the example.")
      : note("A data set does not keep the reasons; a report on the journal shows them."),
    more_kinds ? note(`${whole(more_kinds)} rarer kinds with ${whole(more_records)} records are not listed.`) : null);
}
