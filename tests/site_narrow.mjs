// Shows pages of the site on a narrow screen, and answers what reaches beyond it. Run by tests/site.rs.
const found = {};
const scrolls = (element) => element && (/auto|scroll|hidden|clip/.test(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
for (const name of await (await fetch("params.json")).json()) {
  const frame = document.createElement("iframe");
  frame.style = "width: 400px; height: 900px; border: 0";
  document.body.append(frame);
  const loaded = new Promise((done) => frame.addEventListener("load", done));
  const page = await (await fetch(`files/${name}`)).text();
  frame.src = URL.createObjectURL(new Blob([page], { type: "text/html" }));
  await loaded;
  const { documentElement, body } = frame.contentDocument;
  const width = documentElement.clientWidth;
  const beyond = [...body.querySelectorAll("*")].filter((it) => it.getBoundingClientRect().right > width + 1 && !scrolls(it.parentElement));
  found[name] = {
    sideways: documentElement.scrollWidth - width,
    beyond: beyond.slice(0, 9).map((it) => `${it.tagName} ${it.className}: ${it.textContent.trim().slice(0, 60)}`),
    height: documentElement.scrollHeight > 200,
    search: frame.contentDocument.querySelector(".search").hidden === false,
    charts: body.querySelectorAll("main svg[role=img]").length,
  };
  frame.remove();
}
await fetch("answer", { method: "POST", body: JSON.stringify(found) });
