// The details of one case, beside the page.
const table = (told) => element("div", { className: "scroll" }, element("table", { className: "list figures" },
  element("thead", {}, element("tr", {}, ...told.columns.map((column) => element("th", { scope: "col" }, column)))),
  element("tbody", {}, ...told.rows.map((row) => element("tr", {}, ...row.map((cell, at) => element(
    at === 0 ? "th" : "td", at === 0 ? { scope: "row" } : {}, cell.text,
    cell.label && element("small", { className: "label" }, cell.label), cell.aside && element("small", {}, ` ${cell.aside}`),
  )))))));

const repro = (line) => element("div", { className: "repro" }, element("code", {}, line),
  element("button", { type: "button", className: "copy" }, "Copy"));

const part = (told) => [
  element("h4", {}, told.title, told.label && element("small", { className: "label" }, told.label),
    told.note && element("small", {}, ` ${told.note}`)),
  told.samples && samples(told.samples),
  told.samples && told.samples.what !== "executions" && listed(told.samples),
  told.table && table(told.table),
  element("dl", {}, ...told.facts.flatMap(([name, fact]) => [element("dt", {}, name), element("dd", {}, fact)])),
];

const article = (told) => element("article", { className: "case" },
  element("h3", {}, told.name),
  element("p", { className: "state" },
    element("span", { className: `pill ${told.kind}` }, `${told.glyph} ${told.word}`),
    told.stage && ` at ${told.stage}`, element("small", {}, ` ${told.about}`)),
  told.reason && element("p", { className: `reason ${told.kind}` }, told.reason),
  told.repro && repro(told.repro),
  ...told.parts.flatMap(part));
