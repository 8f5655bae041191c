// Charts in SVG: horizontal bars and a matrix of colours, whose values change from frame to frame.

import { ticks } from "./picture.js";

const SVG = "http://www.w3.org/2000/svg";

function add(parent, name, attributes = {}, text = "") {
  const element = parent.appendChild(document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

function surface(host, width, height, label) {
  const svg = add(host, "svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": label,
    class: "hm-chart",
  });
  svg.style.maxHeight = `${height}px`;
  host.style.flex = `${width} 1 0`; // charts side by side have one scale
  return svg;
}

const ROW = 22;
const LEFT = 112;
const WIDTH = 620;

export class Bars {
  // One bar per name; `low` and `high` bound the values. Positive bars have the colour `positive`.
  constructor(
    host,
    { names, low, high, label, positive, negative = positive, percent = false, width = WIDTH, left = LEFT },
  ) {
    const height = ROW * names.length + 44;
    const svg = surface(host, width, height, label);
    const scale = (width - left - 14) / (high - low);
    this.x = (value) => left + (value - low) * scale;
    this.colours = [positive, negative];
    this.percent = percent;
    for (const [value, number] of ticks(low, high, Math.max(2, width / 90))) {
      const text = percent ? `${Math.round(100 * value)} %` : number;
      add(svg, "line", {
        x1: this.x(value),
        x2: this.x(value),
        y1: 4,
        y2: height - 34,
        class: value ? "hm-grid" : "hm-zero",
      });
      add(svg, "text", { x: this.x(value), y: height - 20, "text-anchor": "middle", class: "hm-tick" }, text);
    }
    add(svg, "text", { x: (left + width) / 2, y: height - 3, "text-anchor": "middle", class: "hm-tick" }, label);
    this.bars = names.map((name, i) => {
      if (left > 20) add(svg, "text", { x: left - 8, y: ROW * i + 20, "text-anchor": "end", class: "hm-name" }, name);
      const bar = add(svg, "rect", { y: ROW * i + 7, height: ROW - 7 });
      return [bar, add(bar, "title")];
    });
  }

  show(values) {
    values.forEach((value, i) => {
      const [bar, title] = this.bars[i];
      bar.setAttribute("x", this.x(Math.min(value, 0)));
      bar.setAttribute("width", Math.abs(this.x(value) - this.x(0)));
      bar.style.fill = this.colours[value < 0 ? 1 : 0];
      title.textContent = this.percent ? `${(100 * value).toFixed(1)} %` : value.toFixed(2);
    });
  }
}

export class Matrix {
  // A square matrix of values between `low` and `high`, coloured by `colours`, from the lowest value to the highest.
  constructor(host, { names, low, high, label, colours, cell = 22, left = LEFT }) {
    const side = cell * names.length;
    const svg = surface(host, left + side + 8, side + 40, label);
    this.colour = (value) => {
      const at = Math.max(0, Math.min(1, (value - low) / (high - low))) * (colours.length - 1);
      return colours[Math.round(at)];
    };
    this.cells = names.map((name, i) => {
      add(svg, "text", { x: left - 8, y: cell * i + cell * 0.68, "text-anchor": "end", class: "hm-name" }, name);
      return names.map((other, j) => {
        const square = add(svg, "rect", { x: left + cell * j, y: cell * i, width: cell - 1, height: cell - 1 });
        return [square, add(square, "title"), `${name}, ${other}`];
      });
    });
    const width = side / colours.length;
    colours.forEach((colour, i) => {
      add(svg, "rect", { x: left + width * i, y: side + 6, width: width + 0.5, height: 8, fill: colour });
    });
    add(svg, "text", { x: left, y: side + 28, class: "hm-tick" }, `${low}`.replace("-", "−"));
    add(svg, "text", { x: left + side, y: side + 28, "text-anchor": "end", class: "hm-tick" }, `${high}`);
    add(svg, "text", { x: left + side / 2, y: side + 28, "text-anchor": "middle", class: "hm-tick" }, label);
  }

  show(values) {
    values.forEach((row, i) =>
      row.forEach((value, j) => {
        const [square, title, names] = this.cells[i][j];
        square.setAttribute("fill", this.colour(value));
        title.textContent = `${names}: ${value.toFixed(2)}`;
      }),
    );
  }
}
