// The parts of Observable Plot that the report's pages draw with (templates/report/js/charts.js). `npm ci && npm run build`
// makes plot.min.js of it, which orch embeds.
export { dot, lineY, plot, ruleY, tickX } from "@observablehq/plot";
