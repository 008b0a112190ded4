// Uses the report's page as a reader does, and answers what it found. Run by tests/report_browser.rs.
const troubles = [];
const text = await (await fetch("files/page")).text();
const url = URL.createObjectURL(new Blob([text], { type: "text/html" }));
const until = async (holds) => {
  for (let turn = 0; turn < 400 && !holds(); turn += 1) await new Promise((done) => setTimeout(done, 25));
};
// The page at an address, in a window of its own.
const opened = async (style, hash = "") => {
  const frame = document.createElement("iframe");
  frame.style = style;
  const loaded = new Promise((done) => frame.addEventListener("load", done));
  frame.src = url + hash;
  document.body.append(frame);
  await loaded;
  const view = frame.contentWindow;
  view.addEventListener("error", (event) => troubles.push(event.message));
  const all = (selector) => [...view.document.querySelectorAll(selector)];
  const one = (selector) => all(selector)[0];
  const seen = (selector) => all(selector).filter((element) => element.offsetParent !== null);
  const put = (selector, value, kind) => {
    one(selector).value = value;
    one(selector).dispatchEvent(new view.Event(kind, { bubbles: true }));
  };
  const models = () => seen(".matrix tbody tr").map((row) => row.querySelector(".name").textContent);
  const words = (column) => seen(".matrix tbody tr").map((row) => row.cells[column].querySelector(".word").textContent);
  const rows = (selector) => seen(`${selector} tbody tr`).map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
  await until(() => one(".filters")?.hidden === false && all(".card svg").length > 0);
  return { view, all, one, seen, put, models, words, rows };
};
// What is too faint against its ground to be read: WCAG asks for 4.5.
const faint = ({ view, all }) => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const [r, g, b, alpha = 1] = parts(view.getComputedStyle(element).backgroundColor);
    return alpha === 1 || !element.parentElement ? [r, g, b] : ground(element.parentElement);
  };
  const isRead = (element) => element.offsetParent !== null && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
  const read = all("body *:not(script, style, option)").filter(isRead);
  const ratio = (element) => {
    const [ink, paper] = [light(parts(view.getComputedStyle(element).color)), light(ground(element))];
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  };
  return [...new Set(read.filter((element) => ratio(element) < 4.5).map((element) => `${element.tagName} ${element.className} in ${element.parentElement.className}: ${ratio(element).toFixed(1)}`))];
};

const { view, all, one, seen, put, models, words, rows } = await opened("width: 1400px; height: 1000px");
const key = (target, key) => target.dispatchEvent(new view.KeyboardEvent("keydown", { key, bubbles: true }));
const found = { models: models().length, cards: seen(".card").length, drawn: all(".card svg[role=img]").length };

put("#text", "bert", "input");
found.named = models();
found.cards_named = seen(".card b").map((name) => name.textContent);
put("#figure", "speed", "change");
found.speed = words(1);
found.address = view.location.hash;
all(".matrix thead .head")[2].click();
found.sorted = words(2).map(parseFloat);
found.sort_told = one(".matrix th[aria-sort]").getAttribute("aria-sort");
put("#figure", "memory", "change");
found.memory = words(1);
put("#figure", "error", "change");
found.error = words(1);
found.tinted = seen(".matrix td[style*='--heat']").length > 0;

// What is saved, in place of files.
const saved = {}, blobs = [];
const { createObjectURL } = view.URL, { click } = view.HTMLAnchorElement.prototype;
view.URL.createObjectURL = (blob) => { blobs.push(blob); return "#"; };
view.HTMLAnchorElement.prototype.click = function save() { saved[this.download] = blobs[blobs.length - 1]; };
for (const button of ["#save-csv", "#save-json"]) one(button).click();
view.URL.createObjectURL = createObjectURL;
view.HTMLAnchorElement.prototype.click = click;
const lines = (await saved["matrix.csv"].text()).split("\n");
found.csv = [lines.length, lines[0], lines[1]];
found.json = JSON.parse(await saved["matrix.json"].text()).cases.length;

// Tables and charts follow the filters, or say that they do not.
for (const fold of all("main > section > details")) fold.open = true;
put("#target", "openvino", "change");
found.spread = rows("#spread > details:first-of-type");
found.slowest = rows("#spread > details:nth-of-type(4)")[0];
found.memory_rows = rows("#memory > details:first-of-type");
found.counted = one("#memory > details:first-of-type summary small").textContent;
found.whole = seen(".whole").map((note) => note.closest("section").id);
found.bars = [all(".card:first-child svg a").length, all(".card:first-child tbody tr:not([hidden])").length];
put("#target", "", "change");
found.causes = seen("#unavailable .chosen").map((told) => told.textContent.trim());
one(".card summary").click();
await until(() => one(".card td.samples"));
found.ticks = one(".card td.samples").textContent.split(" · ").length;

found.folded = seen(".matrix thead th.narrow").length;
one(".unfold").click();
found.unfolded = seen(".matrix thead th.narrow").length;

seen("a.cell")[0].focus();
key(view.document.activeElement, "ArrowRight");
found.moved = view.document.activeElement.dataset.case !== seen("a.cell")[0].dataset.case;
view.document.activeElement.click();
found.panel = one("#panel h3").textContent;
found.linked = new URLSearchParams(view.location.hash.slice(1)).get("case");
found.samples = [all("#panel svg[role=img]").length, all("#panel .listed tbody tr").length];
key(view.document, "Escape");
found.closed = one("#panel").hidden;

one(".filters button[type=reset]").click();
await until(() => models().length === found.models);
found.cleared = [models().length, words(1)[0].endsWith("ms"), seen(".whole").length, rows("#spread > details:first-of-type").length];
one('.chip[data-filter="fail"]').click();
found.failing = [seen(".matrix td:not(.dim) .cell").length, seen("#failures li").length, seen("#excluded li").length];
one('.chip[data-filter="fail"]').click();
one('.chip[data-filter="excluded"]').click();
found.excluded = [seen(".matrix td:not(.dim) .cell").length, seen("#failures li").length, seen("#excluded li").length];

const sent = await opened("width: 1400px; height: 1000px", "#text=bert&target=cpu&kind=pass&figure=memory&sort=-cpu-fp32&case=bert:cpu-fp32");
found.restored = [sent.models(), sent.words(1), sent.one("#target").value, sent.one(".chip[aria-pressed=true]").dataset.filter, sent.one("#panel h3").textContent];
// One column is compared with none that is hidden.
found.untinted = sent.seen(".matrix tbody td").map((cell) => cell.style.getPropertyValue("--heat"));
found.faint = faint({ view, all });

const dark = await opened("width: 400px; height: 800px; color-scheme: dark");
found.dark = [dark.view.matchMedia("(prefers-color-scheme: dark)").matches, dark.view.getComputedStyle(dark.view.document.body).backgroundColor];
dark.seen("a.cell")[0].click();
const panel = dark.one("#panel").getBoundingClientRect();
const { scrollWidth, clientWidth } = dark.view.document.documentElement;
found.narrow = [scrollWidth - clientWidth, panel.left, panel.right - clientWidth, panel.height > 200];
found.faint_in_the_dark = faint(dark);
found.troubles = troubles;
await fetch("answer", { method: "POST", body: JSON.stringify(found) });
