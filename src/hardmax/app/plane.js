// The plane of the playground: draws what Python says, moves a dragged token at once, and asks Python for the rest.
// Nothing is decided here: who leads, whom a token follows, hulls and limits come with each answer.
// It runs in Panel (AnyWidgetComponent) and in notebooks (anywidget): `request` goes to Python, `answer` comes back.

const NEAR = 14; // pixels within which a pointer takes hold
const PATIENCE = 8000; // milliseconds after which an answer is given up
const MOST_TRAILS = 1500; // tokens whose trails are drawn
const PLAYED = 260; // milliseconds a layer is shown for

const STYLE = `
  .hm-plane { display: flex; flex-direction: column; height: var(--hm-height, 560px); min-height: 380px; color: var(--hm-text, #1c1c1c);
    font: 14px system-ui, sans-serif; position: relative; }
  .hm-stage { flex: 1 1 0; min-height: 0; position: relative; }
  .hm-plane canvas { position: absolute; inset: 0; width: 100%; height: 100%; box-sizing: border-box; touch-action: none;
    border-radius: 8px; background: var(--hm-panel, #fff); border: 1px solid var(--hm-line, #d0d4da); }
  .hm-plane canvas:focus-visible, .hm-plane button:focus-visible, .hm-plane input:focus-visible {
    outline: 3px solid var(--hm-focus, #0072B2); outline-offset: 1px; }
  .hm-bar { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; padding: 8px 0 0; }
  .hm-bar input[type=range] { flex: 1 1 120px; accent-color: var(--hm-for, #0072B2); }
  .hm-bar button { font: inherit; color: inherit; background: var(--hm-panel, #fff); border: 1px solid var(--hm-line, #b8bec8);
    border-radius: 6px; padding: 4px 10px; cursor: pointer; min-height: 32px; }
  .hm-bar button:disabled { opacity: .45; cursor: default; }
  .hm-bar .hm-label { min-width: 84px; text-align: right; font-variant-numeric: tabular-nums; }
  .hm-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .hm-note { position: absolute; left: 12px; top: 10px; right: 12px; padding: 8px 12px; border-radius: 6px;
    background: var(--hm-warn, #fff1d6); color: #402a00; border: 1px solid #c98b1b; }
  .hm-busy { position: absolute; right: 12px; bottom: 10px; padding: 3px 10px; border-radius: 5px; font-size: 13px;
    background: var(--hm-text, #1c1c1c); color: var(--hm-background, #fff); }
  .hm-tip { position: absolute; pointer-events: none; padding: 3px 8px; border-radius: 5px; font-size: 12px;
    background: var(--hm-text, #1c1c1c); color: var(--hm-background, #fff); }
`;

const KINDS = { f4: Float32Array, i4: Int32Array, i2: Int16Array, i1: Int8Array, u1: Uint8Array };

function unpack(view) {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice(); // a copy, so that arrays align
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  header.data = {};
  for (const { name, kind, shape, at } of header.arrays) {
    const size = shape.reduce((a, b) => a * b, 1);
    header.data[name] = { shape, values: new KINDS[kind](bytes.buffer, 4 + length + at, size) };
  }
  return header;
}

function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "hm-plane";
  root.dataset.lmSuppressShortcuts = "true"; // in JupyterLab, whose keys are others
  const style = document.createElement("style");
  style.textContent = STYLE;
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label", "Tokens in the plane. N selects the next token, arrow keys move it, Insert adds one, "
    + "Delete removes it, space plays, comma and period step through layers, Control Z undoes.");
  const bar = document.createElement("div");
  bar.className = "hm-bar";
  const spoken = document.createElement("div");
  spoken.className = "hm-hidden";
  spoken.setAttribute("aria-live", "polite");
  const note = document.createElement("div");
  note.className = "hm-note";
  note.setAttribute("role", "alert");
  note.hidden = true;
  const tip = document.createElement("div");
  tip.className = "hm-tip";
  tip.hidden = true;
  const stage = document.createElement("div");
  stage.className = "hm-stage";
  const busy = document.createElement("div");
  busy.className = "hm-busy";
  busy.setAttribute("role", "status");
  busy.textContent = "Loading …";
  stage.append(canvas, note, tip, busy);
  root.append(style, stage, bar, spoken);
  el.append(root);
  const paint = canvas.getContext("2d");

  let scene = null; // the last answer
  let layer = 0;
  let box = null; // what of the plane is seen: [left, bottom, right, top]
  let held = null; // what is being dragged: { token } or { axis }
  let hovered = -1;
  let playing = 0;
  let sent = 0, flying = 0, flown = 0, scheduled = false;
  const waiting = []; // for an answer, or for a frame
  let adding = false;

  function button(text, label, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.title = label;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    bar.append(made);
    return made;
  }
  const back = button("◀", "One layer back", () => step(-1));
  const play = button("▶ Play", "Play through the layers", toggle);
  const ahead = button("▶▏", "One layer ahead", () => step(1));
  const slider = document.createElement("input");
  slider.type = "range";
  slider.min = 0;
  slider.setAttribute("aria-label", "Layer or time");
  bar.append(slider);
  const label = document.createElement("span");
  label.className = "hm-label";
  bar.append(label);
  const add = button("Add", "Add a token: then click into the plane", () => { adding = !adding; mark(); });
  const remove = button("Delete", "Delete the selected token", erase);
  const undo = button("Undo", "Undo", () => ask({ kind: "undo" }));
  const redo = button("Redo", "Redo", () => ask({ kind: "redo" }));
  button("Fit", "Show everything", () => { box = null; draw(); });
  slider.addEventListener("input", () => { stop(); show(+slider.value); });
  slider.addEventListener("change", () => ask({ kind: "show", layer }));

  // One request is in flight. Steps of a drag wait only until a newer one comes; what was decided waits for its turn.
  function ask(message) {
    const last = waiting.at(-1), step = message.final === false;
    if (last && step && last.final !== false) return;
    if (last && (last.final === false || takesPlace(message, last))) waiting.pop();
    waiting.push(message);
    next();
  }
  function takesPlace(message, before) { // done twice, only the second counts
    const alike = ["kind", "axis"].every((name) => message[name] === before[name]);
    return alike && (["show", "select"].includes(message.kind) || (["drag", "pull"].includes(message.kind) && message.token === before.token));
  }
  function next() {
    if (scheduled || !waiting.length) return;
    const long = model.get("busy") && waiting[0].final !== false; // what was decided does not wait: Python gives the other up
    if (!flying || long || performance.now() - flown > PATIENCE) send(waiting.shift());
  }
  function send(message) {
    sent += 1;
    flying = sent;
    flown = performance.now();
    model.set("request", { ...message, seq: sent });
    model.save_changes();
  }
  model.on("change:answer", () => {
    const bytes = model.get("answer");
    if (!bytes || !bytes.byteLength) return;
    const came = unpack(bytes);
    if (flying && came.seq >= flying) {
      root.delays = [...(root.delays || []).slice(-499), performance.now() - flown]; // milliseconds, of the last answers
      flying = 0;
    }
    if (waiting.length && !flying && !scheduled) {
      scheduled = true; // at most one a frame
      requestAnimationFrame(() => { scheduled = false; next(); });
    }
    take(came);
  });

  function mind() {
    busy.textContent = scene ? "Computing …" : "Loading …";
    busy.hidden = scene && !model.get("busy");
    next();
  }
  model.on("change:busy", mind);

  function take(came) {
    note.hidden = !came.error;
    note.textContent = came.error || "";
    if (came.error && !came.data.paths) return;
    const fresh = !scene || scene.n !== came.n || scene.rule_name !== came.rule_name || came.refit;
    scene = came;
    mind();
    for (const { kind, token, place } of waiting) if (kind === "drag" || kind === "select") move(token, place);
    if (held && held.token !== undefined) move(held.token, held.place); // the answer knows where it was, the pointer where it is
    if (fresh && !held) box = null;
    const last = scene.layers.length - 1;
    slider.max = last;
    if (!playing && !held) layer = Math.min(scene.shown, last);
    layer = Math.min(layer, last);
    if (!held && scene.status !== spoken.textContent) spoken.textContent = scene.status;
    mark();
    draw();
  }

  function move(token, place) { // select it, and have it there at once
    const { values } = scene.data.paths;
    if (place) [values[2 * token], values[2 * token + 1]] = place;
    scene.selected = token;
  }

  function mark() {
    slider.value = layer;
    label.textContent = scene ? scene.layers[layer] : "";
    slider.setAttribute("aria-valuetext", label.textContent);
    play.textContent = playing ? "❚❚ Pause" : "▶ Play";
    undo.disabled = !(scene && scene.can_undo);
    redo.disabled = !(scene && scene.can_redo);
    remove.disabled = !(scene && scene.selected >= 0);
    add.disabled = !(scene && scene.movable);
    add.setAttribute("aria-pressed", adding);
    canvas.style.cursor = adding ? "crosshair" : "default";
  }
  function show(k) {
    layer = Math.max(0, Math.min(k, scene.layers.length - 1));
    mark();
    draw();
  }
  function step(by) { stop(); show(layer + by); ask({ kind: "show", layer }); }
  function stop() { if (playing) { clearInterval(playing); playing = 0; mark(); } }
  function toggle() {
    if (playing) { stop(); ask({ kind: "show", layer }); return; }
    if (layer >= scene.layers.length - 1) layer = 0;
    const pace = scene.layers.length > 40 ? PLAYED / 3 : PLAYED;
    playing = setInterval(() => {
      if (layer >= scene.layers.length - 1) { stop(); ask({ kind: "show", layer }); return; }
      show(layer + 1);
      if (["cells", "attention", "polytope"].some((name) => scene.overlays.includes(name))) ask({ kind: "show", layer, final: false });
    }, pace);
    mark();
  }
  function erase() {
    if (!scene || scene.selected < 0) return;
    const token = scene.selected;
    scene.selected = -1; // it is deleted once, however often one asks
    ask({ kind: "delete", token });
    mark();
  }

  // From the plane to pixels and back.
  function fit() {
    const { values } = scene.data.paths;
    let [l, b, r, t] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < values.length; i += 2) {
      l = Math.min(l, values[i]); r = Math.max(r, values[i]);
      b = Math.min(b, values[i + 1]); t = Math.max(t, values[i + 1]);
    }
    const pad = 0.12 * Math.max(r - l, t - b, 1e-9);
    box = [l - pad, b - pad, r + pad, t + pad];
  }
  function frame() {
    if (!box) fit();
    const matrix = hasMatrix() ? matrixBox(canvas.clientWidth, canvas.clientHeight).side + 28 : 0;
    const w = canvas.clientWidth - matrix, h = canvas.clientHeight;
    const scale = Math.min(w / (box[2] - box[0]), h / (box[3] - box[1]));
    return { scale, x: w / 2 - scale * (box[0] + box[2]) / 2, y: h / 2 + scale * (box[1] + box[3]) / 2 };
  }
  const toPixels = (f, x, y) => [f.x + f.scale * x, f.y - f.scale * y];
  const toPlane = (f, px, py) => [(px - f.x) / f.scale, (f.y - py) / f.scale];
  const place = (k, i) => {
    const at = 2 * (k * scene.n + i);
    return [scene.data.paths.values[at], scene.data.paths.values[at + 1]];
  };

  function colourOf(number, paper) {
    if (number === -2) return paper;
    return number < 0 ? scene.rest : scene.colours[number];
  }

  function draw() {
    if (!scene) return;
    const ratio = window.devicePixelRatio || 1;
    const w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    const css = getComputedStyle(root);
    const theme = (name, otherwise) => css.getPropertyValue(name).trim() || otherwise;
    const ink = theme("--hm-text", "#1c1c1c"), paper = theme("--hm-panel", "#ffffff");
    const line = theme("--hm-line", "#d0d4da"), shade = theme("--hm-shade", "#B8C4D6");
    paint.clearRect(0, 0, w, h);
    const f = frame();
    const on = new Set(scene.overlays);
    const still = layer === scene.shown || held || playing; // some overlays belong to the layer that Python was asked about
    if (on.has("cells") && scene.data.cells && still) drawCells(f, paper);
    drawAxes(f, w, h, line, ink);
    if (on.has("polytope") && scene.data.hull && still) drawHull(f, shade);
    if (on.has("hulls") && scene.data.hulls) drawHulls(f, ink);
    if (on.has("half-space") && scene.data.normals && scene.selected >= 0) drawHalfSpace(f, w, h, ink);
    if (on.has("trails")) drawTrails(f, line, ink);
    if (on.has("limit") && scene.data.limit) drawLimits(f, ink);
    if (on.has("ellipse") && scene.ellipse) drawEllipse(f, ink, paper);
    drawTokens(f, ink, paper, on.has("numbers"));
    if (hasMatrix() && still) drawMatrix(w, h, ink, paper, line);
  }

  function drawAxes(f, w, h, line, ink) {
    const [l, t] = toPlane(f, 0, 0), [r, b] = toPlane(f, w, h);
    const raw = (r - l) / 8, power = 10 ** Math.floor(Math.log10(raw));
    const unit = [1, 2, 5, 10].find((x) => x * power >= raw) * power;
    paint.strokeStyle = line;
    paint.fillStyle = ink;
    paint.font = "11px system-ui, sans-serif";
    for (let x = Math.ceil(l / unit) * unit; x < r; x += unit) {
      const [px] = toPixels(f, x, 0);
      paint.globalAlpha = Math.abs(x) < unit / 2 ? 1 : 0.35;
      paint.beginPath(); paint.moveTo(px, 0); paint.lineTo(px, h); paint.stroke();
      paint.globalAlpha = 0.7;
      paint.fillText(+x.toFixed(6), px + 3, h - 5);
    }
    for (let y = Math.ceil(b / unit) * unit; y < t; y += unit) {
      const [, py] = toPixels(f, 0, y);
      paint.globalAlpha = Math.abs(y) < unit / 2 ? 1 : 0.35;
      paint.beginPath(); paint.moveTo(0, py); paint.lineTo(w, py); paint.stroke();
      paint.globalAlpha = 0.7;
      paint.fillText(+y.toFixed(6), 4, py - 3);
    }
    paint.textAlign = "right";
    paint.fillText(scene.axes[0] || "", w - 12, h - 20);
    paint.textAlign = "left";
    paint.fillText(scene.axes[1] || "", 30, 14);
    paint.globalAlpha = 1;
  }
  function drawCells(f, paper) {
    const { low, high } = scene.cells, [rows, columns] = scene.data.cells.shape;
    const cell = [(high[0] - low[0]) / (columns - 1), (high[1] - low[1]) / (rows - 1)];
    const small = document.createElement("canvas"); // a pixel a cell, drawn larger at once: no seams
    small.width = columns;
    small.height = rows;
    const brush = small.getContext("2d");
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
      const number = scene.data.cells.values[r * columns + c];
      if (number === -2) continue;
      brush.fillStyle = colourOf(number, paper);
      brush.fillRect(c, rows - 1 - r, 1, 1);
    }
    const [x, y] = toPixels(f, low[0] - cell[0] / 2, high[1] + cell[1] / 2);
    paint.globalAlpha = 0.22;
    paint.imageSmoothingEnabled = false;
    paint.drawImage(small, x, y, columns * cell[0] * f.scale, rows * cell[1] * f.scale);
    paint.globalAlpha = 1;
  }
  function drawHull(f, shade) {
    const { values } = scene.data.hull;
    paint.beginPath();
    for (let i = 0; i < values.length; i += 2) paint.lineTo(...toPixels(f, values[i], values[i + 1]));
    paint.closePath();
    paint.globalAlpha = 0.45;
    paint.fillStyle = paint.strokeStyle = shade;
    paint.lineWidth = values.length <= 4 ? 6 : 1;
    paint.fill();
    paint.stroke();
    paint.globalAlpha = paint.lineWidth = 1;
  }
  function drawHulls(f, ink) { // of all tokens, in every layer up to this one: each lies in the one before
    const { values } = scene.data.hulls, ends = scene.data.hull_ends.values;
    paint.strokeStyle = ink;
    for (let k = 0; k <= layer; k++) {
      paint.globalAlpha = k === layer ? 0.8 : 0.22;
      paint.beginPath();
      for (let i = k ? ends[k - 1] : 0; i < ends[k]; i++) paint.lineTo(...toPixels(f, values[2 * i], values[2 * i + 1]));
      paint.closePath();
      paint.stroke();
    }
    paint.globalAlpha = 1;
  }
  function drawHalfSpace(f, w, h, ink) {
    const token = place(layer, scene.selected), { values } = scene.data.normals;
    const normal = [values[2 * layer], values[2 * layer + 1]];
    const length = Math.hypot(...normal) || 1, u = normal.map((x) => x / length), far = (w + h) / f.scale;
    const corner = (a, b) => toPixels(f, token[0] - a * u[1] * far + b * u[0] * far, token[1] + a * u[0] * far + b * u[1] * far);
    paint.beginPath();
    paint.moveTo(...corner(-1, 0));
    for (const [a, b] of [[1, 0], [1, 1], [-1, 1]]) paint.lineTo(...corner(a, b));
    paint.closePath();
    paint.globalAlpha = 0.16;
    paint.fillStyle = "#56B4E9";
    paint.fill();
    paint.globalAlpha = 1;
    paint.strokeStyle = "#0072B2";
    paint.beginPath(); paint.moveTo(...corner(-1, 0)); paint.lineTo(...corner(1, 0)); paint.stroke();
    const [x, y] = toPixels(f, ...token);
    paint.strokeStyle = ink;
    paint.beginPath(); paint.moveTo(x, y); paint.lineTo(x + 46 * u[0], y - 46 * u[1]); paint.stroke();
  }
  function drawTrails(f, line, ink) { // the way so far; beyond it, faintly, the way ahead
    const every = Math.max(1, Math.ceil(scene.n / MOST_TRAILS)), last = scene.layers.length - 1;
    for (const [from, to, colour, strength] of [[layer, last, line, 0.6], [0, layer, ink, 0.3]]) {
      paint.strokeStyle = colour;
      paint.globalAlpha = scene.n > 200 ? strength / 2 : strength;
      paint.beginPath();
      for (let i = 0; i < scene.n; i += every) {
        paint.moveTo(...toPixels(f, ...place(from, i)));
        for (let k = from + 1; k <= to; k++) paint.lineTo(...toPixels(f, ...place(k, i)));
      }
      paint.stroke();
    }
    paint.globalAlpha = 1;
  }
  function drawLimits(f, ink) {
    const { values } = scene.data.limit;
    paint.strokeStyle = ink;
    paint.globalAlpha = 0.8;
    for (let i = 0; i < values.length; i += 2) {
      const [x, y] = toPixels(f, values[i], values[i + 1]);
      paint.beginPath();
      paint.moveTo(x - 4, y - 4); paint.lineTo(x + 4, y + 4); paint.moveTo(x + 4, y - 4); paint.lineTo(x - 4, y + 4);
      paint.stroke();
    }
    paint.globalAlpha = 1;
  }
  function drawEllipse(f, ink, paper) {
    const [p, q] = scene.ellipse.axes;
    paint.strokeStyle = ink;
    paint.setLineDash([6, 5]);
    paint.beginPath();
    for (let a = 0; a <= 64; a++) {
      const c = Math.cos(a * Math.PI / 32), s = Math.sin(a * Math.PI / 32);
      paint.lineTo(...toPixels(f, c * p[0] + s * q[0], c * p[1] + s * q[1]));
    }
    paint.stroke();
    paint.setLineDash([]);
    for (const end of [p, q]) {
      const [x, y] = toPixels(f, ...end);
      paint.fillStyle = paper;
      paint.fillRect(x - 6, y - 6, 12, 12);
      paint.strokeRect(x - 6, y - 6, 12, 12);
    }
  }
  function star(x, y, r) {
    paint.beginPath();
    for (let i = 0; i < 10; i++) {
      const radius = i % 2 ? 0.45 * r : r, angle = -Math.PI / 2 + i * Math.PI / 5;
      paint.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
    }
    paint.closePath();
  }
  function drawTokens(f, ink, paper, numbers) {
    const { colour, own, emerged } = scene.data;
    const size = scene.n > 5000 ? 1.6 : scene.n > 800 ? 3 : scene.n > 150 ? 5 : 7;
    const leads = (i) => emerged && emerged.values[i] >= 0 && emerged.values[i] <= layer;
    const order = [];
    for (let i = 0; i < scene.n; i++) if (!leads(i)) order.push(i);
    for (let i = 0; i < scene.n; i++) if (leads(i)) order.push(i);
    paint.lineWidth = 1;
    for (const i of order) {
      const [x, y] = toPixels(f, ...(held && held.token === i && layer === 0 ? held.place : place(layer, i)));
      const lead = leads(i), number = lead ? own.values[i] : colour.values[layer * scene.n + i];
      paint.fillStyle = colourOf(number, paper);
      paint.strokeStyle = ink;
      if (lead) star(x, y, Math.max(9, 1.8 * size)); else { paint.beginPath(); paint.arc(x, y, size, 0, 7); }
      paint.fill();
      if (size > 2 || lead) paint.stroke();
      if (i === scene.selected || i === hovered || (scene.wanted || []).includes(i)) {
        paint.lineWidth = i === scene.selected ? 2.5 : 1.5;
        paint.beginPath(); paint.arc(x, y, size + 6, 0, 7); paint.stroke();
        paint.lineWidth = 1;
      }
      if ((scene.conflict || []).includes(i)) { // among those for whom there is no A
        paint.lineWidth = 3;
        paint.strokeStyle = "#D55E00";
        paint.setLineDash([4, 3]);
        paint.beginPath(); paint.arc(x, y, size + 10, 0, 7); paint.stroke();
        paint.setLineDash([]);
        paint.lineWidth = 1;
      }
      if (numbers && scene.n <= 200) {
        paint.fillStyle = ink;
        paint.font = "11px system-ui, sans-serif";
        paint.fillText(i, x + size + 3, y - size - 2);
      }
    }
  }
  const hasMatrix = () => scene.overlays.includes("attention") && scene.data.attention; // it stands beside the tokens
  function matrixBox(w, h) {
    const side = Math.min(0.36 * Math.min(w, h), 260);
    return { x: w - side - 14, y: 14, side };
  }
  function drawMatrix(w, h, ink, paper, line) {
    const { x, y, side } = matrixBox(w, h), n = scene.n, cell = side / n;
    paint.fillStyle = paper;
    paint.fillRect(x - 1, y - 1, side + 2, side + 2);
    const { values } = scene.data.attention;
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
      const weight = values[i * n + j];
      if (weight < 0.004) continue;
      paint.globalAlpha = 0.15 + 0.85 * weight;
      paint.fillStyle = "#0072B2";
      paint.fillRect(x + j * cell, y + i * cell, cell, cell);
    }
    paint.globalAlpha = 1;
    paint.strokeStyle = line;
    paint.strokeRect(x - 1, y - 1, side + 2, side + 2);
    if (hovered >= 0) {
      paint.strokeStyle = ink;
      paint.strokeRect(x, y + hovered * cell, side, cell);
      paint.strokeRect(x + hovered * cell, y, cell, side);
    }
  }

  // Pointer and keys.
  function nearest(px, py) {
    const f = frame();
    let best = -1, closest = NEAR;
    for (let i = 0; i < scene.n; i++) {
      const [x, y] = toPixels(f, ...place(layer, i));
      const distance = Math.hypot(x - px, y - py);
      if (distance < closest) { closest = distance; best = i; }
    }
    return best;
  }
  function handle(px, py) {
    if (!scene.overlays.includes("ellipse") || !scene.ellipse) return -1;
    const f = frame();
    return scene.ellipse.axes.findIndex((end) => {
      const [x, y] = toPixels(f, ...end);
      return Math.hypot(x - px, y - py) < NEAR;
    });
  }
  function at(event) {
    const bounds = canvas.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  }
  canvas.addEventListener("pointerdown", (event) => {
    if (!scene) return;
    const [px, py] = at(event), axis = handle(px, py), token = nearest(px, py);
    hovered = -1;
    tip.hidden = true;
    if (adding && scene.movable) {
      adding = false;
      ask({ kind: "add", place: toPlane(frame(), px, py) });
      return;
    }
    if (axis >= 0) held = { axis };
    else if (token >= 0) {
      scene.selected = token;
      if (scene.movable) {
        stop();
        if (layer !== 0) show(0); // only where a token starts can be chosen
        held = { token, place: place(0, token) };
      } else ask({ kind: "select", token });
    } else if (scene.selected >= 0) { scene.selected = -1; ask({ kind: "select", token: -1 }); }
    if (held) canvas.setPointerCapture(event.pointerId);
    mark();
    draw();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!scene) return;
    const [px, py] = at(event);
    if (!held) { hover(px, py); return; }
    const where = toPlane(frame(), px, py);
    held.moved = true;
    if (held.token !== undefined) {
      held.place = where;
      move(held.token, where);
      if (!scene.many) ask({ kind: "drag", token: held.token, place: where, final: false });
    } else {
      held.place = where;
      if (!scene.many) ask({ kind: "pull", axis: held.axis, place: where, final: false });
    }
    draw();
  });
  function release() {
    if (!held) return;
    const done = held;
    held = null;
    if (!done.moved) { if (done.token !== undefined) ask({ kind: "select", token: done.token }); return; }
    const kind = done.token !== undefined ? { kind: "drag", token: done.token } : { kind: "pull", axis: done.axis };
    ask({ ...kind, place: done.place, final: true });
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => { hovered = -1; tip.hidden = true; draw(); });
  canvas.addEventListener("dblclick", (event) => {
    const [px, py] = at(event);
    if (scene && scene.movable && nearest(px, py) < 0) ask({ kind: "add", place: toPlane(frame(), px, py) });
  });
  function hover(px, py) {
    let over = nearest(px, py);
    if (over < 0 && hasMatrix()) {
      const m = matrixBox(canvas.clientWidth, canvas.clientHeight);
      if (px >= m.x && px < m.x + m.side && py >= m.y && py < m.y + m.side) over = Math.floor((py - m.y) / m.side * scene.n);
    }
    if (over === hovered) return;
    hovered = over;
    tip.hidden = over < 0;
    if (over >= 0) {
      const { emerged, follows } = scene.data;
      const lead = emerged && emerged.values[over] >= 0;
      const whom = follows ? follows.values[layer * scene.n + over] : -1;
      tip.textContent = `token ${over}` + (lead ? `, leads since ${scene.layers[0].startsWith("layer") ? "layer " : ""}${emerged.values[over]}`
        : whom >= 0 ? `, follows ${whom}` : "");
      tip.style.left = `${Math.min(px + 14, canvas.clientWidth - 170)}px`;
      tip.style.top = `${py + 10}px`;
    }
    draw();
  }
  canvas.addEventListener("keydown", (event) => {
    if (!scene) return;
    const by = (event.shiftKey ? 1 : 10) / frame().scale;
    const moves = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, by], ArrowDown: [0, -by] };
    const key = event.key;
    if (key in moves && scene.selected >= 0 && scene.movable) {
      if (layer !== 0) show(0);
      const [x, y] = place(0, scene.selected), [dx, dy] = moves[key], there = [x + dx, y + dy];
      move(scene.selected, there);
      ask({ kind: "drag", token: scene.selected, place: there, final: true });
      draw();
    } else if (key === "n" || key === "p") {
      const following = (scene.selected + (key === "n" ? 1 : scene.n - 1) + scene.n) % scene.n;
      move(following);
      ask({ kind: "select", token: following });
      mark();
      draw();
    } else if (key === "Insert" || key === "a") {
      ask({ kind: "add", place: toPlane(frame(), canvas.clientWidth / 2, canvas.clientHeight / 2) });
    } else if (key === "Delete" || key === "Backspace") erase();
    else if (key === " ") toggle();
    else if (key === ",") step(-1);
    else if (key === ".") step(1);
    else if ((event.ctrlKey || event.metaKey) && key.toLowerCase() === "z") ask({ kind: event.shiftKey ? "redo" : "undo" });
    else return;
    event.preventDefault();
  });

  root.pixelsOf = (i) => toPixels(frame(), ...place(layer, i)); // for whoever drives the page: where a token is seen
  root.leaders = () => (scene ? scene.leaders : null);
  root.shown = () => layer;
  root.selected = () => (scene ? scene.selected : -1);
  root.conflict = () => (scene ? scene.conflict : null);
  root.count = () => (scene ? scene.n : 0);
  window.hmPlane = root;

  const watch = new ResizeObserver(() => draw());
  watch.observe(canvas);
  const themes = new MutationObserver(() => draw());
  themes.observe(document.documentElement, { attributes: true });
  const first = model.get("answer");
  if (first && first.byteLength) take(unpack(first)); else send({ kind: "look" });
  return () => { watch.disconnect(); themes.disconnect(); stop(); };
}

export default { render };
