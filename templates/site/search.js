// Finds models and targets by the words of their names; INDEX is of search-index.js.
const form = document.querySelector(".search");
const [input, list, root] = [form.querySelector("input"), form.querySelector("ul"), form.dataset.root];
const MOST = 20;

const found = (text) => {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const has = ([name, about]) => words.every((word) => `${name} ${about}`.toLowerCase().includes(word));
  return words.length ? INDEX.filter(has).slice(0, MOST) : [];
};
const show = () => {
  list.replaceChildren(...found(input.value).map(([name, about, href]) => {
    const link = Object.assign(document.createElement("a"), { href: root + href, textContent: name });
    link.append(" ", Object.assign(document.createElement("small"), { textContent: about }));
    const item = document.createElement("li");
    item.append(link);
    return item;
  }));
  list.hidden = !list.children.length;
};
form.hidden = false;
input.addEventListener("input", show);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== input) { event.preventDefault(); input.focus(); }
  if (event.key === "Escape") { input.value = ""; show(); }
});
