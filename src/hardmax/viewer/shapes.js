// Shapes of the playground: tokens, half-space and ellipse as `Picture` draws them.

import { Tokens } from "./tokens.js";

const circle = () =>
  Array.from({ length: 73 }, (_, k) => (k * Math.PI) / 36).map((angle) => [Math.cos(angle), Math.sin(angle)]);

export function halfSpace(token, normal, picture) {
  const length = Math.hypot(...normal) || 1;
  const [u, v] = [normal[0] / length, normal[1] / length];
  const far = 4 * Math.max(...picture.shown.map(([low, high]) => high - low));
  const corner = (a, b) => [token[0] - a * v * far + b * u * far, token[1] + a * u * far + b * v * far];
  return [
    {
      kind: "polygon",
      points: [corner(-1, 0), corner(1, 0), corner(1, 1), corner(-1, 1)],
      colour: "#56B4E9",
      alpha: 0.16,
    },
    {
      kind: "arrow",
      from: [...token],
      to: [token[0] + (46 * u) / picture.scale[0], token[1] + (46 * v) / picture.scale[1]],
    },
  ];
}

export function ellipse({ axes: [p, q] }) {
  const path = circle().map(([c, s]) => [c * p[0] + s * q[0], c * p[1] + s * q[1]]);
  return [
    { kind: "lines", paths: [path], colour: "ink", dash: [6, 5], alpha: 1 },
    { kind: "handles", points: [p, q] },
  ];
}

export function rows(values, width) {
  return Array.from({ length: values.length / width }, (_, i) => [...values.subarray(i * width, (i + 1) * width)]);
}

export function makeTokens(scene, answer) {
  // Faces, edges and marks of every layer from the tokens that are followed; the palette of tokens is Python's.
  const n = scene.tokens.length;
  const frames = answer.layers.length;
  const palette = [...answer.palette, "shade", "paper", "ink"];
  const [none, several, ink] = [palette.length - 3, palette.length - 2, palette.length - 1];
  const own = (i) => (answer.token_colours[i] >= 0 ? answer.token_colours[i] : none);
  const [faces, edges, marks] = [0, 1, 2].map(() => new Uint16Array(frames * n));
  for (let k = 0; k < frames; k++) {
    for (let i = 0; i < n; i++) {
      const at = k * n + i;
      const leads = answer.emerged[i] >= 0 && answer.emerged[i] <= k;
      const followed = answer.follows ? answer.follows[at] : i;
      marks[at] = leads ? 1 : 0;
      faces[at] = leads ? own(i) : followed < 0 ? several : own(followed);
      edges[at] = ink;
    }
    // A token that others follow has a ring of its colour.
    for (let at = k * n; answer.follows && at < (k + 1) * n; at++) {
      const followed = answer.follows[at];
      if (followed >= 0 && marks[k * n + followed] === 0 && k * n + followed !== at) edges[k * n + followed] = own(followed);
    }
  }
  const size = n > 5000 ? 0.4 : n > 800 ? 0.65 : n > 150 ? 0.9 : 1.35;
  const since = (i) => (answer.emerged[i] >= 0 ? `, leads since ${answer.layers[answer.emerged[i]]}` : "");
  const texts = scene.tokens.map((_, i) => `token ${i}${since(i)}`);
  return new Tokens({
    positions: answer.positions,
    dimension: answer.dimension,
    palette,
    faces,
    edges,
    marks,
    texts,
    size,
    trail_step: Math.max(1, Math.ceil((n * frames) / 60_000)),
  });
}
