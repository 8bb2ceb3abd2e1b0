"use strict";
// Draws the plots of one task from the JSON in the page. What the reader has chosen is kept in the address, so that it
// survives a refresh and can be sent to somebody else.

const data = JSON.parse(document.getElementById("data").textContent);
const INK = "#24292f", SOFT = "#57606a", OVER = "#D55E00";
const SYMBOLS = {  // in a square of 12
  circle: "M6 1.5a4.5 4.5 0 1 0 .01 0z", square: "M2 2h8v8h-8z", diamond: "M6 .5l5.5 5.5-5.5 5.5-5.5-5.5z",
  "triangle-up": "M6 1.5l5 8.5h-10z", "triangle-down": "M6 10.5l5-8.5h-10z", "triangle-left": "M1.5 6l8.5-5v10z",
  star: "M6 .5l1.4 3.9 4.1.1-3.3 2.5 1.2 4-3.4-2.4-3.4 2.4 1.2-4-3.3-2.5 4.1-.1z",
  pentagon: "M6 1l5 3.7-1.9 5.8h-6.2l-1.9-5.8z",
};
const DASHES = { solid: "", dash: "7 3", dashdot: "7 3 2 3", longdash: "12 3", dot: "2 3" };
const CONFIG = {
  responsive: true, displaylogo: false, displayModeBar: "hover",
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
};

const asked = new URLSearchParams(location.hash.slice(1));
const state = {
  task: data.tasks.some((task) => task.name === asked.get("task")) ? asked.get("task") : data.tasks[0]?.name,
  hidden: new Set(asked.getAll("hide")),
  xAxis: asked.get("x") in data.xTitles ? asked.get("x") : data.xAxis,
};

const byId = (id) => document.getElementById(id);
const currentTask = () => data.tasks.find((task) => task.name === state.task);
const shown = (task) => task.groups.filter((group) => !state.hidden.has(group.label));

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function button(label, pressed, onClick) {
  const made = element("button", { type: "button", "aria-pressed": pressed }, ...label);
  made.addEventListener("click", onClick);
  return made;
}

function change(action) {
  action();
  const kept = new URLSearchParams({ task: state.task, x: state.xAxis });
  for (const label of state.hidden) kept.append("hide", label);
  history.replaceState(null, "", `#${kept}`);
  draw();
}

// ---- controls

function drawControls() {
  byId("tasks").replaceChildren(...data.tasks.map((task) =>
    button([task.name], task.name === state.task, () => change(() => { state.task = task.name; }))));
  byId("legend").replaceChildren(...currentTask().groups.map((group) => {
    const seeds = `${group.label} (${group.seeds})`;
    const made = button([swatch(data.styles[group.label]), seeds], !state.hidden.has(group.label), () =>
      change(() => { if (!state.hidden.delete(group.label)) state.hidden.add(group.label); }));
    made.title = `${group.seeds} seed${group.seeds > 1 ? "s" : ""}; click to hide or show`;
    return made;
  }));
  byId("x-axis").value = state.xAxis;
}

function swatch(style) {
  const holder = document.createElement("template");
  holder.innerHTML = `<svg width="48" height="12" aria-hidden="true" fill="${style.colour}"><line x1="0" y1="6" x2="32" y2="6"
    stroke="${style.colour}" stroke-width="2.5" stroke-dasharray="${DASHES[style.dash]}"/>
    <path transform="translate(36)" d="${SYMBOLS[style.symbol]}"/></svg>`;
  return holder.content.firstChild;
}

// ---- plots

function axis(title, extra = {}) {
  return {
    title: { text: title, font: { size: 12, color: SOFT }, standoff: 10 }, gridcolor: "#eaeef2", linecolor: "#d8dee4",
    zeroline: false, tickfont: { size: 11, color: SOFT }, automargin: true, ...extra,
  };
}

function layout(xaxis, yaxis, extra = {}) {
  return {
    margin: { l: 48, r: 14, t: 12, b: 40 }, showlegend: false, hovermode: "closest", plot_bgcolor: "#fff",
    paper_bgcolor: "#fff", font: { family: getComputedStyle(document.body).fontFamily, color: INK },
    hoverlabel: { bgcolor: "#fff", bordercolor: "#d8dee4", font: { size: 12, color: INK } },
    xaxis, yaxis, ...extra,
  };
}

// What does not vary is shown against zero.
function withMargin([low, high]) {
  if (low === high) [low, high] = [Math.min(low, 0), Math.max(high, 0)];
  const margin = 0.06 * (high - low);
  return margin ? [low - margin, high + margin] : [-0.06, 1.06];
}

function extent(values) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  return known.length ? withMargin([Math.min(...known), Math.max(...known)]) : [0, 1];
}

// A limit is a solid dark line with its number, on the side where there is room; what lies beyond it is shaded.
function limitMarks(limits, along, [low, high]) {
  const across = along === "y" ? "x" : "y";
  const line = (limit) => ({
    type: "line", [`${across}ref`]: "paper", [`${across}0`]: 0, [`${across}1`]: 1, [`${along}0`]: limit,
    [`${along}1`]: limit, line: { color: INK, width: 1.6 },
  });
  const beyond = limits.length ? [{
    type: "rect", layer: "below", line: { width: 0 }, fillcolor: OVER, opacity: 0.07, [`${across}ref`]: "paper",
    [`${across}0`]: 0, [`${across}1`]: 1, [`${along}0`]: Math.max(...limits), [`${along}1`]: 1e12,
  }] : [];
  const atTheEnd = (limit) => along === "x" && (limit - low) / (high - low) > 0.7;
  const label = (limit) => ({
    text: `limit ${Number(limit.toPrecision(4))}`, showarrow: false, font: { size: 11, color: INK }, [`${along}`]: limit,
    bgcolor: "rgba(255,255,255,0.75)", borderpad: 1,
    [`${across}ref`]: "paper", [across]: along === "y" ? 0.01 : 1, xanchor: atTheEnd(limit) ? "right" : "left",
    yanchor: along === "y" ? "bottom" : "top", xshift: along === "y" ? 0 : atTheEnd(limit) ? -4 : 4,
  });
  return { shapes: [...beyond, ...limits.map(line)], annotations: limits.map(label) };
}

// In the middle of a plot without a curve or a dot: why there is none.
function nothing(text) {
  return { text, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 };
}

function rgba(colour, opacity) {
  const channels = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgba(${channels.join(",")},${opacity})`;
}

function curveTraces(group, metric, opacity) {
  const curve = group.curves[state.xAxis][metric], style = data.styles[group.label];
  if (!curve) return [];
  const edge = { x: curve.x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", type: "scatter" };
  const band = curve.low ? [
    { ...edge, y: curve.low },
    { ...edge, y: curve.high, fill: "tonexty", fillcolor: rgba(style.colour, opacity) },
  ] : [];
  const line = {
    x: curve.x, y: curve.mean, customdata: curve.seeds, name: group.label, type: "scatter",
    mode: curve.x.length === 1 ? "markers" : "lines", marker: { color: style.colour, size: 8 },
    line: { color: style.colour, dash: style.dash, width: 2 },
    hovertemplate: `<b>${escaped(group.label)}</b><br>%{y:.5g} at %{x:.4s}<br>%{customdata} seed(s)<extra></extra>`,
  };
  return [...band, line];
}

function drawPanel(plot, task, panel) {
  const groups = shown(task), curves = groups.map((group) => group.curves[state.xAxis][panel.metric]).filter(Boolean);
  const range = extent([...curves.flatMap((curve) => curve.range), ...panel.limits]);
  const limits = limitMarks(panel.limits, "y", range);
  const traces = groups.flatMap((group) => curveTraces(group, panel.metric, groups.length > 5 ? 0.05 : 0.15));
  const hasCurves = task.groups.some((group) => group.curves[state.xAxis][panel.metric]);
  if (!hasCurves) limits.annotations.push(nothing(panel.missing));
  const x = axis(data.xTitles[state.xAxis], {
    showgrid: false, exponentformat: "SI", showline: true, showticklabels: hasCurves,
  });
  Plotly.react(plot, traces, layout(x, axis("", { range }), limits), CONFIG);
}

function drawScatter(plot, task, panel) {
  const name = panel.metric.slice("cost/".length), groups = shown(task);
  const dots = groups.map((group) => {
    const style = data.styles[group.label], dots = group.dots.filter((dot) => name in dot.costs);
    return {
      x: dots.map((dot) => dot.costs[name]), y: dots.map((dot) => dot.reward), text: dots.map((dot) => `seed ${dot.seed}`),
      mode: "markers", type: "scatter", name: group.label,
      marker: { color: rgba(style.colour, 0.75), symbol: style.symbol, size: style.symbol === "circle" ? 10 : 11, line: { color: "#fff", width: 1 } },
      hovertemplate: `<b>${escaped(group.label)}</b>, %{text}<br>reward %{y:.5g}<br>cost %{x:.5g}<extra></extra>`,
    };
  });
  const crosses = publishedOnce(groups).map(({ algorithm, published, colour }) => ({
    x: [published.cost], y: [published.reward], mode: "markers", type: "scatter",
    error_x: interval(published.cost_interval, colour), error_y: interval(published.reward_interval, colour),
    marker: { color: colour, symbol: "cross-thin-open", size: 11, line: { width: 2, color: colour } },
    hovertemplate: `<b>${escaped(algorithm)}</b>, ${escaped(published.source)}<br>reward %{y:.5g}<br>cost %{x:.5g}<extra></extra>`,
  }));
  const traces = [...crosses, ...dots];
  const reach = (axis, error) => traces.flatMap((trace) => trace[axis].flatMap((value) =>
    [value - (trace[error]?.array[0] ?? 0), value + (trace[error]?.array[0] ?? 0)]));
  const costs = reach("x", "error_x"), rewards = reach("y", "error_y");
  const range = extent([...costs, ...panel.limits]);
  const y = axis("reward", { range: extent(rewards) });
  const limits = limitMarks(panel.limits, "x", range);
  if (task.groups.every((group) => !group.dots.length)) limits.annotations.push(nothing(panel.missing));
  Plotly.react(plot, traces, layout(axis(panel.title, { range, showline: true }), y, limits), CONFIG);
}

// What was published of an algorithm, once for all its groups: in its colour, or dark if there are several.
function publishedOnce(groups) {
  const found = new Map();
  for (const group of groups.filter((each) => each.published)) {
    const before = found.get(group.algorithm), colour = before ? INK : data.styles[group.label].colour;
    found.set(group.algorithm, { algorithm: group.algorithm, published: group.published, colour });
  }
  return [...found.values()];
}

function interval(half, colour) {
  return { type: "data", array: [half ?? 0], visible: half !== null, thickness: 1.2, width: 0, color: colour };
}

function drawHeatmap(plot, found, values, format, colours) {
  if (innerWidth <= 760 && found.rows.length === 1) {  // on a narrow screen from top to bottom, where the numbers fit
    const turned = { columns: found.rows, rows: found.columns, column_setting: "", row_setting: found.column_setting };
    return drawHeatmap(plot, turned, values[0].map((value) => [value]), format, colours);
  }
  const text = values.map((row) => row.map((value) => (value === null ? "" : format(value))));
  const trace = {
    type: "heatmap", z: values, x: found.columns, y: found.rows, text, texttemplate: "%{text}", xgap: 2, ygap: 2,
    hovertemplate: "%{text}<extra></extra>", ...colours,
    colorbar: { thickness: 10, outlinewidth: 0, tickfont: { size: 10, color: SOFT }, tickformat: colours.tickformat },
  };
  delete trace.tickformat;
  const categories = { type: "category", showgrid: false, ticks: "" };
  const rows = { ...categories, autorange: found.row_setting === "algorithm" ? "reversed" : true };  // names from the top
  Plotly.react(plot, [trace], layout(axis(found.column_setting, categories), axis(found.row_setting, rows)), CONFIG);
}

function escaped(text) {
  return text.replace(/[&<>]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[letter]);
}

// ---- the page

// A plot for each wanted title; plots that stay are drawn into again.
function plotsIn(holder, titles) {
  const wanted = JSON.stringify(titles);
  if (holder.dataset.titles !== wanted) {
    holder.querySelectorAll(".plot > div").forEach((plot) => Plotly.purge(plot));
    holder.replaceChildren(...titles.map((title) =>
      element("div", { class: "plot" }, element("h3", {}, title), element("div"))));
    holder.dataset.titles = wanted;
  }
  return [...holder.querySelectorAll(".plot > div")];
}

function drawSensitivity(task) {
  // one scale for all algorithms; of cost at least ±20%, so that a percent is no strong colour
  const known = (what) => task.sensitivity.flatMap((found) => found[what].flat()).filter((value) => value !== null);
  const away = Math.max(0.2, ...known("cost").map((value) => Math.abs(value - 1)));
  const zmin = Math.max(0, 1 - away), zmax = 1 + away;
  const RATIO = {
    colorscale: [[0, "#0072B2"], [(1 - zmin) / (zmax - zmin), "#ffffff"], [1, OVER]], zmin, zmax, tickformat: ".0%",
  };
  const REWARD = { colorscale: "Cividis", zmin: Math.min(...known("reward")), zmax: Math.max(...known("reward")) };
  const title = (found, what) => (found.algorithm ? `${found.algorithm}: ${what.toLowerCase()}` : what);
  const titles = task.sensitivity.flatMap((found) => [title(found, "Reward"), title(found, "Cost, share of its limit")]);
  const plots = plotsIn(byId("heatmaps"), titles);
  task.sensitivity.forEach((found, i) => {
    drawHeatmap(plots[2 * i], found, found.reward, (value) => value.toPrecision(4), REWARD);
    drawHeatmap(plots[2 * i + 1], found, found.cost, (value) => `${(100 * value).toFixed(0)}%`, RATIO);
  });
  byId("sensitivity").hidden = !task.sensitivity.length;
}

function draw() {
  const task = currentTask();
  if (!task) return;
  drawControls();
  plotsIn(byId("curves"), task.panels.map((panel) => panel.title))
    .forEach((plot, i) => drawPanel(plot, task, task.panels[i]));
  const costs = task.panels.filter((panel) => panel.metric.startsWith("cost/"));
  plotsIn(byId("scatters"), costs.map((panel) => panel.title))
    .forEach((plot, i) => drawScatter(plot, task, costs[i]));
  byId("reward-against-cost").hidden = !costs.length;
  drawSensitivity(task);
  for (const part of document.querySelectorAll("[data-task]")) part.hidden = part.dataset.task !== task.name;
}

byId("x-axis").append(...Object.entries(data.xTitles).map(([value, title]) => element("option", { value }, title)));
byId("x-axis").addEventListener("change", (event) => change(() => { state.xAxis = event.target.value; }));
byId("all").addEventListener("click", () => change(() => state.hidden.clear()));
byId("none").addEventListener("click", () => change(() => currentTask().groups.forEach((group) => state.hidden.add(group.label))));
if (data.refreshSeconds) {
  byId("refreshing").textContent = ` · refreshes every ${data.refreshSeconds} s`;
  setTimeout(() => location.reload(), 1000 * data.refreshSeconds);
}
draw();
