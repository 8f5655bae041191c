// The playground: a scene that is edited here and answered by Python.
//
// The scene is plain data; every change makes a new one, so that undo, links and exports need nothing else. `call` sends
// a request and returns the reply: over HTTP in the app, as a message in a notebook.

import { makeBar, makeControls } from "./controls.js";
import { download } from "./data.js";
import { fill, h } from "./dom.js";
import { showMatrix, showToken, showVerdict } from "./panels.js";
import { Picture } from "./picture.js";
import { DEFAULTS, UNMASKED } from "./scene.js";
import { ellipse, halfSpace, makeTokens, rows } from "./shapes.js";
import { toPng, toSvg } from "./svg.js";

const STEP_MS = 420; // milliseconds per layer at speed 1
const STALE_MS = 150; // after which a missing answer is shown as pending
const MAX_UNDO = 200;
const MOTION = {
  hardmax: "toward the dot it attends to most.",
  softmax: "toward a mean of all dots, weighted by attention.",
  "frank-wolfe": "toward the corner of the hull that it attends to most.",
  "self-attention": "by V times a mean of all dots, weighted by attention.",
  sphere: "on the sphere toward a mean of all dots, weighted by attention.",
};
const HELP =
  "Tokens in the plane. N and P select a token, arrow keys move it, Insert adds one, Delete removes it, " +
  "space plays, comma and period step through layers, Control Z undoes.";

export class Playground {
  constructor(host, { call, options, scene = null, problem = "", onchange = () => {} }) {
    Object.assign(this, { host, call, options, onchange });
    [this.past, this.future] = [[], []];
    [this.at, this.speed, this.timer, this.hovered, this.warned] = [0, 1, null, [], 0];
    this.search = null; // for a matrix A: the scene of the search, and tokens in conflict
    this.scene = { ...DEFAULTS, tokens: options.tour[1].scene.tokens, ...scene };
    this.at = this.scene.shown;
    this.build();
    this.ask();
    this.warn(problem);
  }

  // Layout.

  build() {
    const stage = h("div", { className: "hm-stage-plane" });
    const edit = {
      move: (target, point, final) => this.move(target, point, final),
      pick: (target) => this.select(target && target.index !== undefined ? target.index : -1),
      add: (point) => this.addToken(point),
      hover: (target) => this.hover(target && target.index !== undefined ? [target.index] : []),
    };
    this.picture = new Picture(stage, {
      axes: ["z₁", "z₂"].map((label) => ({ label, low: -1, high: 1 })),
      label: HELP,
      edit,
    });
    this.picture.canvas.setAttribute("role", "application");
    this.picture.canvas.addEventListener("keydown", (event) => this.key(event));
    this.notice = h("div", { className: "hm-notice", role: "alert", hidden: true });
    this.busy = h("div", { className: "hm-busy", role: "status", hidden: true }, "Computing …");
    this.legend = h("p", { className: "hm-legend" });
    this.multiples = h("section", { className: "hm-multiples", ariaLabel: "Temperatures and layers", hidden: true });
    stage.append(this.multiples, this.notice, this.busy);
    this.verdict = h("section", { className: "hm-verdict", ariaLabel: "Verdict", tabIndex: 0 });
    this.token = h("section", { className: "hm-token", ariaLabel: "Selected token", hidden: true });
    this.tour = h("section", { className: "hm-tour", ariaLabel: "Tour", hidden: true });
    this.found = h("section", { className: "hm-card hm-found", role: "status", hidden: true });
    this.matrix = h("section", { className: "hm-attention", ariaLabel: "Attention matrix", hidden: true });
    this.controls = h("div", { className: "hm-side hm-controls-side" });
    this.lead = h("p", { className: "hm-lead" });
    const centre = h("div", { className: "hm-centre" }, this.lead, this.legend, stage, makeBar(this));
    const side = h("div", { className: "hm-side hm-answer-side" });
    fill(side, this.tour, this.found, this.verdict, this.token, this.matrix);
    fill(this.host, this.controls, centre, side);
    this.host.classList.add("hm-playground");
    makeControls(this);
  }

  // Changes of the scene.

  plain() {
    // The scene without its defaults, as links hold it.
    return Object.fromEntries(
      Object.entries(this.scene).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(DEFAULTS[name])),
    );
  }

  change(values, { remember = true, quick = false } = {}) {
    if (remember && !quick) {
      this.past = [...this.past, this.before || this.scene].slice(-MAX_UNDO);
      this.future = [];
    } else if (remember) {
      this.before ||= this.scene;
    }
    if (!quick) this.before = null;
    this.scene = { ...this.scene, ...values };
    this.ask(quick);
  }

  open(scene) {
    // Show another scene from its beginning, or from its shown layer.
    this.refit = true;
    this.at = scene.shown || 0;
    this.change({ ...DEFAULTS, ...scene });
  }

  undo(from = this.past, to = this.future) {
    if (!from.length) return;
    to.push(this.scene);
    this.scene = from.pop();
    this.ask();
  }

  redo() {
    this.undo(this.future, this.past);
  }

  move(target, point, final) {
    if (target.handle !== undefined) return this.pull(target.handle, point, final);
    if (!this.answer || !this.answer.movable) return;
    // At layer k the token moves as the pointer does; its start is moved by the same vector.
    const i = target.index;
    this.moved = performance.now();
    if (this.dragged !== i)
      [this.dragged, this.grip] = [i, { start: this.scene.tokens[i], from: this.tokens.at(this.at, i) }];
    const place = this.scene.tokens[i].map((_, r) => round(this.grip.start[r] + point[r] - this.grip.from[r]));
    const tokens = this.scene.tokens.map((token, j) => (j === i ? place : token));
    if (this.at === 0) this.tokens.positions.set(point.slice(0, this.tokens.dimension), i * this.tokens.dimension);
    if (final) this.dragged = undefined;
    if (!final && this.answer.many) {
      this.before ||= this.scene;
      this.scene = { ...this.scene, tokens, selected: i };
      return this.draw();
    }
    this.change({ tokens, selected: i }, { quick: !final });
    this.draw();
  }

  async pull(axis, end, final) {
    if (this.pulling && !final) return;
    this.pulling = true;
    const base = this.before || this.scene;
    await this.attempt(async () => {
      const { A } = await this.call("pull", { scene: this.send(base), axis, end: end.slice(0, 2) });
      this.change({ A }, { quick: !final });
    });
    if (final && this.before) this.change({}); // the last position was refused: the one before it stays
    this.pulling = false;
  }

  addToken(point) {
    if (!this.answer || !this.answer.movable) return;
    const place = point.slice(0, this.scene.tokens[0].length).map(round);
    this.change({ tokens: [...this.scene.tokens, place], selected: this.scene.tokens.length });
  }

  removeToken() {
    const i = this.scene.selected;
    if (i < 0 || this.scene.tokens.length === 1) return;
    const shift = (j) => j - (j > i);
    this.change({
      tokens: this.scene.tokens.filter((_, j) => j !== i),
      selected: -1,
      wanted: this.scene.wanted.filter((j) => j !== i).map(shift),
      colours: this.scene.colours.filter(([j]) => j !== i).map(([j, colour]) => [shift(j), colour]),
    });
  }

  select(i) {
    if (i === this.scene.selected) return;
    this.reveal = i >= 0;
    this.change({ selected: i }, { remember: false });
  }

  changeA() {
    const entries = numbers(this.A);
    this.change({ A: [0, 1].map((r) => [entries[r], entries[r + 1]]) });
  }

  async changeV() {
    const [first, second, degrees] = numbers(this.V);
    await this.attempt(async () => {
      const { V } = await this.call("values", { first, second, degrees });
      this.ownV = `${V}`; // the entries show it as it was entered
      this.change({ V });
    });
  }

  async configure(name, extra = {}) {
    const [n, d, seed] = numbers(Object.values(this.numbers));
    const values = this.options.random.includes(name) ? { n, d, seed } : {};
    await this.attempt(async () =>
      this.setTokens((await this.call("configuration", { name, ...values, ...extra })).tokens),
    );
  }

  setTokens(tokens) {
    const same = tokens[0].length === this.scene.tokens[0].length;
    this.refit = true;
    this.change({ tokens, selected: -1, wanted: [], colours: [], shown: 0, ...(same ? {} : { A: null, V: null }) });
    this.at = 0;
  }

  async shuffle() {
    const name = this.options.random.includes(this.kind.value) ? this.kind.value : "gaussian";
    this.kind.value = name;
    this.numbers.seed.value = Number(this.numbers.seed.value) + 1;
    await this.configure(name);
    this.start();
  }

  async readTokens(text) {
    await this.attempt(async () => {
      const { tokens, note } = await this.call("tokens", { text });
      this.setTokens(tokens);
      if (note) this.warn(note);
    });
  }

  async readFile(file) {
    if (!file) return;
    const text = await file.text();
    if (!file.name.endsWith(".json")) return this.readTokens(text);
    await this.attempt(async () => {
      let document;
      try {
        document = JSON.parse(text);
      } catch {
        throw new Error(`${file.name} must be a scene that this page has exported. Got something else.`);
      }
      if (document?.format) {
        // Of a trajectory the first layer is sent, which is small.
        const { format, rule, start, saved, tokens } = document;
        document = { format, rule, start, saved: saved && [saved[0], saved.at(-1)], tokens: tokens?.slice(0, 1) };
      }
      const { scene, note } = await this.call("open", { document });
      await this.call("scene", { scene, quick: true }); // an invalid scene changes nothing
      this.open(scene);
      if (note) this.warn(note);
    });
  }

  // Requests: one at a time. During a drag the newest scene is sent when the answer to the last one has come; any other
  // change ends the request before it.

  send(scene) {
    return { ...scene, shown: Math.round(this.at) };
  }

  ask(quick = false) {
    if (["tokens", "wanted", "A"].some((name) => this.search && this.search[name] !== this.scene[name])) {
      this.search = null;
      this.found.hidden = true;
    }
    this.mark();
    if (quick && this.pending) return (this.waiting = true);
    if (this.pending) this.pending.abort();
    this.waiting = false;
    const control = (this.pending = new AbortController());
    clearTimeout(this.late);
    this.late = setTimeout(() => this.setPending(true), STALE_MS);
    const [began, warned] = [this.moved, this.warned];
    this.call("scene", { scene: this.send(this.scene), quick }, control.signal).then(
      (answer) => {
        if (this.pending !== control) return;
        this.pending = null;
        if (warned === this.warned) this.warn(""); // a later notice stays
        this.take(answer, quick);
        if (quick && began) this.delays = [...(this.delays || []).slice(-499), performance.now() - began];
      },
      (error) => {
        if (this.pending !== control || error.name === "AbortError") return;
        this.pending = null;
        this.fail(error);
      },
    );
  }

  take(answer, quick) {
    clearTimeout(this.late);
    this.setPending(false);
    if (quick && this.answer) answer.verdicts = this.answer.verdicts; // greyed until the next full answer
    this.answer = answer;
    this.scene.colours = answer.colours;
    this.tokens = makeTokens(this.scene, answer);
    if (answer.V && `${this.scene.V}` !== this.ownV) answer.V.forEach((value, k) => (this.V[k].value = value));
    const last = this.tokens.frames - 1;
    this.range.max = last;
    this.at = Math.min(this.at, last);
    const other = this.shownRule !== this.scene.rule || this.picture.axes.length !== answer.axes.length;
    if (this.refit || other) this.fit();
    this.refit = false;
    this.shownRule = this.scene.rule;
    this.draw();
    this.mark();
    showVerdict(this, quick);
    showToken(this);
    if (this.reveal) this.token.scrollIntoView({ block: "nearest" });
    this.reveal = false;
    showMatrix(this);
    if (!quick) this.onchange(this);
    if (this.waiting) this.ask(true);
  }

  fit() {
    if (!this.answer) return;
    this.picture.setAxes(this.answer.axes, this.answer.equal);
    this.picture.reset();
  }

  async attempt(work) {
    try {
      await work();
    } catch (error) {
      this.warn(error.message); // the scene and its verdict stay
    }
  }

  fail(error) {
    clearTimeout(this.late);
    this.busy.hidden = true;
    this.setStale("out of date: the input is invalid");
    this.warn(error.message);
  }

  warn(message) {
    this.warned += message !== "";
    this.notice.textContent = message;
    this.notice.hidden = !message;
  }

  setPending(pending) {
    this.busy.hidden = !pending;
    if (pending) this.setStale("out of date: computing …");
    this.verdict.setAttribute("aria-busy", pending);
  }

  setStale(reason) {
    this.verdict.classList.toggle("hm-stale", Boolean(reason));
    this.verdict.dataset.stale = reason;
  }

  // Time.

  show(at) {
    this.stop();
    this.at = Math.max(0, Math.min(at, this.tokens ? this.tokens.frames - 1 : 0));
    this.draw();
    this.mark();
  }

  stepBy(by) {
    this.show(Math.round(this.at) + by);
    this.settle();
  }

  settle(quick = false) {
    // Overlays and scores belong to a layer, so they are fetched again when the layer changes.
    this.scene = { ...this.scene, shown: Math.round(this.at) };
    this.ask(quick);
  }

  start() {
    if (!this.tokens) return;
    const last = this.tokens.frames - 1;
    if (this.at >= last) this.at = 0;
    let before = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const pace = last > 40 ? STEP_MS / 3 : STEP_MS;
    let exact = this.at;
    const step = (now) => {
      exact = Math.min(exact + ((now - before) * this.speed) / pace, this.tokens.frames - 1);
      before = now;
      this.at = still ? Math.floor(exact) : exact;
      this.draw();
      this.mark();
      if (exact < this.tokens.frames - 1) return (this.timer = requestAnimationFrame(step));
      this.stop();
      this.settle();
    };
    this.timer = requestAnimationFrame(step);
    this.mark();
  }

  stop() {
    if (this.timer === null) return;
    cancelAnimationFrame(this.timer);
    this.timer = null;
    this.at = Math.round(this.at);
    this.draw();
    this.mark();
  }

  mark() {
    const { scene, answer } = this;
    const at = Math.round(this.at);
    this.range.value = at;
    const label = answer ? answer.layers[at] || "" : "";
    this.range.setAttribute("aria-valuetext", label);
    this.label.textContent = label;
    this.play.textContent = this.timer === null ? "▶ Play" : "❚❚ Pause";
    this.play.setAttribute("aria-label", this.timer === null ? "Play" : "Pause");
    this.undoButton.disabled = !this.past.length;
    this.redoButton.disabled = !this.future.length;
    this.removeButton.disabled = scene.selected < 0 || scene.tokens.length === 1;
    this.addButton.disabled = !(answer && answer.movable);
    this.rule.value = scene.rule;
    this.causal.checked = scene.causal;
    this.causal.disabled = UNMASKED.includes(scene.rule);
    const uses = {
      hardmax: ["alpha", "A", "layers"],
      softmax: ["alpha", "A", "temperature", "layers"],
      "frank-wolfe": ["alpha", "A", "layers"],
      "self-attention": ["V", "time"],
      sphere: ["beta", "time"],
    }[scene.rule];
    for (const [name, element] of Object.entries(this.parameters))
      element.hidden = !uses.includes(name) || ((name === "A" || name === "V") && scene.tokens[0].length !== 2);
    for (const [name, [input, output]] of Object.entries(this.shownValues)) {
      if (document.activeElement !== input) input.value = scene[name];
      output.textContent = `${scene[name]}`;
    }
    const A = (scene.A && scene.A.flat()) || [1, 0, 0, 1];
    [A[0], A[1], A[3]].forEach((value, k) => {
      if (document.activeElement !== this.A[k]) this.A[k].value = value;
    });
    for (const [box] of this.overlays) box.checked = scene.overlays.includes(box.value);
    const rule = scene.rule === "softmax" && scene.temperature === 0 ? "hardmax" : scene.rule;
    const drag = answer?.movable ? " Drag one." : answer?.dimension === 3 ? " Drag to turn." : "";
    const earlier = scene.causal ? " It sees itself and earlier dots only." : "";
    this.lead.textContent = `Each dot moves ${MOTION[rule]}${earlier}${answer?.leaders.length ? " Stars lead." : ""}${drag}`;
    const shall = scene.wanted.includes(scene.selected) ? "need not" : "shall";
    for (const lead of [this.leadButton, this.tourLead].filter(Boolean)) {
      lead.disabled = scene.selected < 0;
      lead.textContent = scene.selected < 0 ? "Select a token" : `Token ${scene.selected} ${shall} lead`;
    }
    this.legend.textContent =
      answer && answer.follows
        ? "★ leader   ● follower, in the colour of its leader   ○ follows several"
        : "★ leader   ● token, in the colour of its cluster at the end";
    if (answer?.polytope && scene.overlays.includes("polytope")) this.legend.textContent += "   ▰ hull of the leaders";
  }

  // Drawing.

  draw() {
    if (!this.answer) return;
    const { answer, scene, tokens } = this;
    const on = new Set(scene.overlays);
    const at = Math.round(this.at);
    const current = at === answer.shown; // overlays of one layer
    const shapes = [];
    const colour = (i) => (answer.token_colours[i] < 0 ? "shade" : answer.palette[answer.token_colours[i]]);
    if (on.has("cells") && answer.cells && current)
      for (const { token, points } of answer.cells)
        shapes.push({ kind: "polygon", points, colour: colour(token), alpha: 0.2 });
    shapes.push(...answer.sphere);
    if (on.has("polytope") && answer.polytope) shapes.push({ kind: "polygon", ...answer.polytope });
    if (on.has("hulls") && answer.hulls)
      answer.hulls.slice(0, at + 1).forEach((hull, k) => {
        const look = { colour: "ink", alpha: k === at ? 0.8 : 0.25, width: 1 };
        if (hull) shapes.push({ kind: "lines", paths: [[...hull, hull[0]]], ...look });
      });
    if (on.has("half-space") && answer.normals && scene.selected >= 0) {
      const normal = answer.normals.subarray(2 * at, 2 * at + 2);
      shapes.push(...halfSpace(tokens.at(this.at, scene.selected), normal, this.picture));
    }
    if (on.has("trails")) shapes.push(...tokens.trails(this.at));
    if (on.has("limit") && answer.limit) shapes.push({ kind: "crosses", points: rows(answer.limit, answer.dimension) });
    if (on.has("ellipse") && answer.ellipse) shapes.push(...ellipse(answer.ellipse));
    const points = { ...tokens.points(this.at), movable: answer.movable };
    if (on.has("numbers") && tokens.n <= 200) points.names = tokens.all.map(String);
    const ring = (indices, options) => {
      const inside = indices.filter((i) => i < tokens.n);
      shapes.push({ kind: "rings", points: inside.map((i) => points.points[i]), ...options });
    };
    ring(scene.wanted, { colour: "focus", radius: 14, dash: [5, 4] });
    ring(this.search ? this.search.conflict : [], { colour: "#D55E00", radius: 16, width: 3, dash: [4, 3] });
    ring(this.hovered, { radius: 11, width: 1.5 });
    if (scene.selected >= 0) ring([scene.selected], { radius: 12 });
    shapes.push(points);
    if (answer.scores && current && answer.scores.token === scene.selected)
      shapes.push({ kind: "arrow", from: answer.scores.from, to: answer.scores.to, colour: "ink" });
    this.picture.show(shapes);
  }

  hover(indices) {
    // Rings around tokens; of one token, its rows are marked, too.
    if (`${indices}` === `${this.hovered}`) return;
    this.hovered = indices;
    for (const element of this.host.querySelectorAll("[data-tokens]")) {
      const has = indices.length === 1 && element.dataset.tokens.split(" ").includes(`${indices[0]}`);
      element.classList.toggle("hm-hovered", has);
    }
    this.draw();
  }

  // Leaders, tour, exports.

  toggleWanted() {
    const { selected, wanted } = this.scene;
    const has = wanted.includes(selected);
    this.change({ wanted: has ? wanted.filter((i) => i !== selected) : [...wanted, selected].sort((a, b) => a - b) });
  }

  async findA() {
    const search = (this.search = { ...this.scene, conflict: [] });
    const show = (...parts) => {
      this.found.hidden = false;
      fill(this.found, ...parts).scrollIntoView({ block: "nearest" });
    };
    show("Searching for A …");
    const found = await this.call("control", { scene: this.send(this.scene) }).catch((error) => error);
    if (this.search !== search) return; // the scene has changed
    if (found instanceof Error) return show(found.message);
    const { status, A, clashes, tokens } = found;
    const list = clashes.length ? h("ul", {}, ...clashes.map((clash) => h("li", {}, clash))) : null;
    show(h("h3", {}, A ? "A matrix was found" : "There is no such matrix"), h("p", {}, status), list);
    Object.assign(search, A ? { A } : { conflict: tokens });
    if (A) this.change({ A, rule: "hardmax", overlays: [...new Set([...this.scene.overlays, "ellipse"])] });
    else this.draw();
  }

  async export(kind) {
    await this.attempt(async () => {
      if (kind === "png" || kind === "svg")
        return download(await (kind === "png" ? toPng : toSvg)(this.picture), `hardmax.${kind}`);
      const blob = await this.call("export", { scene: this.send(this.scene), kind });
      if (kind !== "py") return download(blob, `hardmax.${kind}`);
      this.code.hidden = false;
      this.code.value = await blob.text();
      this.code.focus();
      this.code.select();
    });
  }

  key(event) {
    const { scene } = this;
    const n = scene.tokens.length;
    const small = event.shiftKey ? 0.1 : 1;
    const unit = this.picture.scale ? (8 * small) / this.picture.scale[0] : 0.05;
    const arrows = { ArrowLeft: [-unit, 0], ArrowRight: [unit, 0], ArrowUp: [0, unit], ArrowDown: [0, -unit] };
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if ((event.ctrlKey || event.metaKey) && key === "z") event.shiftKey ? this.redo() : this.undo();
    else if ((event.ctrlKey || event.metaKey) && key === "y") this.redo();
    else if (event.ctrlKey || event.metaKey || event.altKey) return;
    else if (key === "n") this.select((scene.selected + 1) % n);
    else if (key === "p") this.select((scene.selected + n - 1) % n);
    else if (key === " ") this.play.click();
    else if (key === ",") this.stepBy(-1);
    else if (key === ".") this.stepBy(1);
    else if (key === "Insert") this.addButton.click();
    else if (key === "Delete" || key === "Backspace") this.removeToken();
    else if (key === "0") this.fit();
    else if (key === "Escape") this.select(-1);
    else if (key === "+" || key === "-")
      this.picture.zoom(key === "+" ? 1.25 : 0.8, this.picture.size[0] / 2, this.picture.size[1] / 2);
    else if (arrows[key] && this.picture.solid) this.picture.drag(...arrows[key].map((value) => Math.sign(value) * 12));
    else if (arrows[key] && scene.selected >= 0 && this.answer.movable) {
      const tokens = scene.tokens.map((token, i) =>
        i === scene.selected ? token.map((x, r) => round(x + arrows[key][r])) : token,
      );
      this.change({ tokens });
    } else return;
    event.preventDefault();
  }
}

const round = (value) => Math.round(value * 1e4) / 1e4;
const numbers = (inputs) => inputs.map(({ valueAsNumber: x }) => (Number.isNaN(x) ? null : x)); // null is refused
