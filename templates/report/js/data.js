// Everything that the page knows of its cases, compressed: { details, figures, spreads, samples, document }.
// A case is a position in these lists; exclusions are counted on after them.
const unpacked = async () => {
  const bytes = Uint8Array.from(atob(one("#data").textContent), (c) => c.charCodeAt(0));
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(text).json();
};

const save = (name, type, text) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
};

// `<tag class=…>`; what stands in it is text, never markup.
const element = (tag, properties, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
};

// What the reader chose, in the address: `#text=bert&kind=fail&case=bert:cpu-fp32`. An address like `#failures` is a place on the page.
const chosen = {
  all: () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""),
  get: (name) => chosen.all().get(name) ?? "",
  set: (values) => {
    const all = chosen.all();
    for (const [name, value] of Object.entries(values)) value === "" ? all.delete(name) : all.set(name, value);
    const address = `${location.href.split("#")[0]}${all.size > 0 ? `#${all}` : ""}`;
    // A page within another one, as some CI systems show it, may have no address of its own.
    try { history.replaceState(null, "", address); } catch { /* What is chosen holds, and cannot be sent on. */ }
  },
};
