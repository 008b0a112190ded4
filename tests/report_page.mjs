// Uses the report's page as a reader does, and answers what it found. Run by tests/report_browser.rs.
const frame = document.createElement("iframe");
frame.style = "width: 1400px; height: 1000px";
document.body.append(frame);
const loaded = new Promise((done) => frame.addEventListener("load", done));
const troubles = [];
const page = await (await fetch("files/page")).text();
frame.src = URL.createObjectURL(new Blob([page], { type: "text/html" }));
await loaded;
const view = frame.contentWindow;
view.addEventListener("error", (event) => troubles.push(event.message));
const all = (selector) => [...frame.contentDocument.querySelectorAll(selector)];
const one = (selector) => all(selector)[0];
const seen = (selector) => all(selector).filter((element) => element.offsetParent !== null);
const until = async (holds) => {
  for (let turn = 0; turn < 400 && !holds(); turn += 1) await new Promise((done) => setTimeout(done, 25));
};
const put = (selector, value, kind) => {
  one(selector).value = value;
  one(selector).dispatchEvent(new view.Event(kind, { bubbles: true }));
};
const models = () => seen(".matrix tbody tr").map((row) => row.cells[0].textContent);
const words = (column) => seen(".matrix tbody tr").map((row) => row.cells[column].querySelector(".word").textContent);
const key = (target, key) => target.dispatchEvent(new view.KeyboardEvent("keydown", { key, bubbles: true }));

await until(() => one(".filters")?.hidden === false && all(".card svg").length > 0);
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

found.folded = seen(".matrix thead th.narrow").length;
one(".unfold").click();
found.unfolded = seen(".matrix thead th.narrow").length;

seen("a.cell")[0].focus();
key(frame.contentDocument.activeElement, "ArrowRight");
found.moved = frame.contentDocument.activeElement.dataset.case !== seen("a.cell")[0].dataset.case;
frame.contentDocument.activeElement.click();
found.panel = one("#panel h3").textContent;
found.samples = all("#panel svg[role=img]").length;
key(frame.contentDocument, "Escape");
found.closed = one("#panel").hidden;

one(".filters button[type=reset]").click();
await until(() => models().length === found.models);
found.cleared = [models().length, words(1)[0].endsWith("ms")];
one('.chip[data-filter="fail"]').click();
found.failing = [seen(".matrix td:not(.dim) .cell").length, seen("#failures li").length, seen("#excluded li").length];
found.troubles = troubles;
await fetch("answer", { method: "POST", body: JSON.stringify(found) });
