// A player: pictures and charts over frames, with a play button and a slider. Python has computed every frame.

import { Bars, Matrix } from "./charts.js";
import { decodeBase64 } from "./data.js";
import { Picture } from "./picture.js";
import { Tokens } from "./tokens.js";

const PANELS = { picture: Picture, bars: Bars, matrix: Matrix };
const MIN_INTERVAL = 80; // milliseconds between two frames

export function mount(host, { panels, frames, tokens = null, start = 0, slider = "", interval = MIN_INTERVAL }) {
  host.classList.add("hm-player");
  const element = (parent, name, attributes = {}) =>
    Object.assign(parent.appendChild(document.createElement(name)), attributes);
  const sentence = element(host, "p", { className: "hm-sentence", ariaLive: "polite" });
  const stage = element(host, "div", { className: "hm-stage" });
  const views = panels.map(({ kind, cuts, ...options }, k) => {
    // `cuts` has the height of a line for each frame: dragging its handle chooses the frame. With groups of tokens,
    // pointing at a token marks the tokens of its group.
    if (cuts) options.edit = { move: (_, [, height]) => go(nearest(cuts, height)) };
    if (tokens?.groups && k === 0) options.onhover = (found) => mark(found ? found.index : -1);
    return new PANELS[kind](element(stage, "div", { className: `hm-${kind}` }), options);
  });
  const controls = element(host, "div", { className: "hm-controls" });
  const button = element(controls, "button", { type: "button", className: "hm-play" });
  const range = element(controls, "input", { type: "range", min: 0, max: frames.length - 1, step: 1 });
  const output = element(controls, "output");
  range.setAttribute("aria-label", slider.trim() || "frame");
  const moving = tokens instanceof Tokens ? tokens : tokens && new Tokens({ ...tokens, ...unpackTokens(tokens) });
  const smooth = moving && !matchMedia("(prefers-reduced-motion: reduce)").matches;
  let [at, timer, marked] = [start, null, -1];

  function mark(index) {
    if (index === marked) return;
    marked = index;
    show();
  }

  function members() {
    // Rings around the tokens in the group of the marked one; -1 is noise.
    if (marked < 0) return [];
    const groups = moving.row(moving.groups, at);
    const all = moving.all.filter((i) => groups[i] === groups[marked] && groups[i] >= 0);
    return [{ kind: "rings", points: all.map((i) => moving.at(at, i)), colour: "focus", radius: 7, width: 1.5 }];
  }

  function show() {
    const index = Math.round(at);
    const frame = frames[index];
    const text = `${slider}${frame.label}`;
    range.value = index;
    range.setAttribute("aria-valuetext", text);
    output.textContent = text;
    sentence.textContent = frame.sentence || "";
    sentence.hidden = !frame.sentence;
    if (moving) views[0].show([...(panels[0].shapes || []), ...moving.shapes(at), ...members()]);
    views.slice(moving ? 1 : 0).forEach((view, k) => view.show(frame.panels[k])); // panels beside the tokens
    host.dataset.frame = index;
  }

  function stop() {
    cancelAnimationFrame(timer);
    timer = null;
    button.textContent = "▶ Play";
    button.setAttribute("aria-pressed", "false");
  }

  function play() {
    if (at >= frames.length - 1) at = 0;
    button.textContent = "❚❚ Pause";
    button.setAttribute("aria-pressed", "true");
    const [first, began] = [at, performance.now()];
    const step = (now) => {
      const reached = first + Math.max(now - began, 0) / interval;
      at = Math.min(smooth ? reached : Math.floor(reached), frames.length - 1);
      show();
      if (at < frames.length - 1) timer = requestAnimationFrame(step);
      else stop();
    };
    timer = requestAnimationFrame(step);
  }

  function go(index) {
    stop();
    at = Math.max(0, Math.min(frames.length - 1, index));
    show();
  }

  button.addEventListener("click", () => (timer === null ? play() : stop()));
  range.addEventListener("input", () => go(Number(range.value)));
  host.addEventListener("keydown", (event) => {
    if (event.target === button || event.target === range) return; // they handle their keys
    if (event.key === " ") button.click();
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(frames.length - 1);
    else if (event.key === "," || event.key === ".") go(Math.round(at) + (event.key === "." ? 1 : -1));
    else return;
    event.preventDefault();
  });
  stop();
  show();
}

function nearest(values, wanted) {
  const distance = (k) => (values[k] === null ? Infinity : Math.abs(values[k] - wanted));
  return [...values.keys()].reduce((best, k) => (distance(k) < distance(best) ? k : best));
}

function unpackTokens({ positions, faces, edges, marks, groups = "", palette }) {
  const unpack = (text, Kind) => new Kind(decodeBase64(text).buffer);
  const Index = palette.length > 256 ? Uint16Array : Uint8Array;
  return {
    positions: unpack(positions, Float32Array),
    faces: unpack(faces, Index),
    edges: unpack(edges, Index),
    marks: unpack(marks, Uint8Array),
    groups: unpack(groups, Int16Array),
  };
}
