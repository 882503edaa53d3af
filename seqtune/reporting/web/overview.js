// What was measured where: a row for each machine.
// Sizes of caches, from text such as "l1=32768 l2=1048576 local=0".
function sizes(text) {
  return [...text.matchAll(/(\w+)=(\d+)/g)].filter(([, , bytes]) => Number(bytes)).map(([, name, bytes]) =>
    `${name === "local" ? "shared memory" : name.toUpperCase()} ${bytes >= 2 ** 20 ? `${few(bytes / 2 ** 20)} MiB` : `${few(bytes / 2 ** 10)} KiB`}`).join(", ");
}

function drawOverview({ facts }) {
  const dated = facts.overview.some((row) => row.first);
  const hosted = facts.overview.some((row) => row.hosts.length);
  const heads = ["device", ["model and memory", "words"], ...(hosted ? ["host"] : []), ["problems", "number"],
    ["records", "number"], ["failures", "number"], ...(dated ? [["dates", "plain"]] : []), ["best over safe default", "number"]];
  const rows = facts.overview.map((row) => [
    row.label, [row.model, sizes(row.sizes)].filter(Boolean).join(", "), ...(hosted ? [row.hosts.join(", ")] : []), whole(row.problems),
    whole(row.records), whole(row.failures), ...(dated ? [row.first === row.last ? row.first : `${row.first} to ${row.last}`] : []),
    row.speedup === null ? "not known" : `${times(row.speedup)} (${whole(row.compared)})`]);
  show("overview", "table", table(heads, rows),
    note("Best over safe default: the median, over the problems (their number in brackets) where the safe default was measured, of " +
      "its time divided by the least time. The least of many measured times is a little too good, so the factor is, too."),
    facts.former ? note(`${whole(facts.former)} records of earlier versions of kernels or of other toolchains are counted here and in ` +
      "the failures; what follows compares the others.") : null,
    ...facts.notes.map(note));
}
