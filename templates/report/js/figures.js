// A matrix shows one figure at a time. Tints compare what is seen: the cells of a row, a cell with the row's base, or all errors.
// Figures are told as orch writes them elsewhere.
const three = (value) => value.toFixed(value < 0.0995 ? 3 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
const size = (bytes) => {
  let [value, unit] = [bytes, 0];
  for (; value >= 999.5 && unit < 4; unit += 1) value /= 1024;
  return `${value.toFixed(unit > 0 && value < 9.95 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
};
const FIGURES = {
  latency: { told: (ms) => (ms < 9999.5 ? `${three(ms)} ms` : `${three(ms / 1000)} s`), scale: "row", word: "median latency" },
  speed: { told: (ratio) => `${ratio.toFixed(ratio < 9.95 ? 2 : 0)}×`, scale: "base", word: "speed-up" },
  memory: { told: size, scale: "row", word: "peak memory" },
  device: { told: size },
  error: { told: (error) => (error === 0 ? "0" : error.toExponential(1)), scale: "all", word: "largest absolute error" },
};

// 0 to 1 between the ends, by decades; -1 to 1 around 1 for ratios.
const heat = (kind, value, [low, high]) => {
  if (kind === "base") return Math.max(-1, Math.min(1, Math.log2(value) / 3));
  if (value <= low || high <= low) return 0;
  return Math.min(1, Math.log(value / low) / Math.log(high / low));
};

const figureOf = (figures, name, at, base) => {
  if (name !== "speed") return figures[name][at] ?? null;
  const [own, other] = [figures.latency[at] ?? null, base === null ? null : (figures.latency[base] ?? null)];
  return own === null || other === null ? null : other / own;
};

// Before a latency that is not quiet, and before what is made of one.
const markOf = (figures, name, at, base) =>
  ["latency", "speed"].includes(name) && (figures.not_quiet[at] || (name === "speed" && base !== null && figures.not_quiet[base])) ? "~" : "";

// Puts the chosen figure into every cell, or the words that the page came with.
const paint = (matrix, figures, name, base) => {
  const figure = FIGURES[name];
  for (const row of matrix.rows) {
    const from = base === null ? null : (row.cells[base]?.at ?? null);
    for (const cell of row.cells) {
      if (cell.at === null) continue;
      cell.value = figure ? figureOf(figures, name, cell.at, from) : (figures.latency[cell.at] ?? null);
      const isUsual = !figure || cell.isState || (cell.value === null && name === "latency");
      cell.word.textContent = isUsual ? cell.usual : cell.value === null ? "–" : markOf(figures, name, cell.at, from) + figure.told(cell.value);
      cell.td.style.removeProperty("--heat");
      cell.td.classList.toggle("blank", Boolean(figure) && !cell.isState && cell.value === null);
    }
  }
  matrix.table.dataset.scale = figure?.scale ?? "";
  if (!figure) return;
  const ends = (cells) => {
    const values = cells.filter((cell) => !cell.isState && !cell.td.hidden).map((cell) => cell.value).filter((value) => value > 0);
    return [Math.min(...values), Math.max(...values)];
  };
  const ofAll = ends(matrix.rows.filter((row) => !row.tr.hidden).flatMap((row) => row.cells));
  for (const row of matrix.rows) {
    const of = figure.scale === "all" ? ofAll : ends(row.cells);
    for (const cell of row.cells.filter((cell) => cell.value !== null && !cell.isState)) {
      cell.td.style.setProperty("--heat", heat(figure.scale, cell.value, of).toFixed(3));
    }
  }
};
