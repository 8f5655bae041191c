// Pictures as files. `SvgContext` is the part of CanvasRenderingContext2D that `Picture` uses.

const UNSET = { globalAlpha: 1, lineWidth: 1, dash: [], transform: "", clipped: "", textBaseline: "alphabetic" };
const ANCHORS = { center: "middle", right: "end" };
const escapeText = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
const short = (...values) => values.map((value) => Math.round(100 * value) / 100).join(" ");

export class SvgContext {
  constructor() {
    Object.assign(this, UNSET, { parts: [], path: "", saved: [], clips: 0 });
  }

  beginPath = () => (this.path = "");
  moveTo = (x, y) => (this.path += `M${short(x, y)}`);
  lineTo = (x, y) => (this.path += `${this.path ? "L" : "M"}${short(x, y)}`);
  closePath = () => (this.path += "Z");
  rect = (x, y, width, height) => (this.path += `M${short(x, y)}h${short(width)}v${short(height)}h${short(-width)}Z`);
  translate = (x, y) => (this.transform += `translate(${short(x, y)})`);
  rotate = (angle) => (this.transform += `rotate(${short((180 * angle) / Math.PI)})`);
  setLineDash = (dash) => (this.dash = dash);
  clearRect = () => {};

  arc(x, y, radius) {
    const half = (side) => `a${short(radius, radius)} 0 1 0 ${short(2 * side * radius)} 0`;
    this.path += `M${short(x - radius, y)}${half(1)}${half(-1)}Z`;
  }

  save() {
    this.saved.push(Object.fromEntries(Object.keys(UNSET).map((name) => [name, this[name]])));
  }

  restore() {
    Object.assign(this, this.saved.pop());
  }

  clip() {
    const name = `clip${++this.clips}`;
    this.parts.push(`<clipPath id="${name}"><path d="${this.path}"/></clipPath>`);
    this.clipped = ` clip-path="url(#${name})"`;
  }

  fill() {
    this.add("path", `d="${this.path}" fill="${escapeText(this.fillStyle)}"`);
  }

  stroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${short(...this.dash)}"` : "";
    const look = `stroke="${escapeText(this.strokeStyle)}" stroke-width="${short(this.lineWidth)}"${dash}`;
    this.add("path", `d="${this.path}" fill="none" stroke-linecap="round" stroke-linejoin="round" ${look}`);
  }

  fillText(text, x, y) {
    const [, size, family] = this.font.match(/([\d.]+)px (.*)/);
    const down = { middle: 0.35, top: 0.85 }[this.textBaseline] || 0; // some programs ignore dominant-baseline
    const place = `x="${short(x)}" y="${short(y + down * size)}" text-anchor="${ANCHORS[this.textAlign] || "start"}"`;
    const font = `font-size="${size}" font-family="${escapeText(family)}" fill="${escapeText(this.fillStyle)}"`;
    this.add("text", `${place} ${font}`, escapeText(`${text}`));
  }

  add(tag, attributes, content = "") {
    const alpha = this.globalAlpha < 1 ? ` opacity="${short(this.globalAlpha)}"` : "";
    const transform = this.transform && ` transform="${this.transform}"`;
    this.parts.push(`<${tag} ${attributes}${alpha}${transform}${this.clipped}>${content}</${tag}>`);
  }

  finish(width, height, paper) {
    const size = `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
    const back = `<rect width="100%" height="100%" fill="${paper}"/>`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${back}${this.parts.join("\n")}</svg>\n`;
  }
}

export function toSvg(picture) {
  const context = new SvgContext();
  picture.paint(context);
  const text = context.finish(...picture.size.map(Math.round), picture.colour("paper"));
  return new Blob([text], { type: "image/svg+xml" });
}

export function toPng(picture) {
  // Twice the resolution of the screen, on the colour of the page.
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = picture.size.map((side) => 2 * side);
  const context = canvas.getContext("2d");
  context.setTransform(2, 0, 0, 2, 0, 0);
  picture.paint(context);
  context.globalCompositeOperation = "destination-over";
  context.fillStyle = picture.colour("paper");
  context.fillRect(0, 0, ...picture.size);
  return new Promise((resolve) => canvas.toBlob(resolve));
}
