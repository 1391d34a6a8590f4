// What the page does: it reads a choice from the address, completes it to one that was measured, and shows that.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
// The parts of a choice, as the address names them; those that a view does not need stay for the others.
const KEYS = ["view", "machine", "workload", "size", "metric", "study", "beside", "over", "modes", "claim"];
const VIEWS = ["compile", "compare", "claims", "trust", "download"];
// What is shown where nothing is chosen, if it was measured.
const FIRST = { view: "compile", workload: "softmax/float16", size: "4096", metric: "latency" };
const SHARED = ["compile", "compile-reduce-overhead", "compile-max-autotune", "cuda-graph", "triton"];
const ALL = "all";
const COMPILED = "compile";
const BLANK = "–";
// Vega's shapes as letters.
const GLYPHS = {
  circle: "●", square: "■", diamond: "◆", cross: "✚", wedge: "★",
  "triangle-up": "▲", "triangle-down": "▼", "triangle-left": "◀", "triangle-right": "▶",
};
let choice = {};

const byId = (id) => document.getElementById(id);
const unique = (values) => [...new Set(values)];

// The tables

/** Return the rows of a study's table as objects; places in the list of words become words. */
function rowsOf(study, table) {
  const unpack = (row) => DATA.columns[table].map((name, place) =>
    [name, DATA.coded.includes(name) ? DATA.words[row[place]] : row[place]]);
  study.unpacked ??= {};
  return (study.unpacked[table] ??= study[table].map((row) => Object.fromEntries(unpack(row))));
}

/** Return the rows of a study's table that have these values. */
function select(study, table, where) {
  const wanted = Object.entries(where);
  return rowsOf(study, table).filter((row) => wanted.every(([name, value]) => row[name] === value));
}

// A workload is an op in a dtype.
const split = (workload) => { const [op, dtype] = workload.split("/"); return { op, dtype }; };
const nameWorkload = (workload) => { const { op, dtype } = split(workload); return `${DATA.names[op]}, ${dtype}`; };
const studyNamed = (label) => DATA.studies.find((study) => study.label === label);

function nameCell({ op, dtype, size }) {
  return `${size === ALL ? `${DATA.names[op]}, mean over all sizes` : DATA.cells[`${op} ${size}`]}, ${dtype}`;
}

function workloadsOf(study) {
  return (study.workloads ??= unique(rowsOf(study, "speedups").map(({ op, dtype }) => `${op}/${dtype}`)));
}

function workloadsOn(machine) {
  return unique(studiesOf(machine).flatMap(workloadsOf));
}

/** Return the studies of a machine, or those of them that measured a workload. */
function studiesOf(machine, workload) {
  const own = DATA.studies.filter((study) => study.machine === machine);
  return workload ? own.filter((study) => workloadsOf(study).includes(workload)) : own;
}

/** Return the sizes of a workload in the order of its study, and ALL after several. */
function sizesOf(study, workload) {
  const measured = new Set(select(study, "estimates", split(workload)).map((row) => row.size));
  const sizes = study.sizes[split(workload).op].filter((size) => measured.has(size));
  return sizes.length > 1 ? [...sizes, ALL] : sizes;
}

function metricsOf(study, workload, view) {
  const measured = new Set(select(study, "speedups", split(workload)).map((row) => row.metric));
  const shown = view === "compare" ? Object.keys(DATA.metrics) : DATA.ranked;
  return shown.filter((metric) => measured.has(metric));
}

/** Return the same workload on another machine: the op in the same dtype, or else in another. */
function twinOf(machine, workload) {
  const there = workloadsOn(machine);
  return there.includes(workload) ? workload : there.find((other) => split(other).op === split(workload).op);
}

// The choice

/** Return `wanted` if it is there, else `first`, else the first that there is. */
const pick = (wanted, there, first) => [wanted, first].find((value) => there.includes(value)) ?? there[0];

/** Complete a choice to one that was measured. */
function settle(wanted) {
  const machines = Object.keys(DATA.devices);
  const found = { ...wanted, view: pick(wanted.view, VIEWS, FIRST.view), machine: pick(wanted.machine, machines) };
  const twin = wanted.workload && twinOf(found.machine, wanted.workload);
  found.workload = pick(twin, workloadsOn(found.machine), FIRST.workload);
  found.study = pick(wanted.study, studiesOf(found.machine, found.workload).map((study) => study.label));
  const study = studyNamed(found.study);
  found.size = pick(wanted.size, sizesOf(study, found.workload), FIRST.size);
  found.metric = pick(wanted.metric, metricsOf(study, found.workload, found.view), FIRST.metric);
  found.over = pick(wanted.over, study.baselines);
  found.beside = pick(wanted.beside, ["", ...machines.filter((machine) => machine !== found.machine)], "");
  found.modes = settleModes(found, wanted.modes).join(",");
  return found;
}

function settleModes(found, wanted) {
  const there = modesToCompare(found);
  const chosen = (wanted ?? "").split(",").filter((mode) => there.includes(mode));
  const usual = there.filter((mode) => SHARED.includes(mode));
  return [chosen, usual, there].find((modes) => modes.length) ?? [];
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(KEYS.filter((key) => given.has(key)).map((key) => [key, given.get(key)]));
}

function addressOf(of) {
  return `#${new URLSearchParams(KEYS.filter((key) => of[key]).map((key) => [key, of[key]]))}`;
}

/** Change parts of the choice, and show what is chosen then. */
function choose(parts) {
  choice = settle({ ...choice, ...parts });
  history.replaceState(null, "", addressOf(choice));
  show();
}

// Elements

/** Return an element with attributes, listeners (`onclick`) and children; a text stays a text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter(Boolean));
  return element;
}

const small = (text) => text && make("small", {}, text);
const muted = (text) => make("p", { class: "muted" }, text);
const code = (text, kind) => make("pre", { tabindex: "0", class: kind }, text);

/** Return a table of rows; columns: {head, text and, where it is sorted by another value, sort (of a row), kind}. */
function makeTable(caption, columns, rows, isBest = () => false) {
  const heads = columns.map(({ head, kind }) => make("th", { scope: "col", class: kind }, head));
  const lines = rows.map((row) => make("tr", { class: isBest(row) && "best", "data-row": row.mode },
    columns.map((column, place) => makeCell(column, row, !place))));
  const parts = [make("caption", {}, caption), make("thead", {}, make("tr", {}, heads)), make("tbody", {}, lines)];
  const table = make("table", { class: "sortable" }, parts);
  makeSortable(table);
  return table;
}

function makeCell({ head, text, sort, kind }, row, isFirst) {
  const given = { class: kind, "data-sort": sort?.(row) };
  if (isFirst) return make("th", { scope: "row", ...given }, text(row));
  return make("td", { "data-label": head, ...given }, make("span", {}, text(row)));
}

/** Let the heads of a table sort it. */
function makeSortable(table) {
  table.querySelectorAll("thead th").forEach((head, place) => {
    const sort = () => sortTable(table, head, place);
    head.replaceChildren(make("button", { type: "button", onclick: sort }, [...head.childNodes]));
  });
}

/** Sort a table by a column, upwards and, the next time, downwards. */
function sortTable(table, head, place) {
  const up = head.getAttribute("aria-sort") !== "ascending";
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const valueOf = (row) => row.cells[place].dataset.sort ?? row.cells[place].textContent.trim();
  const texts = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => (isNaN(a) || isNaN(b) ? texts.compare(a, b) : a - b);
  const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? 1 : -1) * compare(valueOf(a), valueOf(b)));
  table.tBodies[0].append(...rows);
}

/** Draw rows by one of the charts, and return its view. */
async function draw(element, name, rows, domain) {
  const spec = structuredClone(DATA.specs[name]);
  spec.datasets = { ...spec.datasets, rows };
  const parameter = spec.params?.find((each) => each.name === "domain");
  if (parameter) parameter.value = domain;
  // Names have at most half of a narrow page.
  spec.config.axisY = { labelLimit: Math.max(110, element.clientWidth * 0.45) };
  return (await vegaEmbed(element, spec, { renderer: "svg", actions: false })).view;
}

// The controls

const plain = (value, label = value) => ({ value, label });
const isElsewhere = (element) => ![undefined, choice.view].includes(element.closest("[data-of]")?.dataset.of);

/** Fill in buttons of which one is chosen or, with `several`, any number; options: {value, label, look}. */
function fillChips(name, options, several = false) {
  const place = document.querySelector(`.chips[data-choice="${name}"]`);
  const focused = place.contains(document.activeElement) && document.activeElement.value;
  place.replaceChildren(...options.map((option) => makeChip(name, option, several)));
  place.parentElement.hidden = !options.length || isElsewhere(place);
  if (focused) place.querySelector(`input[value="${CSS.escape(focused)}"]`)?.focus();
}

function makeChip(name, { value, label, look }, several) {
  const chosen = choice[name].split(",");
  const toggle = () => (chosen.includes(value) ? chosen.filter((each) => each !== value) : [...chosen, value]);
  const onchange = () => choose({ [name]: several ? toggle().join(",") : value });
  const type = several ? "checkbox" : "radio";
  const glyph = look && { "data-glyph": GLYPHS[look.shape], style: `--glyph: ${look.colour}` };
  const input = make("input", { type, name, value, checked: chosen.includes(value), onchange });
  return make("label", {}, input, make("span", glyph, label));
}

/** Fill in a list, and hide one that leaves no choice; groups: {label, options}. */
function fillSelect(name, groups, value = choice[name]) {
  const list = document.querySelector(`select[data-choice="${name}"]`);
  const option = (each) => make("option", { value: each.value, selected: each.value === value }, each.label);
  list.replaceChildren(...groups.flatMap(({ label, options }) =>
    label ? [make("optgroup", { label }, options.map(option))] : options.map(option)));
  list.parentElement.hidden = list.options.length < 2 || isElsewhere(list);
}

function fillControls() {
  const { machine, workload, view } = choice;
  const study = studyNamed(choice.study);
  const devices = Object.entries(DATA.devices);
  byId("choices").hidden = !["compile", "compare"].includes(view);
  fillChips("machine", devices.map(([value, device]) => plain(value, device)));
  fillChips("metric", metricsOf(study, workload, view).map((metric) => plain(metric, DATA.metrics[metric])));
  fillChips("size", sizesOf(study, workload).map((size) => plain(size, DATA.sizes[size])));
  fillChips("modes", modesToCompare(choice).map((mode) => ({ ...plain(mode), look: DATA.looks[mode] })), true);
  fillSelect("workload", groupWorkloads(), `${machine} ${workload}`);
  fillSelect("study", [{ options: studiesOf(machine, workload).map(({ label }) => plain(label)) }]);
  fillSelect("over", [{ options: study.baselines.map((mode) => plain(mode)) }]);
  const others = devices.filter(([other]) => other !== machine && twinOf(other, workload));
  fillSelect("beside", [{ options: [plain("", "nothing"), ...others.map(([other, device]) => plain(other, device))] }]);
}

/** Return the workloads by machine, the chosen one first; a workload of another chooses that as well. */
function groupWorkloads() {
  const machines = Object.keys(DATA.devices).sort((a, b) => (b === choice.machine) - (a === choice.machine));
  const optionsOf = (machine) => workloadsOn(machine).map((name) => plain(`${machine} ${name}`, nameWorkload(name)));
  return machines.map((machine) => ({ label: DATA.devices[machine], options: optionsOf(machine) }));
}

function listenToSelects() {
  document.querySelectorAll("select[data-choice]").forEach((list) => list.addEventListener("change", () => {
    const [machine, workload] = list.value.split(" ");
    choose(workload ? { machine, workload, study: undefined } : { [list.dataset.choice]: list.value });
  }));
}

// Should I compile?

function showCompile() {
  const study = studyNamed(choice.study);
  const cell = { ...split(choice.workload), size: choice.size, metric: choice.metric };
  const rows = listRanked(study, cell);
  const answer = findAnswer(study, cell, rows);
  showAnswer(study, cell, answer);
  draw(byId("ranking-chart"), "ranking", rows.filter((row) => row.speedup));
  byId("ranking").replaceChildren(makeRanking(study, rows, answer));
}

/** Return the modes of a cell with their speedups over the study's baseline and that itself, the best first. */
function listRanked(study, cell) {
  const [baseline] = study.baselines;
  const estimates = Object.fromEntries(select(study, "estimates", cell).map((row) => [row.mode, row]));
  const one = { mode: baseline, speedup: 1, low: 1, high: 1, text: "1", verdict: "" };
  const itself = { status: "ok", ...estimates[baseline], ...one };
  const others = select(study, "speedups", { ...cell, baseline }).filter((row) => study.modes.includes(row.mode));
  // A study may compare with a mode that it did not run in this cell; a mean over sizes has no estimates.
  const first = estimates[baseline] || others.length ? [itself] : [];
  const rows = [...first, ...others.map((row) => ({ ...row, said: estimates[row.mode]?.said }))];
  return rows.sort((a, b) => (b.speedup ?? -1) - (a.speedup ?? -1));
}

/** Return {mode, ties, reason, code, row}: the recommendation or, where none is made, the best that is shown to be. */
function findAnswer(study, cell, rows) {
  const best = rows.find((row) => row.verdict === "faster")?.mode ?? study.baselines[0];
  const [found = { mode: best, ties: [], reason: "", code: "" }] = select(study, "answers", cell);
  const rowOf = (mode) => rows.find((row) => row.mode === mode);
  return { ...found, row: rowOf(found.mode), compiled: found.mode === COMPILED ? undefined : rowOf(COMPILED) };
}

function showAnswer(study, cell, { mode, ties, reason, code: lines, row, compiled }) {
  const stays = !mode || mode === study.baselines[0];
  const nothing = reason ? "leave it as it is" : "no mode is shown to be better";
  const gain = !mode ? "no recommendation" : stays ? nothing : `${row.text} ${DATA.gains[cell.metric]}`;
  const tied = `Not shown to be slower, but with a longer first call: ${ties.join(", ")}.`;
  const card = byId("answer");
  card.classList.toggle("stay", stays);
  card.dataset.mode = mode;
  card.replaceChildren(...[
    make("h3", {}, `${nameCell(cell)}, ${DATA.devices[study.machine]}: ${DATA.metrics[cell.metric]}`),
    make("p", { class: "mode" }, mode || BLANK),
    make("p", { class: "gain" }, gain),
    reason && make("p", {}, `${reason[0].toUpperCase()}${reason.slice(1)}.`),
    // The question is about compiling, also where another mode is the answer.
    compiled?.text && make("p", {}, `${COMPILED}: ${compiled.text} ${DATA.gains[cell.metric]}`),
    ties.length && muted(tied),
    lines && code(lines),
  ].filter(Boolean));
}

/** Return the table of the modes, without columns that are empty. */
function makeRanking(study, rows, answer) {
  const optional = [
    { head: DATA.metrics[choice.metric], key: "said" },
    { head: "cause", key: "cause", kind: "text" },
    { head: "pays back after (calls)", key: "paid" },
    { head: "law", key: "law" },
    { head: "n", key: "n" },
  ].filter(({ key }) => rows.some((row) => row[key]));
  const columns = [
    { head: "mode", kind: "text", text: (row) => [row.mode, small(noteOf(row))] },
    { head: `speedup over ${study.baselines[0]}`, text: sayVerdict, sort: (row) => row.speedup ?? 0 },
    ...optional.map((column) => ({ ...column, text: (row) => String(row[column.key] || BLANK) })),
  ];
  return makeTable("All modes, the best first", columns, rows, (row) => row.mode === answer.mode);
}

const sayVerdict = (row) => [row.text || BLANK, small(DATA.verdicts[row.verdict])];

/** Return why a row has no value, or what to know of it. */
function noteOf({ status, note }) {
  return [status === "ok" ? "" : DATA.statuses[status] ?? status, note].filter(Boolean).join(": ");
}

// Compare

/** Return the {study, workload} of each panel. */
function panelsOf({ study, workload, beside }) {
  const twin = beside && twinOf(beside, workload);
  const panels = [{ study: studyNamed(study), workload }];
  return twin ? [...panels, { study: studiesOf(beside, twin)[0], workload: twin }] : panels;
}

/** Return the rows of a panel that have a value at a size. */
function listCompared({ study, workload }, { over, metric }) {
  const rows = select(study, "speedups", { ...split(workload), baseline: over, metric });
  return rows.filter((row) => row.speedup && row.size !== ALL);
}

function modesToCompare(of) {
  return unique(panelsOf(of).flatMap((panel) => listCompared(panel, of)).map((row) => row.mode));
}

function showCompare() {
  const modes = choice.modes.split(",");
  const panels = panelsOf(choice).map((panel) => {
    const own = listCompared(panel, choice).filter((row) => modes.includes(row.mode));
    return { ...panel, rows: own.map((row) => describePoint(panel.study, row)) };
  });
  const rows = panels.flatMap((panel) => panel.rows);
  const bounds = rows.flatMap((row) => [row.low, row.high]);
  const domain = [Math.min(1, ...bounds) / 1.06, Math.max(1, ...bounds) * 1.06];
  byId("point").hidden = true;
  byId("panels").replaceChildren(...panels.map((panel) => makePanel(panel, domain)));
  byId("compared").replaceChildren(makeComparison(rows, panels.length > 1));
}

function makePanel({ study, workload, rows }, domain) {
  const title = make("h3", {}, `${nameWorkload(workload)}, ${DATA.devices[study.machine]}`);
  if (!rows.length) return make("div", { class: "panel" }, title, muted("Nothing was measured here."));
  const label = "Speedup against size; the table has the same numbers";
  const chart = make("div", { class: "chart", role: "group", "aria-label": label });
  // Once it is on the page and has a width.
  requestAnimationFrame(() => drawPanel(chart, rows, domain));
  return make("div", { class: "panel" }, title, chart);
}

async function drawPanel(chart, rows, domain) {
  const view = await draw(chart, "sizes", rows, domain);
  view.addEventListener("click", (_, item) => item?.datum?.command && showPoint(item.datum));
}

/** Return a row with all that a point of the chart shows. */
function describePoint(study, row) {
  const { op, dtype, size, mode, metric, baseline } = row;
  const [estimate] = select(study, "estimates", { op, dtype, size, mode, metric });
  const repeats = `{0..${study.repeats - 1}}`;
  const records = `results/${study.label}/records/${op}/${dtype}/${size}/{${baseline},${mode}}/${repeats}.json`;
  const gpu = study.machine.startsWith("cpu") ? "" : " --resources gpu=1";
  return {
    ...row,
    ...DATA.looks[mode],
    // A single repeat has no interval.
    low: row.low ?? row.speedup,
    high: row.high ?? row.speedup,
    shown: DATA.sizes[size],
    samples: estimate?.samples ?? "",
    device: DATA.devices[study.machine],
    study: study.label,
    command: `snakemake ${records} --cores 1${gpu} --configfile results/recorded/${study.label}/study.yaml`,
  };
}

function showPoint(row) {
  const box = byId("point");
  const verdict = DATA.verdicts[row.verdict] ?? "no verdict";
  const said = {
    speedup: `${row.text} over ${row.baseline}, ${verdict}`,
    repeats: row.n,
    "samples each": row.samples,
    cause: row.cause,
    note: row.note,
    study: row.study,
  };
  const known = Object.entries(said).filter(([, value]) => value);
  box.replaceChildren(
    make("h3", {}, `${nameCell(row)}, ${row.mode}, ${row.device}`),
    make("dl", {}, known.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))])),
    make("p", {}, "Measure it again:"),
    code(row.command, "command"));
  box.hidden = false;
  box.scrollIntoView({ block: "nearest" });
}

function makeComparison(rows, isOfTwo) {
  const columns = [
    { head: "mode", kind: "text", text: (row) => row.mode },
    { head: "device", kind: "text", text: (row) => row.device },
    { head: "size", text: (row) => row.shown },
    { head: `speedup over ${choice.over}`, text: sayVerdict, sort: (row) => row.speedup },
    { head: "cause", kind: "text", text: (row) => row.cause || BLANK },
    { head: "n", text: (row) => String(row.n) },
    { head: "samples each", text: (row) => String(row.samples || BLANK) },
    { head: "again", text: makeCommandButton },
  ].filter(({ head }) => isOfTwo || head !== "device");
  return makeTable(`${DATA.metrics[choice.metric]}: speedups over ${choice.over}`, columns, rows);
}

function makeCommandButton(row) {
  const which = make("span", { class: "hidden" }, ` for ${row.mode} at ${row.shown}`);
  return make("button", { type: "button", onclick: () => showPoint(row) }, "command", which);
}

// Claims

/** Draw the figure of each claim that is opened, and put the claim into the address. */
function listenToClaims() {
  document.querySelectorAll("details[data-claim]").forEach((details) => details.addEventListener("toggle", () => {
    if (!details.open) return;
    drawClaim(details);
    choose({ claim: details.dataset.claim });
  }));
}

function drawClaim(details) {
  const { axis, rows } = DATA.claims[details.dataset.claim];
  const panel = details.querySelector(".panel");
  if (panel.childElementCount || !rows.length) return;
  const chart = make("div", { class: "chart", role: "img", "aria-label": `${axis} of ${rows.length} rows` });
  panel.append(muted(`${axis}, with intervals`), chart);
  draw(chart, axis === "speedup" ? "factors" : "values", rows);
}

/** Open the claim that the address names. */
function showClaims() {
  const details = choice.claim && document.querySelector(`details[data-claim="${CSS.escape(choice.claim)}"]`);
  if (!details || details.open) return;
  details.open = true;
  details.scrollIntoView({ block: "center" });
}

// All of it

function show() {
  document.querySelectorAll("section.view").forEach((section) => { section.hidden = section.id !== choice.view; });
  document.querySelectorAll("nav a").forEach((link) => {
    const { view } = link.dataset;
    link.href = addressOf({ ...choice, view });
    if (view === choice.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  byId("link").href = addressOf(choice);
  fillControls();
  ({ compile: showCompile, compare: showCompare, claims: showClaims })[choice.view]?.();
}

function restore() {
  choice = settle(readAddress());
  show();
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
listenToSelects();
listenToClaims();
window.addEventListener("hashchange", restore);
restore();
