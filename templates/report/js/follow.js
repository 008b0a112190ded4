// What stands below the matrix is about cases too, and follows the filters: what is of none that are left is hidden. Figures of
// several cases are made anew of those that are left, where the page has what they are made of; else a line says whose they are.
const AMOUNTS = {
  count: (values) => values.length,
  average: (values) => values.reduce((sum, value) => sum + value, 0) / values.length,
  median: (values) => (values[Math.floor((values.length - 1) / 2)] + values[Math.ceil((values.length - 1) / 2)]) / 2,
  least: (values) => values[0],
  most: (values) => values[values.length - 1],
  times: (values) => values[values.length - 1] / Math.max(values[0], 1),
};
const WHOLE = "Figures here are of all cells, not only of those that the filters leave.";

const followers = (data) => {
  const told = { count: String, times: (times) => times.toFixed(1) };
  const valued = (name, cases) => cases.map((at) => ({ at, value: data.figures[name][at] ?? null }))
    .filter(({ value }) => value !== null).sort((one, other) => one.value - other.value);
  const leading = (at, ...children) => element("a", { href: `#case=${at}` }, ...children);

  const abouts = all("main [data-cases]").map((about) => ({
    about,
    cases: about.dataset.cases.split(" ").map(Number),
    sums: all("[data-sum]", about).map((cell) => {
      const [by, name] = cell.dataset.sum.split(" ");
      return { cell, by, name, usual: [...cell.childNodes] };
    }),
  }));
  // Lists of those that have most or least are made anew as a whole: the head of each row says of what.
  const isRanked = ({ sums }) => sums[0]?.cell.matches("th");
  const rankings = new Map();
  for (const row of abouts.filter(isRanked)) {
    const body = row.about.parentElement;
    rankings.set(body, [...(rankings.get(body) ?? []), row]);
  }
  const singles = abouts.filter((about) => !isRanked(about));

  const sum = ({ cell, by, name }, cases, whose) => {
    const found = valued(name, cases);
    if (found.length === 0) return cell.replaceChildren("–");
    const value = AMOUNTS[by](found.map((one) => one.value));
    const text = (told[by] ?? FIGURES[name].told)(value);
    if (cell.querySelector("a") === null) return cell.replaceChildren(text);
    const { at } = by === "least" ? found[0] : found[found.length - 1];
    // The model that the row is of need not be told again.
    const of = data.details[at].name;
    cell.replaceChildren(leading(at, text), " ", element("small", {}, of.startsWith(`${whose} on `) ? of.slice(whose.length + 4) : of));
  };
  const rank = (rows, left) => {
    const { by, name } = rows[0].sums[0];
    const found = valued(name, [...left].filter((at) => data.details[at]?.kind === "pass" && !data.figures.not_quiet[at]));
    if (by === "most") found.reverse();
    for (const [place, { about, sums: [head, ...others] }] of rows.entries()) {
      about.hidden = place >= found.length;
      if (about.hidden) continue;
      const { at } = found[place];
      head.cell.replaceChildren(leading(at, data.details[at].name));
      for (const { cell, name } of others) {
        const value = data.figures[name][at] ?? null;
        cell.replaceChildren(value === null ? "–" : FIGURES[name].told(value));
      }
    }
  };
  const restore = ({ about, sums }) => {
    about.hidden = false;
    for (const { cell, usual } of sums) cell.replaceChildren(...usual);
  };

  const sections = all("main > section").map((section) => {
    const note = element("p", { className: "hint whole", hidden: true }, WHOLE);
    section.querySelector(".scroll, details, .cards, ul")?.before(note);
    const isTold = section.querySelector("table.figures tbody tr:not([data-cases])") !== null;
    return { section, note, isTold, own: abouts.filter(({ about }) => section.contains(about)) };
  });
  const folds = all("main > section > details").map((fold) => ({ fold, rows: all("tbody tr", fold), count: fold.querySelector("summary small"), isRanked: fold.querySelector("th[data-sum]") !== null }));

  // `left`: the cases that filters leave; null without any.
  return (left) => {
    for (const one of abouts) {
      restore(one);
      one.left = left === null ? one.cases : one.cases.filter((at) => left.has(at));
    }
    if (left !== null) {
      for (const { about, cases, left: some, sums } of singles) {
        about.hidden = some.length === 0;
        if (some.length < cases.length) for (const one of sums) sum(one, some, about.cells[0].textContent);
      }
      for (const rows of rankings.values()) rank(rows, left);
    }
    for (const { about, cases, left: some } of singles.filter(({ about, cases }) => about.matches("li") && cases.length > 1)) {
      about.querySelector(".chosen").textContent = some.length < cases.length ? ` ${some.length} of them chosen` : "";
      for (const link of all("a", about)) link.classList.toggle("dim", !(left?.has(Number(link.hash.slice(6))) ?? true));
    }
    for (const { section, note, isTold, own } of sections) {
      const isPart = ({ about, cases, left: some, sums }) =>
        about.matches("tr") && !about.hidden && sums.length === 0 && some.length < cases.length;
      note.hidden = left === null || !(isTold || own.some(isPart));
      section.classList.toggle("empty", own.length > 0 && own.every(({ about }) => about.hidden));
    }
    for (const { fold, rows, count, isRanked } of folds) {
      const seen = rows.filter((row) => !row.hidden).length;
      fold.hidden = seen === 0;
      count.textContent = seen < rows.length && !isRanked ? `${seen} of ${rows.length} rows` : `${seen} rows`;
    }
  };
};
