// The chosen problem: machine and case, from a list that a search narrows.
const MOST_LISTED = 400;

function casesOf(records, machine, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const cases = [];
  for (let index = 0; index < records.cases; index++) {
    if (records.of("machine", index) !== machine) continue;
    const problem = records.problem(index).toLowerCase();
    if (wanted.every((word) => problem.includes(word))) cases.push(index);
  }
  return cases.sort((a, b) => records.of("total", b) - records.of("total", a) || a - b);
}

function drawChoice(records, state, changed) {
  const machines = records.facts.overview.map((row, index) => [String(index), row.label]);
  const search = el("input", { type: "search", placeholder: "conv2d k=64", autocomplete: "off", "aria-controls": "problem-list" });
  const list = el("select", { id: "problem-list", size: "8" });
  const status = note("");
  status.setAttribute("aria-live", "polite");
  const refresh = (keep) => {
    const cases = casesOf(records, state.machine, search.value);
    list.replaceChildren(...cases.slice(0, MOST_LISTED).map((index) =>
      el("option", { value: String(index) }, `${records.problem(index)} (${counted(records.of("total", index), "record")})`)));
    list.size = Math.max(2, Math.min(8, cases.length));
    status.textContent = cases.length > MOST_LISTED
      ? `${whole(cases.length)} problems; the list has the ${MOST_LISTED} with the most records, so type to narrow it`
      : `${counted(cases.length, "problem")}, those with the most records first`;
    if (!keep || !cases.includes(state.case)) {
      if (cases.length) state.case = cases[0];
      changed();
    }
    list.value = String(state.case);
  };
  search.addEventListener("input", () => refresh(true));
  list.addEventListener("change", () => { state.case = Number(list.value); changed(); });
  const devices = select("Device", machines, state.machine, (value) => { state.machine = Number(value); refresh(false); });
  show("choice", "controls",
    el("div", { class: "controls" }, devices, el("label", null, "Search the problems", search)),
    el("div", { class: "problems" }, el("label", null, "Problem", list), status));
  refresh(false);
}
