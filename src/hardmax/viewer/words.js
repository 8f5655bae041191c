// A text with coloured words. A click, or Enter, removes a word or restores it; arrow keys go from word to word.

import { fill, h, signed } from "./dom.js";

export class Words {
  // `onedit(start, end, replacement or null)`: null restores the word as typed.
  constructor(host, { onedit, label }) {
    this.onedit = onedit;
    this.text = h("div", { className: "hm-words", role: "group", ariaLabel: label });
    this.about = h("span", { className: "hm-note" });
    this.input = h("input", { maxLength: 200, placeholder: "another word", hidden: true });
    this.put = h("button", { type: "button", hidden: true, onclick: () => this.replace() }, "Replace");
    host.append(this.text, h("div", { className: "hm-word-tools" }, this.about, this.input, this.put));
    this.current = null;
    this.shown = new Map(); // from the start of a word to [piece, element]
    this.text.addEventListener("click", (event) => this.pick(event, (piece) => this.toggle(piece)));
    this.text.addEventListener("focusin", (event) => this.pick(event, () => {}));
    this.text.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("keydown", (event) => event.key === "Enter" && this.replace());
  }

  pick(event, act) {
    const word = event.target.closest(".hm-word");
    if (!word) return;
    const start = Number(word.dataset.start);
    this.choose(start, event.type === "click");
    act(this.shown.get(start)[0]);
  }

  toggle(piece) {
    this.onedit(piece.start, piece.end, piece.was === undefined ? "" : null);
  }

  replace() {
    const found = this.shown.get(this.current);
    const replacement = this.input.value.trim();
    if (!found || !replacement) return;
    this.input.value = "";
    this.onedit(found[0].start, found[0].end, replacement);
  }

  key(event) {
    const starts = [...this.shown.keys()];
    const at = starts.indexOf(this.current);
    const step = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: starts.length - 1 }[event.key];
    if (step !== undefined) this.choose(starts[Math.max(0, Math.min(starts.length - 1, step))], true);
    else if (event.key === "Enter" || event.key === " ") this.toggle(this.shown.get(this.current)[0]);
    else return;
    event.preventDefault();
  }

  choose(start, focus) {
    const before = this.shown.get(this.current);
    if (before) before[1].tabIndex = -1;
    this.current = start;
    const found = this.shown.get(start) || this.shown.values().next().value;
    if (found) found[1].tabIndex = 0; // one tab stop for all words
    if (focus && found) found[1].focus();
    this.describe();
  }

  describe() {
    const found = this.shown.get(this.current);
    this.input.hidden = this.put.hidden = !found;
    this.about.textContent = this.shown.size && !found ? "Click a word to remove it." : "";
    if (!found) return;
    const [piece] = found;
    const name = `“${piece.was ?? piece.text}”`;
    this.about.textContent = `${name} ${piece.was === undefined ? signed(piece.value) : piece.text ? "replaced" : "removed"}. Replace by`;
    this.input.setAttribute("aria-label", `Replacement of ${name}`);
  }

  show(pieces, classes) {
    const had = this.text.contains(document.activeElement);
    this.shown = new Map();
    const parts = pieces.map((piece) => {
      if (piece.start === undefined) return piece.text;
      const word = makeWord(piece, classes);
      this.shown.set(piece.start, [piece, word]);
      return word;
    });
    fill(this.text, ...parts);
    this.choose(this.shown.has(this.current) ? this.current : null, had);
  }
}

function makeWord(piece, classes) {
  const removed = piece.was !== undefined && !piece.text;
  const about = removed ? "removed" : `${signed(piece.value)}, for ${classes[piece.class].name}`;
  const content =
    piece.was === undefined
      ? [piece.text]
      : [h("del", {}, piece.was), piece.text ? h("ins", {}, ` ${piece.text}`) : ""];
  const word = h(
    "span",
    {
      className: "hm-word",
      role: "button",
      tabIndex: -1,
      title: about,
      ariaLabel: `${piece.was ?? piece.text}, ${about}`,
      ariaPressed: `${piece.was !== undefined}`,
    },
    ...content,
  );
  word.dataset.start = piece.start;
  if (piece.strength)
    word.style.background = `color-mix(in srgb, ${classes[piece.class].colour} ${Math.round(8 + 47 * piece.strength)}%, transparent)`;
  return word;
}
