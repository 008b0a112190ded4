// The matrix as the script sees it: the markup's own rows and cells.
const matrixOf = (table) => {
  const columns = [...table.tHead.rows[0].cells].slice(1).map((th) => ({ th, target: th.dataset.target, name: th.dataset.name }));
  const rows = [...table.tBodies[0].rows].map((tr) => ({
    tr,
    text: tr.dataset.text,
    name: tr.cells[0].querySelector(".name").textContent,
    cells: [...tr.cells].slice(1).map((td) => {
      const [cell, word] = [td.querySelector(".cell"), td.querySelector(".word")];
      const at = cell ? Number(cell.dataset.case) : null;
      return { td, at, word, usual: word?.textContent, kind: td.dataset.k, isState: td.dataset.state !== undefined, value: null };
    }),
  }));
  return { table, columns, rows };
};

// What is chosen hides columns and rows, and dims the rest; returns the cases and exclusions that are left.
const filter = (matrix, { text, target, kinds }) => {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const isHidden = matrix.columns.map((column) => target !== "" && column.target !== target);
  matrix.columns.forEach((column, at) => { column.th.hidden = isHidden[at]; });
  const left = new Set();
  let cells = 0, rows = 0;
  for (const row of matrix.rows) {
    const isNamed = words.every((word) => row.text.includes(word));
    let hits = 0;
    row.cells.forEach((cell, at) => {
      cell.td.hidden = isHidden[at];
      const isHit = kinds.size === 0 || kinds.has(cell.kind);
      cell.td.classList.toggle("dim", !isHit);
      if (isHidden[at] || !isHit || cell.kind === "none") return;
      hits += 1;
      if (isNamed && cell.at !== null) left.add(cell.at);
    });
    row.tr.hidden = hits === 0 || !isNamed;
    if (!row.tr.hidden) { rows += 1; cells += hits; }
  }
  return { left, cells, rows };
};

// By the figure of a column, by name, or as the spec has it. Cells without a figure stay last.
const sort = (matrix, column, isDown) => {
  const body = matrix.table.tBodies[0];
  const key = (row) => row.cells[column].value;
  const sign = isDown ? -1 : 1;
  const sorted = [...matrix.rows];
  if (column === -1) sorted.sort((a, b) => sign * a.name.localeCompare(b.name));
  else if (column !== null) {
    sorted.sort((a, b) => (key(a) === null) - (key(b) === null) || sign * ((key(a) ?? 0) - (key(b) ?? 0)));
  }
  body.append(...sorted.map((row) => row.tr));
  for (const th of matrix.table.tHead.rows[0].cells) th.removeAttribute("aria-sort");
  if (column !== null) {
    matrix.table.tHead.rows[0].cells[column + 1].setAttribute("aria-sort", isDown ? "descending" : "ascending");
  }
};

// Columns of hardware that is not here are one, until the reader asks for them.
const fold = (matrix) => {
  const absent = matrix.columns.filter((column) => column.th.classList.contains("narrow"));
  if (absent.length < 2) return;
  const button = element("button", { type: "button", className: "unfold", title: absent.map((column) => column.name).join(", ") },
    `+${absent.length} `, element("small", {}, "unavailable"));
  absent[0].th.append(button);
  matrix.table.classList.add("folded");
  for (const at of matrix.columns.keys()) {
    const isFirst = matrix.columns[at] === absent[0];
    if (!absent.includes(matrix.columns[at])) continue;
    const column = [matrix.columns[at].th, ...matrix.rows.map((row) => row.cells[at].td)];
    for (const cell of column) cell.classList.add(isFirst ? "fold" : "folds");
  }
  button.addEventListener("click", () => { matrix.table.classList.remove("folded"); button.remove(); });
};
