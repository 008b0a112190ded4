// Pictures by Observable Plot. Beside each stands a table with the same figures: `listed` makes that of samples, page.js completes that
// of a card, and the executions of a history come with theirs.
const STYLE = { background: "none", color: "inherit", fontSize: "11px", overflow: "visible" };

// The samples of a run, or the executions of a case, in their order.
const samples = ({ values, median, what, of }) => {
  const points = values.map((ms, at) => ({ at, ms }));
  const drawn = Plot.plot({
    width: 400, height: 102, marginLeft: 44, marginBottom: 18, marginTop: 20, style: STYLE,
    x: { label: null, ticks: 0 }, y: { label: "ms", nice: true, ticks: 3, grid: true },
    marks: [
      Plot.ruleY([median], { strokeDasharray: "3 3", strokeOpacity: 0.6 }),
      Plot.lineY(points, { x: "at", y: "ms", stroke: "var(--accent)", strokeWidth: 1 }),
      Plot.dot(points, { x: "at", y: "ms", r: 1.3, fill: "var(--accent)" }),
    ],
  });
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", `${ofHowMany(values, what, of)}, median ${three(median)} ms`);
  return drawn;
};
// Of many samples only the least and the greatest of each group are there to be shown.
const ofHowMany = (values, what, of) => (values.length < of ? `extremes of ${of} ${what} in order` : `${of} ${what} in order`);

const listed = ({ values, what, of }) => element("details", { className: "listed" },
  element("summary", {}, "as a table"),
  element("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: what }, element("table", { className: "list figures" },
    element("thead", {}, element("tr", {}, ...["no.", ofHowMany(values, what, of)].map((told) => element("th", { scope: "col" }, told)))),
    element("tbody", {}, ...values.map((ms, at) => element("tr", {}, element("th", { scope: "row" }, String(at + 1)), element("td", {}, `${three(ms)} ms`)))))));

// All of a bar's samples from the least on, as ticks stand.
const ticks = (samples) => [...samples].sort((one, other) => one - other).map(three).join(" · ") || "–";

// One model on its targets: every sample a tick, the median a dot, the range of its rounds' medians a line.
const latency = (card, links, data, width) => {
  const bars = links.map((link) => {
    const at = Number(link.dataset.case);
    const [low, high] = data.spreads[at] ?? [];
    return { at, name: link.textContent, ms: data.figures.latency[at], low, high, samples: data.samples[at] ?? [] };
  });
  const all = bars.flatMap((bar) => [bar.ms, ...bar.samples]).filter((ms) => ms > 0);
  const isLog = Math.max(...all) / Math.min(...all) > 20;
  const longest = Math.max(...bars.map((bar) => bar.name.length));
  const drawn = Plot.plot({
    width: width || 360, height: 34 + 18 * bars.length, marginLeft: 8 + 6.2 * longest, marginRight: 12, marginTop: 4,
    marginBottom: 28, style: STYLE,
    x: { type: isLog ? "log" : "linear", zero: !isLog, label: isLog ? "ms, logarithmic" : "ms", ticks: 4, grid: true, tickFormat: "~g" },
    y: { domain: bars.map((bar) => bar.name), label: null, tickSize: 0, padding: 0.2 },
    marks: [
      Plot.tickX(bars.flatMap((bar) => bar.samples.map((ms) => ({ name: bar.name, ms }))), { x: "ms", y: "name", stroke: "var(--bar)", strokeOpacity: 0.35 }),
      Plot.ruleY(bars.filter((bar) => bar.high > bar.low), { x1: "low", x2: "high", y: "name", stroke: "currentColor" }),
      Plot.dot(bars, { x: "ms", y: "name", r: 3.2, fill: "var(--accent)", href: (bar) => `#case=${bar.at}`, title: (bar) => `${bar.name}: ${three(bar.ms)} ms` }),
    ],
  });
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", card.querySelector("figcaption").textContent);
  return drawn;
};
