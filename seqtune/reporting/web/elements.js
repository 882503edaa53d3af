// Elements: all text goes into the page as text, never as HTML, since names come from foreign files.
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const note = (text) => el("p", { class: "note" }, text);
const section = (name) => document.getElementById(name);

// Put nodes into a section's part, which is made when it is first needed.
function show(name, part, ...nodes) {
  const id = `${name}-${part}`;
  let box = document.getElementById(id);
  if (!box) section(name).append(box = el("div", { id }));
  box.replaceChildren(...nodes.filter((node) => node !== null));
}

// A table: heads are [text, class] or text; cells are nodes or texts.
function table(heads, rows, attributes) {
  const classes = heads.map((head) => (Array.isArray(head) ? head[1] : null));
  const head = el("tr", null, ...heads.map((each, index) =>
    el("th", { scope: "col", class: classes[index] }, Array.isArray(each) ? each[0] : each)));
  const body = rows.map((cells) => el("tr", null, ...cells.map((cell, index) =>
    el("td", { class: classes[index] }, cell))));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "table" },
    el("table", attributes, el("thead", null, head), el("tbody", null, ...body)));
}

function select(label, options, chosen, change, attributes) {
  const list = el("select", attributes, ...options.map(([value, text]) => el("option", { value }, text)));
  list.value = String(chosen);
  list.addEventListener("change", () => change(list.value));
  return el("label", null, label, list);
}

const counted = (number, word) => `${whole(number)} ${word}${number === 1 ? "" : "s"}`;
const whole = (number) => Math.round(number).toLocaleString("en-US");
const percent = (share) => (share >= 0.0995 || share === 0 ? `${(100 * share).toFixed(0)} %` : `${(100 * share).toPrecision(2)} %`);
const times = (factor) => `${factor.toFixed(2)}×`;
const few = (number) => Number(number.toPrecision(3)).toString();
function duration(seconds) {
  if (!Number.isFinite(seconds)) return "-";
  for (const [unit, scale] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
    if (seconds >= scale) return `${few(seconds / scale)} ${unit}`;
  }
  return `${few(seconds * 1e9)} ns`;
}
function large(number) {
  return number < 1e6 ? whole(number) : number < 1e9 ? `${few(number / 1e6)} million` : number.toExponential(2);
}
