// Searches the site's first page as a reader does, and answers what it found. Run by tests/site.rs.
const frame = document.createElement("iframe");
document.body.append(frame);
const loaded = new Promise((done) => frame.addEventListener("load", done));
const troubles = [];
const page = (await (await fetch("files/page")).text()).replaceAll(/<(script|link)[^>]+(src|href)="[^"]*"[^>]*>/g, "");
frame.src = URL.createObjectURL(new Blob([page], { type: "text/html" }));
await loaded;
const view = frame.contentWindow;
view.addEventListener("error", (event) => troubles.push(event.message));
const one = (selector) => frame.contentDocument.querySelector(selector);
const hits = () => [...frame.contentDocument.querySelectorAll(".found a")].map((link) => link.getAttribute("href"));
const type = (text) => {
  one(".search input").value = text;
  one(".search input").dispatchEvent(new view.Event("input", { bubbles: true }));
  return hits();
};
const found = { hidden: one(".found").hidden, bert: type("BERT"), both: type("openvino 16") };
type("no such model");
found.none = [one(".found").hidden, hits().length];
one(".search input").dispatchEvent(new view.KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
found.cleared = [one(".search input").value, one(".found").hidden];
found.troubles = troubles;
await fetch("answer", { method: "POST", body: JSON.stringify(found) });
