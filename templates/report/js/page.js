const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
{% include "report/js/data.js" %}
{% include "report/js/figures.js" %}
{% include "report/js/charts.js" %}
{% include "report/js/panel.js" %}
{% include "report/js/matrix.js" %}
{% include "report/js/follow.js" %}

for (const hidden of all(".js")) hidden.hidden = false;
const data = await unpacked();
const matrix = one(".matrix") ? matrixOf(one(".matrix")) : null;
const [text, target, figure, base, shown] = ["#text", "#target", "#figure", "#base", "#shown"].map(one);
const chips = all(".chip");
const follow = followers(data);
const cards = all(".card");
for (const card of cards) card.querySelector("details").open = false;
let left = null;
let sorted = { column: null, isDown: false };

// A card is drawn anew where other bars of it are left.
const redraw = (card, width) => {
  const bars = all("tbody tr:not([hidden]) a[data-case]", card);
  const drawn = bars.map((link) => link.dataset.case).join(" ");
  if (card.hidden || card.dataset.drawn === drawn) return;
  card.dataset.drawn = drawn;
  card.querySelector("svg")?.remove();
  card.querySelector("details").before(latency(card, bars, data, width));
};

// The figure that the page begins with: tinted latencies where there are some.
const usual = figure?.value;

// Filters and figure, from the controls to the page and the address.
const apply = () => {
  const kinds = new Set(chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.filter));
  const found = filter(matrix, { text: text.value, target: target.value, kinds });
  const isFiltered = kinds.size > 0 || text.value.trim() !== "" || target.value !== "";
  left = isFiltered ? found.left : null;
  shown.textContent = isFiltered ? `${found.cells} cells of ${found.rows} of ${matrix.rows.length} models` : "";
  follow(left);
  // All are as wide, and to ask while some are drawn would lay out the page for each.
  const width = cards.find((card) => !card.hidden)?.clientWidth;
  for (const card of cards) redraw(card, width);
  base.parentElement.hidden = figure.value !== "speed";
  paint(matrix, data.figures, figure.value, base.value === "" ? null : Number(base.value));
  if (sorted.column !== null) sort(matrix, sorted.column, sorted.isDown);
  const by = sorted.column === null ? "" : `${sorted.isDown ? "-" : ""}${matrix.columns[sorted.column]?.name ?? "model"}`;
  const against = figure.value === "speed" ? (matrix.columns[base.value]?.name ?? "") : "";
  chosen.set({ text: text.value.trim(), target: target.value, kind: [...kinds].join(","), figure: figure.value === usual ? "" : figure.value, base: against, sort: by });
};

const restore = () => {
  const of = (name) => matrix.columns.findIndex((column) => column.name === name);
  text.value = chosen.get("text");
  target.value = chosen.get("target");
  figure.value = chosen.get("figure") || usual;
  if (of(chosen.get("base")) >= 0) base.value = String(of(chosen.get("base")));
  const kinds = chosen.get("kind").split(",");
  for (const chip of chips) chip.setAttribute("aria-pressed", String(kinds.includes(chip.dataset.filter)));
  const by = chosen.get("sort").replace(/^-/, "");
  const column = by === "model" ? -1 : of(by);
  sorted = { column: by === "" || (by !== "model" && column < 0) ? null : column, isDown: chosen.get("sort").startsWith("-") };
  apply();
};

if (matrix) {
  fold(matrix);
  text.addEventListener("input", apply);
  for (const control of [target, figure, base]) control.addEventListener("change", apply);
  one(".filters").addEventListener("submit", (event) => event.preventDefault());
  one(".filters").addEventListener("reset", () => {
    for (const chip of chips) chip.setAttribute("aria-pressed", "false");
    sorted = { column: null, isDown: false };
    setTimeout(() => { sort(matrix, null, false); apply(); });
  });
  for (const chip of chips) chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
    apply();
  });
  all(".matrix thead .head").forEach((head, at) => head.addEventListener("click", () => {
    const column = at - 1;
    const isAgain = sorted.column === column;
    sorted = isAgain && sorted.isDown ? { column: null, isDown: false } : { column, isDown: isAgain };
    sort(matrix, sorted.column, sorted.isDown);
    apply();
  }));
  restore();
}

// Samples are many: they join the table when somebody opens it.
for (const card of cards) card.querySelector("details").addEventListener("toggle", ({ target }) => {
  if (!target.open || card.querySelector("td.samples")) return;
  card.querySelector("thead tr").append(element("th", { scope: "col" }, "samples, ms"));
  for (const link of all("a[data-case]", card)) link.closest("tr").append(element("td", { className: "samples" }, ticks(data.samples[link.dataset.case])));
});

const panel = one("#panel");
let opener = null;
const open = (at) => {
  const told = data.details[at];
  if (!told) return false;
  const close = element("button", { type: "button", className: "close", onclick: () => shut() }, "Close");
  panel.replaceChildren(close, article(told));
  panel.hidden = false;
  panel.scrollTop = 0;
  document.body.classList.add("open");
  for (const cell of all("a.cell[aria-current]")) cell.removeAttribute("aria-current");
  one(`a.cell[data-case="${at}"]`)?.setAttribute("aria-current", "true");
  chosen.set({ case: told.id });
  return true;
};
const shut = () => {
  panel.hidden = true;
  document.body.classList.remove("open");
  for (const cell of all("a.cell[aria-current]")) cell.removeAttribute("aria-current");
  chosen.set({ case: "" });
  opener?.focus({ preventScroll: true });
};
document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  const at = /^#case=(\d+)$/.exec(link?.getAttribute("href") ?? "")?.[1];
  if (at !== undefined && open(Number(at))) {
    event.preventDefault();
    opener = link;
    if (!link.classList.contains("cell")) panel.focus({ preventScroll: true });
    return;
  }
  const button = event.target.closest(".copy");
  if (button) copied(button);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !panel.hidden) shut();
  const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const cell = event.target.closest?.("a.cell"), move = moves[event.key];
  if (!cell || !move || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const body = cell.closest("tbody");
  let row = cell.closest("tr").sectionRowIndex, column = cell.closest("td").cellIndex;
  for (;;) {
    row += move[0];
    column += move[1];
    const td = body.rows[row]?.cells[column];
    if (!td) return;
    const next = td.querySelector("a.cell");
    if (!next || next.offsetParent === null) continue;
    next.focus();
    if (!panel.hidden && open(Number(next.dataset.case))) opener = next;
    return;
  }
});

// Pages of files have no clipboard in some browsers: then the line is selected for the reader to copy.
const copied = async (button) => {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
};

one("#save-json")?.addEventListener("click", () => save("matrix.json", "application/json", data.document));
one("#save-csv")?.addEventListener("click", () => {
  const quoted = (field) => (/[",\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field);
  const rows = data.details.map((told, at) => ({ told, at })).filter(({ at }) => left === null || left.has(at));
  const lines = rows.map(({ told, at }) => [
    told.name, told.word, told.stage ?? "", data.figures.latency[at] ?? "", data.figures.not_quiet[at] ? "yes" : "", data.figures.memory[at] ?? "", data.figures.error[at] ?? "", told.reason ?? "",
  ].map((field) => quoted(String(field))).join(","));
  save("matrix.csv", "text/csv", ["case,state,stage,latency_ms,not_quiet,peak_rss_bytes,max_abs,reason", ...lines, ""].join("\n"));
});
// An address names a case by its id, which it keeps in later reports; a link within the page, by its position.
const opened = chosen.get("case");
if (opened !== "") {
  const at = data.details.findIndex((told) => told.id === opened);
  open(at >= 0 ? at : Number(opened));
}
