// Controls of the playground: the bar below the plane, and the groups beside it. `p` is the playground.

import { download } from "./data.js";
import { choices, field, fill, group, h } from "./dom.js";
import { showMultiples, showTour } from "./panels.js";

const EXPORTS = { png: "PNG", svg: "SVG", gif: "GIF movie", html: "Page", csv: "CSV", json: "JSON", py: "Python" };

export function makeBar(p) {
  const button = (text, label, onclick, className = "") =>
    h("button", { type: "button", className, title: label, ariaLabel: label, onclick }, text);
  p.play = button("▶ Play", "Play", () => (p.timer === null ? p.start() : p.stop()), "hm-play");
  p.range = h("input", {
    type: "range",
    min: 0,
    max: 1,
    step: 1,
    ariaLabel: "Layer",
    oninput: () => p.show(Number(p.range.value)),
    onchange: () => p.settle(),
  });
  p.label = h("output", { className: "hm-layer" });
  p.undoButton = button("↶", "Undo", () => p.undo());
  p.redoButton = button("↷", "Redo", () => p.redo());
  p.addButton = button("Add", "Add a token", () => p.addToken(p.picture.box.map(([low, high]) => (low + high) / 2)));
  p.removeButton = button("Delete", "Delete the selected token", () => p.removeToken());
  const speed = choices(
    [
      ["0.5", "0.5×"],
      ["1", "1×"],
      ["2", "2×"],
      ["4", "4×"],
    ],
    "1",
    (value) => (p.speed = Number(value)),
    { ariaLabel: "Speed" },
  );
  return h(
    "div",
    { className: "hm-bar" },
    h(
      "div",
      { className: "hm-playback" },
      p.play,
      button("◀", "One layer back", () => p.stepBy(-1)),
      button("▶", "One layer forward", () => p.stepBy(1)),
      p.range,
      p.label,
      speed,
      button("⟲", "Start again with new random tokens", () => p.shuffle()),
    ),
    h(
      "div",
      { className: "hm-editing" },
      p.addButton,
      p.removeButton,
      p.undoButton,
      p.redoButton,
      button("Fit", "Show all tokens", () => p.fit()),
    ),
  );
}

export function makeControls(p) {
  const { options, scene } = p;
  const number = (name, min, max, step, label) => {
    const input = h("input", {
      type: "range",
      min,
      max,
      step,
      value: scene[name],
      oninput: () => p.change({ [name]: Number(input.value) }, { quick: true }),
      onchange: () => p.change({ [name]: Number(input.value) }),
    });
    const output = h("output", {}, `${scene[name]}`);
    p.shownValues[name] = [input, output];
    const row = field(label, input);
    row.append(output);
    return row;
  };
  p.shownValues = {};
  p.rule = choices(
    options.rules.map((rule) => [rule, rule]),
    scene.rule,
    (rule) => p.change({ rule }),
  );
  p.causal = h("input", {
    type: "checkbox",
    checked: scene.causal,
    onchange: () => p.change({ causal: p.causal.checked }),
  });
  p.parameters = {
    alpha: number("alpha", 0.05, 5, 0.05, "Step size alpha"),
    temperature: number("temperature", 0, 2, 0.02, "Temperature"),
    beta: number("beta", 0.5, 60, 0.5, "Inverse temperature beta"),
    layers: number("layers", 1, 100, 1, "Layers"),
    time: number("time", 0.5, 30, 0.5, "Time"),
  };
  p.A = [0, 1, 2].map((k) =>
    h("input", { type: "number", step: 0.1, ariaLabel: ["A₁₁", "A₁₂", "A₂₂"][k], onchange: () => p.changeA() }),
  );
  p.parameters.A = h(
    "div",
    { className: "hm-field hm-numbers" },
    h("span", {}, "A"),
    ...p.A,
    h("button", { type: "button", onclick: () => p.change({ A: null }) }, "Reset"),
  );
  p.V = ["First eigenvalue", "Second eigenvalue", "Angle"].map((label, k) =>
    h("input", {
      type: "number",
      step: k === 2 ? 5 : 0.1,
      value: [1, 1, 0][k],
      ariaLabel: `${label} of V`,
      onchange: () => p.changeV(),
    }),
  );
  p.parameters.V = h(
    "div",
    { className: "hm-field hm-numbers" },
    h("span", { title: "eigenvalues and angle in degrees" }, "V"),
    ...p.V,
  );
  const rule = group(
    "Rule",
    true,
    field("Rule", p.rule),
    ...Object.values(p.parameters),
    h("label", { className: "hm-check" }, p.causal, " causal mask"),
  );

  const kind = choices(
    options.configurations.map((name) => [name, name]),
    "triangle",
    (name) => p.configure(name),
  );
  const [n, d, seed] = [
    ["n", 40, 20000],
    ["d", 2, 16],
    ["seed", 0, 9999],
  ].map(([name, value, max]) =>
    h("input", {
      type: "number",
      min: name === "seed" ? 0 : 1,
      max,
      value,
      ariaLabel: name,
      onchange: () => p.configure(kind.value),
    }),
  );
  Object.assign(p, { kind, numbers: { n, d, seed } });
  const paste = h("textarea", { rows: 3, placeholder: "0.5, 1\n-1, 0.2", ariaLabel: "Rows of numbers" });
  const file = h("input", {
    type: "file",
    accept: ".csv,.tsv,.txt,.json",
    ariaLabel: "File of tokens or a scene",
    onchange: async () => p.readFile(file.files[0]),
  });
  const tokens = group(
    "Tokens",
    false,
    field("Configuration", kind),
    h("div", { className: "hm-field hm-numbers" }, h("span", {}, "n, d, seed"), n, d, seed),
    field("Paste rows of numbers", paste),
    h("button", { type: "button", onclick: () => p.readTokens(paste.value) }, "Use these tokens"),
    field("Or open a file", file),
  );

  p.overlays = Object.entries(options.overlays).map(([name, label]) => {
    const box = h("input", {
      type: "checkbox",
      value: name,
      checked: scene.overlays.includes(name),
      onchange: () =>
        p.change({ overlays: p.overlays.filter(([b]) => b.checked).map(([b]) => b.value) }, { remember: false }),
    });
    return [box, h("label", { className: "hm-check" }, box, ` ${label}`)];
  });
  const show = group(
    "Show",
    false,
    ...p.overlays.map(([, label]) => label),
    h("button", { type: "button", onclick: () => showMultiples(p) }, "Temperature by layer"),
  );

  p.lead = h("button", { type: "button", onclick: () => p.toggleWanted() }, "Shall lead");
  const control = group(
    "Choose the leaders",
    false,
    h("p", {}, "Select tokens that shall lead, and find a matrix A under which they do."),
    p.lead,
    h("button", { type: "button", className: "hm-find", onclick: () => p.findA() }, "Find A"),
  );
  p.code = h("textarea", {
    rows: 6,
    readOnly: true,
    ariaLabel: "Lines of Python",
    spellcheck: false,
    hidden: true,
  });
  const out = group(
    "Export and share",
    false,
    h(
      "div",
      { className: "hm-buttons" },
      ...Object.entries(EXPORTS).map(([name, text]) =>
        h("button", { type: "button", onclick: () => p.export(name) }, text),
      ),
      h(
        "button",
        {
          type: "button",
          onclick: () => download(new Blob([JSON.stringify(p.plain())], { type: "application/json" }), "scene.json"),
        },
        "Scene",
      ),
      h("button", { type: "button", className: "hm-copy", onclick: (event) => p.copyLink(event.target) }, "Copy link"),
    ),
    p.code,
  );
  const tour = h(
    "button",
    { type: "button", className: "hm-tour-button", onclick: () => showTour(p, 0) },
    "Take the tour",
  );
  fill(p.controls, tour, rule, tokens, show, control, out);
}
