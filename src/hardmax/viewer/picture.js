// A picture on a canvas: axes and shapes, in the plane or in space.
//
// In the plane, dragging pans and the wheel zooms; in space, dragging turns. A double click restores the view. With
// `edit`, dragging a marker calls edit.move(target, point, final), a click edit.pick(target or null), and a double click
// edit.add(point); `onhover` is called with the marker under the pointer, or null. The picture draws the shapes that it is given and makes no decision of its own. Colours are CSS
// colours, or names of the theme: ink, muted, line, shade, paper.

const MARGIN = { left: 52, right: 14, top: 12, bottom: 42 };
const CIRCLE = 4.6;
const STAR = 9;
const HIT = 14; // pixels around a marker in which the pointer selects it
const HIT_TOUCH = 26;
const THEME = ["ink", "muted", "line", "shade", "paper", "focus"];
const EYE = { yaw: -0.85, pitch: 0.5 };
const DISTANCE = 8; // of the eye from the centre of a box with sides of at most 2
const REACH = 1.775; // at most this far from the centre a corner of the box is seen: √3 · 8 / √(8² − 3)

export class Picture {
  constructor(host, { axes, equal = true, label = "picture", edit = null, onhover = null }) {
    Object.assign(this, { edit, onhover });
    this.setAxes(axes, equal);
    this.shapes = [];
    this.targets = [];
    this.canvas = host.appendChild(document.createElement("canvas"));
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.tooltip = host.appendChild(document.createElement("div"));
    this.tooltip.className = "hm-tooltip";
    this.tooltip.hidden = true;
    this.context = this.canvas.getContext("2d");
    this.reset();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  // The view.

  setAxes(axes, equal) {
    this.axes = axes;
    this.equal = equal;
    this.solid = axes.length === 3;
  }

  reset() {
    this.box = this.axes.map(({ low, high }) => [low, high]);
    this.eye = { ...EYE, zoom: 1 };
    this.draw();
  }

  resize() {
    const { width, height } = this.canvas.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    this.size = [width, height];
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw();
  }

  place() {
    // Compute `this.project`, from data to pixels and depth.
    const [width, height] = this.size;
    if (this.solid) return this.placeSolid(width, height);
    const inner = [width - MARGIN.left - MARGIN.right, height - MARGIN.top - MARGIN.bottom].map((side) =>
      Math.max(side, 1),
    );
    let scale = this.box.map(([low, high], r) => inner[r] / (high - low || 1));
    if (this.equal) scale = [Math.min(...scale), Math.min(...scale)];
    const middle = this.box.map(([low, high]) => (low + high) / 2);
    const centre = [MARGIN.left + inner[0] / 2, MARGIN.top + inner[1] / 2];
    this.scale = scale;
    this.shown = middle.map((value, r) => [value - inner[r] / 2 / scale[r], value + inner[r] / 2 / scale[r]]);
    this.project = (point) => [
      centre[0] + (point[0] - middle[0]) * scale[0],
      centre[1] - (point[1] - middle[1]) * scale[1],
      0,
    ];
    this.unproject = (x, y) => [middle[0] + (x - centre[0]) / scale[0], middle[1] - (y - centre[1]) / scale[1]];
  }

  placeSolid(width, height) {
    const spans = this.axes.map(({ low, high }) => high - low || 1);
    const widest = Math.max(...spans);
    const middle = this.axes.map(({ low, high }) => (low + high) / 2);
    const factor = spans.map((span) => 2 / (this.equal ? widest : span));
    const { yaw, pitch, zoom } = this.eye;
    const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    const scale = Math.max(1, (Math.min(width, height) / 2 - 18) / REACH) * zoom;
    this.project = (point) => {
      const [a, b, c] = point.map((value, r) => (value - middle[r]) * factor[r]);
      const right = cy * a - sy * b;
      const forward = sy * a + cy * b; // away from the eye
      const depth = cp * forward - sp * c;
      const near = DISTANCE / (DISTANCE + depth);
      return [width / 2 + scale * right * near, height / 2 - scale * (cp * c + sp * forward) * near, depth];
    };
  }

  // Input.

  listen() {
    const { canvas } = this;
    let held = null; // the pointer that is down: its last position, the marker under it, and whether it has moved
    let pinch = null; // two fingers: their identifiers and positions
    canvas.addEventListener("pointerdown", (event) => {
      if (held && event.pointerType === "touch" && !held.moved && !pinch) {
        pinch = new Map([
          [held.id, held.last],
          [event.pointerId, [event.clientX, event.clientY]],
        ]);
        canvas.setPointerCapture(event.pointerId);
      }
      if (held || event.button > 0) return;
      const reach = event.pointerType === "touch" ? HIT_TOUCH : HIT;
      const found = this.edit && this.find(event.offsetX, event.offsetY, reach);
      const target = found && found.movable ? found : null;
      const grip = target && [event.offsetX - target.x, event.offsetY - target.y];
      held = { id: event.pointerId, last: [event.clientX, event.clientY], found, target, grip, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (pinch?.has(event.pointerId)) return this.pinch(pinch, event);
      if (!held) return this.point(event.offsetX, event.offsetY);
      if (event.pointerId !== held.id) return;
      const [dx, dy] = [event.clientX - held.last[0], event.clientY - held.last[1]];
      if (!held.moved && Math.hypot(dx, dy) < 3) return;
      Object.assign(held, { last: [event.clientX, event.clientY], moved: true });
      if (held.target)
        this.edit.move(held.target, this.unproject(event.offsetX - held.grip[0], event.offsetY - held.grip[1]), false);
      else this.drag(dx, dy);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (!held || event.pointerId !== held.id) return;
      const { target, found, grip, moved } = held;
      held = null;
      if (pinch) return (pinch = null);
      if (!this.edit) return;
      if (target && moved)
        this.edit.move(target, this.unproject(event.offsetX - grip[0], event.offsetY - grip[1]), true);
      else if (!moved) this.edit.pick?.(found);
    });
    canvas.addEventListener("pointercancel", () => (held = pinch = null));
    canvas.addEventListener("pointerleave", () => this.point(-1e6, -1e6));
    canvas.addEventListener("dblclick", (event) => {
      if (!this.edit?.add || this.solid) this.reset();
      else if (!this.find(event.offsetX, event.offsetY)) this.edit.add(this.unproject(event.offsetX, event.offsetY));
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!this.edit?.add && !event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return; // the page scrolls
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    canvas.tabIndex = 0;
    canvas.addEventListener("keydown", (event) => {
      if (this.edit?.add) return; // its owner handles keys
      const step = { ArrowLeft: [20, 0], ArrowRight: [-20, 0], ArrowUp: [0, 20], ArrowDown: [0, -20] }[event.key];
      const factor = { "+": 1.25, "=": 1.25, "-": 0.8 }[event.key];
      if (step) this.drag(...step);
      else if (factor) this.zoom(factor, this.size[0] / 2, this.size[1] / 2);
      else if (event.key === "0") this.reset();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  drag(dx, dy) {
    this.tooltip.hidden = true;
    if (this.solid) {
      this.eye.yaw += dx * 0.008;
      this.eye.pitch = Math.max(-1.55, Math.min(1.55, this.eye.pitch + dy * 0.008));
    } else {
      const shift = [-dx / this.scale[0], dy / this.scale[1]];
      this.box = this.box.map((range, r) => range.map((value) => value + shift[r]));
    }
    this.draw();
  }

  zoom(factor, x, y) {
    if (this.solid) {
      this.eye.zoom = Math.max(0.3, Math.min(8, this.eye.zoom * factor));
    } else {
      const at = this.unproject(x, y);
      this.box = this.box.map((range, r) => range.map((value) => at[r] + (value - at[r]) / factor));
    }
    this.draw();
  }

  pinch(fingers, event) {
    const measure = () => {
      const [[a, b], [c, d]] = fingers.values();
      return [Math.hypot(a - c, b - d) || 1, (a + c) / 2, (b + d) / 2];
    };
    const [before, x, y] = measure();
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    const [after, u, v] = measure();
    const box = this.canvas.getBoundingClientRect();
    this.drag(u - x, v - y);
    this.zoom(after / before, u - box.x, v - box.y);
  }

  find(x, y, reach = HIT) {
    let [best, found] = [reach ** 2, null];
    for (const target of this.targets) {
      const distance = (target.x - x) ** 2 + (target.y - y) ** 2;
      if (distance <= best) [best, found] = [distance, target];
    }
    return found;
  }

  point(x, y) {
    const found = this.find(x, y);
    (this.edit?.hover || this.onhover)?.(found);
    this.tooltip.hidden = !found || !found.text;
    if (this.tooltip.hidden) return;
    this.tooltip.textContent = found.text;
    const left = Math.min(found.x + 12, this.size[0] - this.tooltip.offsetWidth - 4);
    this.tooltip.style.transform = `translate(${left}px, ${Math.max(found.y - this.tooltip.offsetHeight - 8, 2)}px)`;
  }

  // Drawing.

  show(shapes) {
    this.shapes = shapes;
    this.draw();
  }

  colour(name) {
    return this.theme[name] || name;
  }

  draw() {
    if (!this.size || !this.size[0]) return;
    const style = getComputedStyle(this.canvas);
    this.theme = Object.fromEntries(THEME.map((name) => [name, style.getPropertyValue(`--hm-${name}`).trim()]));
    this.font = style.fontFamily;
    this.unit = parseFloat(style.fontSize) / 14; // larger in presentations
    this.place();
    this.targets = [];
    const { context } = this;
    context.clearRect(0, 0, ...this.size);
    context.lineJoin = context.lineCap = "round";
    if (this.solid) this.drawBox();
    else this.drawAxes();
    context.save();
    if (!this.solid) {
      context.beginPath();
      context.rect(
        MARGIN.left,
        MARGIN.top,
        this.size[0] - MARGIN.left - MARGIN.right,
        this.size[1] - MARGIN.top - MARGIN.bottom,
      );
      context.clip();
    }
    for (const shape of this.shapes) this[shape.kind](shape);
    context.restore();
  }

  paint(context) {
    // Draw the picture in another context.
    const own = this.context;
    this.context = context;
    this.draw();
    this.context = own;
  }

  drawAxes() {
    const { context } = this;
    const bottom = this.size[1] - MARGIN.bottom;
    const right = this.size[0] - MARGIN.right;
    context.font = `${12 * this.unit}px ${this.font}`;
    context.strokeStyle = this.colour("line");
    context.fillStyle = this.colour("muted");
    context.lineWidth = 1;
    this.axes.forEach((axis, r) => {
      if (axis.hidden) return;
      for (const [value, text] of axis.ticks || ticks(...this.shown[r], r ? 6 : 7)) {
        const [x, y] = this.project(r ? [this.shown[0][0], value] : [value, this.shown[1][0]]);
        if (r ? y < MARGIN.top - 1 || y > bottom + 1 : x < MARGIN.left - 1 || x > right + 1) continue;
        context.globalAlpha = value === 0 ? 1 : 0.45;
        line(context, r ? [[MARGIN.left, y], [right, y]] : [[x, MARGIN.top], [x, bottom]]);
        context.globalAlpha = 1;
        context.textAlign = r ? "right" : "center";
        context.textBaseline = r ? "middle" : "top";
        context.fillText(text, r ? MARGIN.left - 7 : x, r ? y : bottom + 6);
      }
    });
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    context.fillText(this.axes[0].label, (MARGIN.left + right) / 2, this.size[1] - 6);
    context.save();
    context.translate(12, (MARGIN.top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(this.axes[1].label, 0, 0);
    context.restore();
  }

  drawBox() {
    const { context } = this;
    const ends = this.axes.map(({ low, high }) => [low, high]);
    const corner = (bits) => ends.map(([low, high], r) => ((bits >> r) & 1 ? high : low));
    context.strokeStyle = this.colour("line");
    context.fillStyle = this.colour("muted");
    context.font = `${12 * this.unit}px ${this.font}`;
    context.textAlign = "center";
    context.lineWidth = 1;
    for (let bits = 0; bits < 8; bits++) {
      for (let r = 0; r < 3; r++) {
        if ((bits >> r) & 1) continue;
        line(context, [corner(bits), corner(bits | (1 << r))].map(this.project));
      }
    }
    this.axes.forEach((axis, r) => {
      // Label the lowest edge of the axis on the screen, for the vertical axis the leftmost one.
      const edges = [0, 1, 2, 3].map((k) => {
        const others = [0, 1, 2].filter((s) => s !== r);
        const bits = ((k & 1) << others[0]) | ((k >> 1) << others[1]);
        return [this.project(corner(bits)), this.project(corner(bits | (1 << r)))];
      });
      const rank = ([a, b]) => (r === 2 ? -(a[0] + b[0]) : a[1] + b[1]);
      const [a, b] = edges.reduce((best, edge) => (rank(edge) > rank(best) ? edge : best));
      context.fillText(axis.label, (a[0] + b[0]) / 2 - (r === 2 ? 14 : 0), (a[1] + b[1]) / 2 + (r === 2 ? 0 : 16));
    });
  }

  lines({ paths, colour = "muted", width = 1.3, alpha = 0.6, dash = [] }) {
    const { context } = this;
    context.strokeStyle = this.colour(colour);
    context.lineWidth = width;
    context.globalAlpha = alpha;
    context.setLineDash(dash);
    for (const path of paths) line(context, path.map(this.project));
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  polygon({ points, facets = null, colour = "shade", alpha = 0.35 }) {
    // Fill a polygon, or the facets of a solid, given as triples of indices.
    const { context } = this;
    const at = points.map(this.project);
    context.fillStyle = context.strokeStyle = this.colour(colour);
    context.lineWidth = 1;
    for (const facet of facets || [at.keys()]) {
      context.beginPath();
      for (const index of facet) context.lineTo(at[index][0], at[index][1]);
      context.closePath();
      context.globalAlpha = facets ? alpha / 2 : alpha;
      context.fill();
      context.globalAlpha = facets ? 0.5 : 0.8;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  arrow({ from, to, colour = "ink", width = 2 }) {
    const { context } = this;
    const [a, b] = [this.project(from), this.project(to)];
    const length = Math.hypot(b[0] - a[0], b[1] - a[1]);
    if (length < 1) return;
    const [ux, uy] = [(b[0] - a[0]) / length, (b[1] - a[1]) / length];
    const head = Math.min(11, length / 2);
    context.strokeStyle = context.fillStyle = this.colour(colour);
    context.lineWidth = width;
    line(context, [a, [b[0] - ux * head * 0.8, b[1] - uy * head * 0.8]]);
    context.beginPath();
    context.moveTo(b[0], b[1]);
    context.lineTo(b[0] - ux * head - uy * head * 0.45, b[1] - uy * head + ux * head * 0.45);
    context.lineTo(b[0] - ux * head + uy * head * 0.45, b[1] - uy * head - ux * head * 0.45);
    context.fill();
  }

  text({ at, text, colour = "ink", size = 14 }) {
    const [x, y] = this.project(at);
    this.context.font = `${size}px ${this.font}`;
    this.context.fillStyle = this.colour(colour);
    this.context.textAlign = "center";
    this.context.fillText(text, x, y);
  }

  handles({ points, colour = "ink" }) {
    // Squares that can be dragged.
    const { context } = this;
    points.forEach((point, handle) => {
      const [x, y] = this.project(point);
      this.targets.push({ x, y, handle, movable: true });
      context.fillStyle = this.colour("paper");
      context.strokeStyle = this.colour(colour);
      context.lineWidth = 1.5;
      context.beginPath();
      context.rect(x - 6, y - 6, 12, 12);
      context.fill();
      context.stroke();
    });
  }

  rings({ points, colour = "ink", radius = 12, width = 2, dash = [] }) {
    const { context } = this;
    context.strokeStyle = this.colour(colour);
    context.lineWidth = width;
    context.setLineDash(dash);
    for (const point of points) {
      const [x, y] = this.project(point);
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.stroke();
    }
    context.setLineDash([]);
  }

  crosses({ points, colour = "ink", size = 4 }) {
    this.context.strokeStyle = this.colour(colour);
    this.context.lineWidth = 1.2;
    for (const point of points) {
      const [x, y] = this.project(point);
      for (const s of [-size, size]) line(this.context, [[x - s, y - size], [x + s, y + size]]);
    }
  }

  points({
    points,
    colours,
    edges = null,
    stars = null,
    hidden = null,
    texts = null,
    names = null,
    size = 1,
    star: larger = 1,
    movable = false,
  }) {
    // Draw far points first and stars last; `colours` is one colour or one per point.
    const { context } = this;
    const at = points.map(this.project);
    const order = [...at.keys()].sort((i, j) => (stars ? stars[i] - stars[j] : 0) || at[j][2] - at[i][2] || i - j);
    const colour_of = (values, i) => this.colour(Array.isArray(values) ? values[i] : values);
    for (const i of order) {
      const [x, y] = at[i];
      if (texts || movable) this.targets.push({ x, y, index: i, movable, text: texts ? texts[i] : "" });
      if (hidden && hidden[i]) continue;
      const edge = edges ? colour_of(edges, i) : this.colour("ink");
      context.beginPath();
      if (stars && stars[i]) star(context, x, y, STAR * larger * Math.sqrt(size) * this.unit);
      else context.arc(x, y, CIRCLE * size * this.unit, 0, 2 * Math.PI);
      context.fillStyle = colour_of(colours, i);
      context.fill();
      context.strokeStyle = edge;
      context.lineWidth = edge === this.colour("ink") ? 1 : 2.4;
      context.stroke();
    }
    context.font = `${13 * this.unit}px ${this.font}`;
    context.fillStyle = this.colour("ink");
    for (const i of names ? order : []) {
      const right = at[i][0] > 0.8 * this.size[0]; // so that long names stay inside
      context.textAlign = right ? "right" : "left";
      context.fillText(names[i], at[i][0] + (right ? -8 : 8), at[i][1] - 8);
    }
  }
}

function line(context, points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
  context.stroke();
}

function star(context, x, y, radius) {
  for (let k = 0; k < 10; k++) {
    const [r, angle] = [k % 2 ? radius * 0.42 : radius, (k * Math.PI) / 5 - Math.PI / 2];
    context.lineTo(x + r * Math.cos(angle), y + r * Math.sin(angle));
  }
  context.closePath();
}

export function ticks(low, high, count) {
  // Return round numbers in a range with their texts.
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    const value = k === 0 ? 0 : k * step;
    const text = digits > 5 || Math.abs(value) >= 1e6 ? value.toExponential(0) : value.toFixed(Math.min(digits, 8));
    found.push([value, text.replace("-", "−")]);
  }
  return found;
}
