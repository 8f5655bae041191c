// Panels beside the plane: verdict, selected token, attention, small multiples and tour. `p` is the playground.

import { field, fill, h, signed } from "./dom.js";
import { DEFAULTS } from "./scene.js";

const OUTCOMES = { holds: "✓", fails: "✗" };

export function showVerdict(p, quick) {
  const { answer } = p;
  const title = answer.certified === true ? "Proved" : answer.certified === false ? "Not proved" : "Simulated";
  const parts = [
    h("h2", { className: answer.certified ? "hm-good" : "" }, title),
    h("p", { className: "hm-status", role: "status" }, answer.status),
    ...answer.notes.map((note) => h("p", { className: "hm-note" }, note)),
  ];
  if (answer.points && answer.points.length) {
    const cells = ([point, what, since, count], k) => {
      const token = Number((what.match(/^leader (\d+)/) || [])[1] ?? -1);
      const row = h(
        "tr",
        {},
        h("td", {}, token >= 0 ? swatch(p, token) : "■ ", ` ${what}`),
        h("td", {}, point),
        h("td", {}, since),
        h("td", {}, count),
      );
      return linked(p, row, (answer.point_tokens || [])[k] || []);
    };
    parts.push(
      h(
        "div",
        { className: "hm-wide" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ...["limit point", "coordinates", "since", "tokens"].map((name) => h("th", { scope: "col" }, name)),
            ),
          ),
          h("tbody", {}, ...answer.points.map(cells)),
        ),
      ),
    );
  }
  if (answer.verdicts && answer.verdicts.length) {
    parts.push(
      h("h3", {}, "Theorems"),
      ...answer.verdicts.map(({ name, outcome, reason }) =>
        h(
          "details",
          { className: `hm-theorem hm-${outcome}` },
          h("summary", {}, h("span", { ariaHidden: "true" }, OUTCOMES[outcome] || "–"), ` ${name}: ${outcome}`),
          h("p", {}, reason),
        ),
      ),
    );
  }
  const open = new Set([...p.verdict.querySelectorAll("details[open] summary")].map((summary) => summary.textContent));
  fill(p.verdict, ...parts);
  for (const summary of p.verdict.querySelectorAll("details summary"))
    if (open.has(summary.textContent)) summary.parentElement.open = true;
  p.verdict.classList.toggle("hm-stale", quick);
}

export function showToken(p) {
  const { scores } = p.answer;
  p.token.hidden = !scores;
  if (!scores) return;
  const largest = Math.max(...scores.bars.map(({ score }) => Math.abs(score)), 1e-12);
  const bars = scores.bars.map(({ token, score, weight }) => {
    const bar = h("span", { className: "hm-bar-fill" });
    bar.style.width = `${(100 * Math.abs(score)) / largest}%`;
    bar.classList.toggle("hm-negative", score < 0);
    if (scores.followed.includes(token)) bar.style.background = p.answer.palette[p.answer.token_colours[token]] || "";
    const title = `score ${score.toFixed(3)}, weight ${weight.toFixed(3)}`;
    return linked(
      p,
      h(
        "div",
        { className: "hm-score", title },
        h("span", {}, swatch(p, token), ` ${token}`),
        h("span", { className: "hm-track" }, bar),
        h("span", {}, signed(score)),
      ),
      [token],
    );
  });
  const names = scores.followed.join(" and ");
  const leads = scores.followed.length === 1 && scores.followed[0] === scores.token;
  const sentence = leads
    ? `Token ${scores.token} leads: no token has a larger projection on its direction.`
    : `Token ${scores.token} attends ${p.scene.rule === "softmax" && p.scene.temperature > 0 ? "most " : ""}to token ${names}.`;
  const margin = scores.margin === null ? "" : ` The margin to the next token is ${scores.margin.toPrecision(3)}.`;
  fill(
    p.token,
    h("h3", {}, `Token ${scores.token} at ${p.answer.layers[p.answer.shown]}`),
    h("p", {}, sentence + margin),
    h("p", { className: "hm-note" }, "Largest scores ⟨A z, z'⟩:"),
    ...bars,
  );
}

export function showMatrix(p) {
  const { attention } = p.answer;
  p.matrix.hidden = !(attention && p.scene.overlays.includes("attention"));
  if (p.matrix.hidden) return;
  const n = p.tokens.n;
  const cell = Math.max(3, Math.floor(264 / n));
  const canvas = h("canvas", {
    width: n * cell,
    height: n * cell,
    role: "img",
    ariaLabel: "Attention weights: rows are tokens, columns the tokens they attend to",
  });
  const paint = canvas.getContext("2d");
  for (let i = 0; i < n; i++)
    for (let j = 0; j < n; j++) {
      const weight = attention[i * n + j];
      if (weight < 0.004) continue;
      paint.globalAlpha = 0.15 + 0.85 * weight;
      paint.fillStyle = p.answer.palette[p.answer.token_colours[j]] || "#888888";
      paint.fillRect(j * cell, i * cell, cell, cell);
    }
  canvas.addEventListener("pointermove", (event) =>
    p.hover(Math.min(n - 1, Math.floor((event.offsetY / canvas.clientHeight) * n))),
  );
  canvas.addEventListener("pointerleave", () => p.hover(-1));
  fill(
    p.matrix,
    h("h3", {}, `Attention at ${p.answer.layers[p.answer.shown]}`),
    h("p", { className: "hm-note" }, "attends to →"),
    h("div", { className: "hm-matrix-row" }, h("span", { className: "hm-vertical" }, "token"), canvas),
  );
}

export async function showMultiples(p) {
  if (!p.multiples.hidden) return (p.multiples.hidden = true);
  await p.attempt(async () => {
    const { panels } = await p.call("multiples", { scene: p.send(p.scene) });
    p.multiples.hidden = false;
    const table = panels.map(({ temperature, layers, points, leaders }) =>
      h(
        "div",
        { className: "hm-multiple-row" },
        h("span", {}, temperature ? `T = ${temperature}` : "hardmax"),
        ...layers.map((layer, k) =>
          h("figure", {}, smallPlane(points[k], points[0], leaders), h("figcaption", {}, `layer ${layer}`)),
        ),
      ),
    );
    fill(p.multiples, h("h3", {}, "Temperature by layer"), ...table);
  });
}

export function showTour(p, step) {
  p.step = step;
  const { tour } = p.options;
  p.tour.hidden = step < 0;
  if (step < 0) return;
  const { title, text, scene, control } = tour[step];
  const go = (to, label) =>
    h("button", { type: "button", disabled: to < 0 || to >= tour.length, onclick: () => showTour(p, to) }, label);
  fill(
    p.tour,
    h("div", { className: "hm-tour-head" }, h("h2", {}, title), h("span", {}, `${step + 1} of ${tour.length}`)),
    h("p", {}, text),
    tourControl(p, control),
    h(
      "div",
      { className: "hm-buttons" },
      go(step - 1, "Previous"),
      go(step + 1, "Next"),
      h("button", { type: "button", onclick: () => showTour(p, -1) }, "End the tour"),
    ),
  );
  p.refit = true;
  p.at = 0;
  p.change({ ...DEFAULTS, ...scene });
}

export function tourControl(p, name) {
  if (name === "play") return h("button", { type: "button", className: "hm-play", onclick: () => p.start() }, "▶ Play");
  if (name !== "temperature") return h("button", { type: "button", onclick: () => p.findA() }, "Find A");
  const input = h("input", {
    type: "range",
    min: 0,
    max: 2,
    step: 0.02,
    value: 0.6,
    oninput: () => p.change({ temperature: Number(input.value) }, { quick: true }),
    onchange: () => p.change({ temperature: Number(input.value) }),
  });
  return field("Temperature", input);
}

export function swatch(p, i) {
  const mark = h("span", { className: "hm-swatch" });
  const index = p.answer.token_colours[i];
  mark.style.background = index >= 0 ? p.answer.palette[index] : "transparent";
  return mark;
}

export function linked(p, element, indices) {
  // Highlight tokens while the pointer is on an element, and the reverse.
  element.dataset.tokens = indices.join(" ");
  element.addEventListener("pointerenter", () => p.hover(indices[0] ?? -1));
  element.addEventListener("pointerleave", () => p.hover(-1));
  return element;
}

function smallPlane(points, all, leaders) {
  const canvas = h("canvas", { width: 150, height: 110, role: "img", ariaLabel: "Tokens" });
  const paint = canvas.getContext("2d");
  const low = [0, 1].map((r) => Math.min(...all.map((point) => point[r])));
  const high = [0, 1].map((r) => Math.max(...all.map((point) => point[r])));
  const scale = Math.min(130 / (high[0] - low[0] || 1), 90 / (high[1] - low[1] || 1));
  points.forEach(([x, y], i) => {
    paint.beginPath();
    paint.arc(
      75 + (x - (low[0] + high[0]) / 2) * scale,
      55 - (y - (low[1] + high[1]) / 2) * scale,
      leaders.includes(i) ? 4.5 : 2.6,
      0,
      7,
    );
    paint.fillStyle = leaders.includes(i) ? "#D55E00" : "#0072B2";
    paint.fill();
  });
  return canvas;
}
