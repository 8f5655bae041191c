// Controls of the playground: the bar below the plane, and the groups beside it. `p` is the playground.

import { copyLink, download } from "./data.js";
import { button, choices, field, fill, group, h } from "./dom.js";
import { showMultiples, showTour } from "./panels.js";
import { UNMASKED } from "./scene.js";

const EXPORTS = { png: "PNG", svg: "SVG", gif: "GIF movie", html: "Page", csv: "CSV", json: "JSON", py: "Python" };

export function makeBar(p) {
  const named = (text, title, onclick, className = "") => button(text, onclick, { className, title, ariaLabel: title });
  p.play = named("▶ Play", "Play", () => (p.timer === null ? p.start() : p.stop()), "hm-play");
  const scrub = () => {
    p.show(Number(p.range.value));
    p.settle(true);
  };
  const range = { type: "range", min: 0, max: 1, step: 1, ariaLabel: "Layer" };
  p.range = h("input", { ...range, oninput: scrub, onchange: () => p.settle() });
  p.label = h("output", { className: "hm-layer" });
  p.undoButton = named("↶", "Undo", () => p.undo());
  p.redoButton = named("↷", "Redo", () => p.redo());
  p.addButton = named("Add", "Add a token", () => p.addToken(p.picture.box.map(([low, high]) => (low + high) / 2)));
  p.removeButton = named("Delete", "Delete the selected token", () => p.removeToken());
  const speeds = ["0.5", "1", "2", "4"].map((value) => [value, `${value}×`]);
  const speed = choices(speeds, "1", (value) => (p.speed = Number(value)), { ariaLabel: "Speed" });
  const back = named("◀", "One layer back", () => p.stepBy(-1));
  const forward = named("▶", "One layer forward", () => p.stepBy(1));
  const again = named("⟲", "Start again with new random tokens", () => p.shuffle());
  const fit = named("Fit", "Show all tokens", () => p.fit());
  return h(
    "div",
    { className: "hm-bar" },
    h("div", { className: "hm-playback" }, p.play, back, forward, p.range, p.label, speed, again),
    h("div", { className: "hm-editing" }, p.addButton, p.removeButton, p.undoButton, p.redoButton, fit),
  );
}

export function makeControls(p) {
  const tour = button("Take the tour", () => showTour(p, 0), { className: "hm-tour-button" });
  fill(p.controls, tour, makeRule(p), makeTokenChoice(p), makeShow(p), makeControl(p), makeOutput(p));
}

function makeRule(p) {
  const { options, scene } = p;
  const number = (name, min, max, step, label) => {
    const change = (quick) => p.change({ [name]: Number(input.value) }, { quick });
    const limits = { type: "range", min, max, step, value: scene[name] };
    const input = h("input", { ...limits, oninput: () => change(true), onchange: () => change(false) });
    const output = h("output", {}, `${scene[name]}`);
    p.shownValues[name] = [input, output];
    const row = field(label, input);
    row.append(output);
    return row;
  };
  p.shownValues = {};
  const rules = options.rules.map((rule) => [rule, rule]);
  p.rule = choices(rules, scene.rule, (rule) => p.change(UNMASKED.includes(rule) ? { rule, causal: false } : { rule }));
  const mask = () => p.change({ causal: p.causal.checked });
  p.causal = h("input", { type: "checkbox", checked: scene.causal, onchange: mask });
  p.parameters = {
    alpha: number("alpha", 0.05, 5, 0.05, "Step size alpha"),
    temperature: number("temperature", 0, 2, 0.02, "Temperature"),
    beta: number("beta", 0.5, 60, 0.5, "Inverse temperature beta"),
    layers: number("layers", 1, 100, 1, "Layers"),
    time: number("time", 0.5, 30, 0.5, "Time"),
  };
  const entries = (labels, steps, onchange) =>
    labels.map((ariaLabel, k) => h("input", { type: "number", step: steps[k], ariaLabel, onchange }));
  const numbers = (title, name, ...parts) =>
    h("div", { className: "hm-field hm-numbers" }, h("span", { title }, name), ...parts);
  p.A = entries(["A₁₁", "A₁₂", "A₂₂"], [0.1, 0.1, 0.1], () => p.changeA());
  p.parameters.A = numbers("a symmetric matrix", "A", ...p.A, button("Reset", () => p.change({ A: null })));
  const labels = ["First eigenvalue of V", "Second eigenvalue of V", "Angle of V"];
  p.V = entries(labels, [0.1, 0.1, 5], () => p.changeV());
  p.V.forEach((input, k) => (input.value = [1, 1, 0][k]));
  p.parameters.V = numbers("eigenvalues and angle in degrees", "V", ...p.V);
  const causal = h("label", { className: "hm-check" }, p.causal, " causal mask");
  return group("Rule", true, field("Rule", p.rule), ...Object.values(p.parameters), causal);
}

function makeTokenChoice(p) {
  const names = p.options.configurations.map((name) => [name, name]);
  const kind = choices(names, "triangle", (name) => p.configure(name));
  const onchange = () => p.configure(kind.value);
  const [n, d, seed] = [
    ["n", 40, 1, 20000],
    ["d", 2, 1, 16],
    ["seed", 0, 0, 9999],
  ].map(([ariaLabel, value, min, max]) => h("input", { type: "number", min, max, value, ariaLabel, onchange }));
  Object.assign(p, { kind, numbers: { n, d, seed } });
  const paste = h("textarea", { rows: 3, placeholder: "0.5, 1\n-1, 0.2", ariaLabel: "Rows of numbers" });
  const read = async () => p.readFile(file.files[0]);
  const accept = ".csv,.tsv,.txt,.json";
  const file = h("input", { type: "file", accept, ariaLabel: "File of tokens or a scene", onchange: read });
  return group(
    "Tokens",
    false,
    field("Configuration", kind),
    h("div", { className: "hm-field hm-numbers" }, h("span", {}, "n, d, seed"), n, d, seed),
    field("Paste rows of numbers", paste),
    button("Use these tokens", () => p.readTokens(paste.value)),
    field("Or open a file", file),
  );
}

function makeShow(p) {
  const choose = () => {
    const overlays = p.overlays.filter(([box]) => box.checked).map(([box]) => box.value);
    p.change({ overlays }, { remember: false });
  };
  p.overlays = Object.entries(p.options.overlays).map(([value, label]) => {
    const checked = p.scene.overlays.includes(value);
    const box = h("input", { type: "checkbox", value, checked, onchange: choose });
    return [box, h("label", { className: "hm-check" }, box, ` ${label}`)];
  });
  const multiples = button("Temperature by layer", () => showMultiples(p));
  return group("Show", false, ...p.overlays.map(([, label]) => label), multiples);
}

function makeControl(p) {
  p.leadButton = button("", () => p.toggleWanted());
  const find = button("Find A", () => p.findA(), { className: "hm-find" });
  const about = h("p", {}, "Select tokens that shall lead, and find a matrix A under which they do.");
  return group("Choose the leaders", false, about, p.leadButton, find);
}

function makeOutput(p) {
  const hidden = { rows: 6, readOnly: true, ariaLabel: "Lines of Python", spellcheck: false, hidden: true };
  p.code = h("textarea", hidden);
  const save = () => download(new Blob([JSON.stringify(p.plain())], { type: "application/json" }), "scene.json");
  const buttons = Object.entries(EXPORTS).map(([name, text]) => button(text, () => p.export(name)));
  const copy = button("Copy link", ({ target }) => copyLink(target, "s", p.plain(), (message) => p.warn(message)));
  const note = "PNG and SVG show what the plane shows. GIF movie and Page leave out overlays.";
  return group(
    "Export and share",
    false,
    h("div", { className: "hm-buttons" }, ...buttons, button("Scene", save), copy),
    h("p", { className: "hm-note" }, note),
    p.code,
  );
}
