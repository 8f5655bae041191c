// Panels beside the plane: verdict, selected token, attention, small multiples and tour. `p` is the playground.

import { button, field, fill, h, signed, table } from "./dom.js";

const OUTCOMES = { holds: "✓", fails: "✗" };

export function showVerdict(p, quick) {
  const { answer } = p;
  const title = answer.certified === true ? "Proved" : answer.certified === false ? "Not proved" : "Simulated";
  const parts = [
    h("h2", { className: answer.certified ? "hm-good" : "" }, title),
    h("p", { className: "hm-status", role: "status" }, answer.sentence),
    ...answer.notes.map((note) => h("p", { className: "hm-note" }, note)),
  ];
  if (answer.points.length) {
    const rows = answer.points.map(({ leader, cells: [name, ...others], members }) => {
      const first = leader === null ? name : [swatch(p, leader), `\u00a0${name}`];
      return linked(p, h("tr", {}, ...[first, ...others].map((cell) => h("td", {}, cell))), members);
    });
    parts.push(table(answer.columns, rows));
  }
  if (answer.verdicts && answer.verdicts.length) {
    const theorem = ({ name, outcome, reason }) => {
      const mark = h("span", { ariaHidden: "true" }, OUTCOMES[outcome] || "–");
      const summary = h("summary", {}, mark, ` ${name}: ${outcome}`);
      return h("details", { className: `hm-theorem hm-${outcome}` }, summary, h("p", {}, reason));
    };
    const old = quick ? "hm-old" : "";
    parts.push(h("h3", {}, quick ? "Theorems: checked when you let go" : "Theorems"));
    parts.push(h("div", { className: old }, ...answer.verdicts.map(theorem)));
  }
  const details = answer.details.map((text) => h("p", {}, text));
  parts.push(h("details", { className: "hm-theorem" }, h("summary", {}, "Details"), ...details));
  const open = new Set([...p.verdict.querySelectorAll("details[open] summary")].map((summary) => summary.textContent));
  fill(p.verdict, ...parts);
  for (const summary of p.verdict.querySelectorAll("details summary"))
    if (open.has(summary.textContent)) summary.parentElement.open = true;
  p.setStale("");
}

export function showToken(p) {
  const { scores, token_colours, palette, layers, shown } = p.answer;
  p.token.hidden = !scores;
  if (!scores) return;
  const largest = Math.max(...scores.bars.map(({ score }) => Math.abs(score)), 1e-12);
  const bars = scores.bars.map(({ token, score, weight }) => {
    const bar = h("span", { className: "hm-bar-fill" });
    bar.style.width = `${(100 * Math.abs(score)) / largest}%`;
    bar.classList.toggle("hm-negative", score < 0);
    if (scores.followed.includes(token)) bar.style.background = palette[token_colours[token]] || "";
    const title = `token ${token}: score ${score.toPrecision(4)}, weight ${weight.toPrecision(3)}`;
    const cells = [h("span", {}, swatch(p, token), ` ${token}`), h("span", { className: "hm-track" }, bar)];
    return linked(p, h("div", { className: "hm-score", title }, ...cells, h("span", {}, signed(score))), [token]);
  });
  const hard = p.scene.rule === "hardmax" || (p.scene.rule === "softmax" && p.scene.temperature === 0);
  const leads = hard && scores.followed.length === 1 && scores.followed[0] === scores.token;
  const sentence = leads
    ? `Token ${scores.token} attends to itself: no token has a larger score.`
    : `Token ${scores.token} attends ${hard ? "" : "most "}to token ${scores.followed.join(" and ")}.`;
  const margin =
    scores.margin === null ? "" : ` The margin to token ${scores.next} is ${scores.margin.toPrecision(3)}.`;
  const step = ` Its next step has length ${scores.step.toPrecision(3)}.`;
  const flow = p.scene.rule === "sphere" || p.scene.rule === "self-attention";
  fill(
    p.token,
    h("h3", {}, `Token ${scores.token} at ${layers[shown]}`),
    h("p", {}, sentence + margin + step),
    h("p", { className: "hm-note" }, `Largest scores ${flow ? "⟨x, x′⟩" : "⟨A z, z′⟩"}:`),
    ...bars,
  );
}

export function showMatrix(p) {
  const { attention, palette, token_colours } = p.answer;
  p.matrix.hidden = !(attention && p.scene.overlays.includes("attention"));
  if (p.matrix.hidden) return;
  const n = p.tokens.n;
  const cell = Math.max(3, Math.floor(240 / n));
  const ariaLabel = "Attention weights: rows are tokens, columns the tokens they attend to";
  const canvas = h("canvas", { width: n * cell, height: n * cell, role: "img", ariaLabel });
  const about = h("p", { className: "hm-note" }, "attends to →");
  const paint = canvas.getContext("2d");
  attention.forEach((weight, at) => {
    if (weight < 0.004) return;
    paint.globalAlpha = 0.15 + 0.85 * weight;
    paint.fillStyle = palette[token_colours[at % n]] || "#888888";
    paint.fillRect((at % n) * cell, Math.floor(at / n) * cell, cell, cell);
  });
  const show = (i, j) => {
    p.hover(i === undefined ? [] : [i, j]);
    about.textContent = i === undefined ? "attends to →" : `${i} attends to ${j}: ${attention[i * n + j].toFixed(3)}`;
  };
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) =>
    show(...[offsetY, offsetX].map((at) => Math.max(0, Math.min(n - 1, Math.floor((at / canvas.clientHeight) * n))))),
  );
  canvas.addEventListener("pointerleave", () => show());
  const row = h("div", { className: "hm-matrix-row" }, h("span", { className: "hm-vertical" }, "← token"), canvas);
  fill(p.matrix, h("h3", {}, `Attention at ${p.answer.layers[p.answer.shown]}`), about, row);
}

export async function showMultiples(p) {
  if (!p.multiples.hidden) return (p.multiples.hidden = true);
  await p.attempt(async () => {
    const { panels } = await p.call("multiples", { scene: p.send(p.scene) });
    p.multiples.hidden = false;
    const cells = panels.flatMap(({ temperature, layers, points, leaders }) => [
      h("span", {}, `T = ${temperature}`),
      ...layers.map((layer, k) => {
        const title = `Show layer ${layer} at temperature ${temperature}`;
        const choose = () => {
          p.multiples.hidden = true;
          p.at = layer;
          p.change({ rule: "softmax", temperature });
        };
        const plane = smallPlane(points[k], points[0], leaders, `layer ${layer}`);
        return button(plane, choose, { title, ariaLabel: title, className: "hm-small" });
      }),
    ]);
    const close = button("Close", () => (p.multiples.hidden = true));
    const head = h("div", { className: "hm-tour-head" }, h("h3", {}, "Temperature by layer; orange: leaders. Choose a picture"), close);
    fill(p.multiples, head, h("div", { className: "hm-multiples-grid" }, ...cells));
    p.multiples.scrollIntoView({ block: "nearest" });
  });
}

export function showTour(p, step) {
  const { tour } = p.options;
  p.tour.hidden = step < 0;
  if (step < 0) return;
  const { title, text, scene, control } = tour[step];
  const go = (to, label) => button(label, () => showTour(p, to), { disabled: to < 0 || to >= tour.length });
  fill(
    p.tour,
    h("div", { className: "hm-tour-head" }, h("h2", {}, title), h("span", {}, `${step + 1} of ${tour.length}`)),
    h("p", {}, text),
    tourControl(p, control),
    h("div", { className: "hm-buttons" }, go(step - 1, "Previous"), go(step + 1, "Next")),
    button("End the tour", () => showTour(p, -1)),
  );
  p.open(scene);
}

function tourControl(p, name) {
  if (name === "play") return button("▶ Play", () => p.start(), { className: "hm-play" });
  if (name !== "temperature") {
    p.tourLead = button("", () => p.toggleWanted());
    p.mark();
    return h("div", { className: "hm-buttons" }, p.tourLead, button("Find A", () => p.findA()));
  }
  const change = (quick) => p.change({ temperature: Number(input.value) }, { quick });
  const limits = { type: "range", min: 0, max: 2, step: 0.02, value: 0.6 };
  const input = h("input", { ...limits, oninput: () => change(true), onchange: () => change(false) });
  return field("Temperature", input);
}

export function swatch(p, i) {
  // The colour that the token has in the plane.
  const mark = h("span", { className: "hm-swatch" });
  const colour = p.tokens.palette[p.tokens.row(p.tokens.faces, p.answer.shown)[i]];
  mark.style.background = colour.startsWith("#") ? colour : `var(--hm-${colour})`;
  return mark;
}

export function linked(p, element, indices) {
  // Highlight tokens while the pointer is on an element, and the reverse.
  element.dataset.tokens = indices.join(" ");
  element.addEventListener("pointerenter", () => p.hover(indices));
  element.addEventListener("pointerleave", () => p.hover([]));
  return element;
}

function smallPlane(points, all, leaders, label) {
  const [width, height] = [180, 132];
  const canvas = h("canvas", { width, height });
  const paint = canvas.getContext("2d");
  const low = [0, 1].map((r) => Math.min(...all.map((point) => point[r])));
  const high = [0, 1].map((r) => Math.max(...all.map((point) => point[r])));
  const scale = Math.min(0.85 * width / (high[0] - low[0] || 1), 0.8 * height / (high[1] - low[1] || 1));
  const order = [...points.keys()].sort((i, j) => leaders.includes(i) - leaders.includes(j)); // leaders above
  for (const i of order) {
    const [x, y] = points[i];
    const at = [width / 2 + (x - (low[0] + high[0]) / 2) * scale, height / 2 - (y - (low[1] + high[1]) / 2) * scale];
    paint.beginPath();
    paint.arc(...at, leaders.includes(i) ? 5.5 : 3.2, 0, 7);
    paint.fillStyle = leaders.includes(i) ? "#D55E00" : "#0072B2";
    paint.fill();
  }
  return h("span", {}, canvas, label);
}
