"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  for (const element of all(".js")) element.hidden = false;

  // Filters: the text hides rows, the target hides columns, the results dim cells and hide rows that have none of them.
  const text = one("#text"), target = one("#target"), shown = one("#shown");
  const chips = all(".chip"), rows = all(".matrix tbody tr");
  const apply = () => {
    const wanted = new Set(chips.filter((c) => c.getAttribute("aria-pressed") === "true").map((c) => c.dataset.filter));
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const th of all(".matrix thead th[data-target]")) th.hidden = target.value !== "" && th.dataset.target !== target.value;
    let count = 0, cells = 0;
    for (const row of rows) {
      let hits = 0;
      for (const td of row.cells) {
        if (!td.dataset.target) continue;
        td.hidden = target.value !== "" && td.dataset.target !== target.value;
        const hit = wanted.size === 0 || wanted.has(td.dataset.k);
        td.classList.toggle("dim", !hit);
        if (!td.hidden && hit && td.dataset.k !== "none") hits += 1;
      }
      row.hidden = hits === 0 || !words.every((word) => row.dataset.text.includes(word));
      if (!row.hidden) { count += 1; cells += hits; }
    }
    const filtered = wanted.size > 0 || words.length > 0 || target.value !== "";
    shown.textContent = filtered ? `${cells} cells of ${count} of ${rows.length} models` : "";
  };
  if (rows.length > 0) {
    text.addEventListener("input", apply);
    target.addEventListener("change", apply);
    one(".filters").addEventListener("submit", (event) => event.preventDefault());
    one(".filters").addEventListener("reset", () => {
      for (const chip of chips) chip.setAttribute("aria-pressed", "false");
      setTimeout(apply);
    });
    for (const chip of chips) chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
      apply();
    });
  }

  // The panel shows a copy of the case that the page holds below; the address keeps which one.
  const panel = one("#panel");
  let opener = null;
  const open = (id) => {
    const article = document.getElementById(id);
    if (!article || !article.classList.contains("case")) return false;
    const copy = article.cloneNode(true);
    copy.removeAttribute("id");
    const close = document.createElement("button");
    close.type = "button";
    close.className = "close";
    close.textContent = "Close";
    close.addEventListener("click", shut);
    panel.replaceChildren(close, copy);
    panel.hidden = false;
    panel.scrollTop = 0;
    document.body.classList.add("open");
    for (const cell of all("a.cell[aria-current]")) cell.removeAttribute("aria-current");
    one(`a.cell[href="#${id}"]`)?.setAttribute("aria-current", "true");
    return true;
  };
  const shut = () => {
    panel.hidden = true;
    document.body.classList.remove("open");
    for (const cell of all("a.cell[aria-current]")) cell.removeAttribute("aria-current");
    history.replaceState(null, "", location.pathname + location.search);
    opener?.focus({ preventScroll: true });
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#c"]');
    if (link && open(link.hash.slice(1))) {
      event.preventDefault();
      opener = link;
      history.replaceState(null, "", link.hash.replace("#c", "#case-"));
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
      if (!panel.hidden && open(next.hash.slice(1))) {
        opener = next;
        history.replaceState(null, "", next.hash.replace("#c", "#case-"));
      }
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
  one("#save")?.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([one("#data").textContent], { type: "application/json" }));
    link.download = "matrix.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  // Not the article's own id: the browser would scroll down to that.
  if (/^#case-\d+$/.test(location.hash)) open(location.hash.replace("#case-", "c"));
})();
