// Start: decode the payload, draw every section, and draw again what a choice or a new width changes.
function begin(records) {
  const { facts } = records;
  const state = { machine: 0, case: 0, kernel: -1, x: -1, y: -1 };
  const left = facts.left_out ? ` The records of ${whole(facts.left_out)} of ${whole(records.cases)} pairs of problem and device, those with the fewest, are left out, so that the page stays small.` : "";
  const unlisted = facts.unlisted ? ` The list has the ${whole(records.cases)} pairs with the most records; ${whole(facts.unlisted)} are not in it.` : "";
  section("summary").textContent = `${counted(facts.records, "record")} of ${counted(facts.problem_count, "problem")} on ` +
    `${counted(facts.overview.length, "device")}, ${facts.failures.records ? `${whole(facts.failures.records)} without success` : "all successful"}.${left}${unlisted}`;
  section("sections").append(el("ol", null, ...[...document.querySelectorAll("main section")].map((each) =>
    el("li", null, el("a", { href: `#${each.id}` }, each.querySelector("h2").textContent)))));
  const landscape = (focused) => {
    drawLandscape(records, state, landscape);
    if (typeof focused === "string") [...section("landscape").querySelectorAll("label")].find((each) => each.firstChild.data === focused)?.lastChild.focus();
  };
  const chosen = () => { drawConvergence(records, state); drawConfigurations(records, state); landscape(); };
  drawOverview(records);
  drawChoice(records, state, chosen);
  drawImportance(records);
  drawFailures(records);
  drawForecasts(records);
  drawPruning(records);
  let width = document.body.clientWidth;
  window.addEventListener("resize", () => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    requestAnimationFrame(() => { chosen(); drawForecasts(records); });
  });
}

if (typeof DecompressionStream === "undefined") {
  section("summary").textContent = "This browser is too old for this page: it cannot unpack data (DecompressionStream).";
} else {
  decode(section("payload").textContent).then(({ facts, columns }) => {
    begin(new Records(facts, columns));
    requestAnimationFrame(() => { document.documentElement.dataset.drawn = performance.now().toFixed(0); });
  }).catch((error) => {
    section("summary").textContent = "This page cannot be shown; its file may be damaged.";
    throw error;
  });
}
