// The explorer of texts: type a text, see its prediction and the contribution of each word.

import { copyLink, download, encodeBase64, keepLink, post } from "./data.js";
import { button, choices, field, fill, group, h, signed, table } from "./dom.js";
import { mount } from "./player.js";
import { CROSS, Tokens } from "./tokens.js";
import { Words } from "./words.js";

const TYPING_MS = 120; // of silence before a text is sent
const HEAD_STEP_MS = 500; // milliseconds per layer of a head
const LEAD =
  "Type a text. Each word has the colour of the class it supports, stronger for a larger contribution. Click a word to remove it.";
const MAX_TEXTS = 6;
const SHOWN_ROWS = 200;
const LEADER_COLOURS = ["#009E73", "#CC79A7", "#882255", "#F0E442", "#332288", "#56B4E9", "#E69F00", "#117733"]; // not those of the classes
const EXPORTS = { html: "Page", png: "PNG", svg: "SVG", gif: "Movie of the head", csv: "CSV", json: "JSON", py: "Python" };

export function percent(value) {
  return value > 0.9995 ? "over 99.9%" : `${(100 * value).toFixed(1)}%`;
}

export class Explanation {
  // One text with its explanation; used in the app for each text, and alone in notebooks.
  constructor(host, { call, text, edits = [], model, head = 0, editable = true, onedit = () => {}, onchange = () => {} }) {
    Object.assign(this, { host, call, model, head, onedit, onchange, state: { text, edits } });
    this.area = h("textarea", {
      rows: 5,
      value: text,
      ariaLabel: "Text",
      spellcheck: true,
      maxLength: 20000,
      oninput: () => this.update(this.area.value, [], TYPING_MS),
    });
    this.sentence = h("p", { className: "hm-answer", role: "status" });
    this.change = h("p", { className: "hm-note" });
    this.problem = h("p", { className: "hm-problem", role: "alert", hidden: true });
    const words = h("div");
    this.words = new Words(words, {
      label: "Words of the text",
      onedit: (...place) => this.edit([place]),
    });
    this.details = h("div", { className: "hm-details" });
    fill(host, editable ? this.area : null, this.problem, this.sentence, this.change, words, this.details);
    this.ask();
  }

  update(text, edits, delay = 0) {
    this.state = { text, edits: edits.sort((a, b) => a[0] - b[0]) };
    this.onedit();
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.ask(), delay);
  }

  edit(places) {
    // Replace words of the text as typed: places of [start, end, replacement], with null to restore the word.
    const others = this.state.edits.filter(([start]) => !places.some(([first]) => first === start));
    this.update(this.state.text, [...others, ...places.filter(([, , replacement]) => replacement !== null)]);
  }

  body() {
    return { ...this.state, model: this.model, head: this.head };
  }

  async ask() {
    if (this.pending) this.pending.abort();
    const control = (this.pending = new AbortController());
    this.problem.hidden = true;
    try {
      const answer = await this.call("explain", this.body(), control.signal);
      if (this.pending !== control) return;
      this.pending = null;
      this.show(answer);
      this.onchange(this);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.warn(error);
      this.host.classList.add("hm-stale");
    }
  }

  warn({ message }) {
    this.problem.hidden = false;
    this.problem.textContent = message;
  }

  show(answer) {
    this.answer = answer;
    this.host.classList.remove("hm-stale");
    const known = answer.known
      ? ` Its words and phrases make ${answer.known} tokens that the model knows; their contributions and the bias sum to the logit ${signed(answer.logit)}.`
      : "";
    fill(this.sentence, h("strong", { className: "hm-prediction" }, answer.sentence), known);
    this.sentence
      .querySelector(".hm-prediction")
      .style.setProperty("--class", answer.classes[answer.prediction].colour);
    this.change.textContent = answer.change;
    this.words.show(answer.pieces, answer.classes);
    const open = new Set(
      [...this.details.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent),
    );
    fill(this.details, ...(answer.known ? this.sections(answer) : []));
    for (const summary of this.details.querySelectorAll("details > summary"))
      summary.parentElement.open ||= open.has(summary.textContent);
  }

  sections(answer) {
    const sum = { name: "logit", start: 0, value: answer.logit, class: answer.prediction, sum: true };
    const sentences = answer.sentences.map((part) => ({ ...part, start: 0 }));
    const heads = Array.from({ length: answer.heads }, (_, k) => [`${k}`, `${k + 1}`]);
    const head = choices(heads, `${answer.head.index}`, (value) => {
      this.head = Number(value);
      this.ask();
    });
    const exports = Object.entries(EXPORTS).map(([kind, name]) => button(name, () => this.export(kind)));
    const plane = h("div");
    const result = [
      group("Sum of the contributions", true, bars([...answer.waterfall, sum], answer.classes)),
      group("Sum by sentence", sentences.length > 1, bars([...sentences, sum], answer.classes)),
      group("Which words change the prediction?", false, this.flipControl()),
      group(
        "Leaders over all heads",
        false,
        table(
          ["leader", "heads", "mean share", "mean followers"],
          answer.leading.map((one) => [one.word, one.heads, percent(one.share), one.followers.toFixed(0)]),
        ),
      ),
      group(
        "Leaders of one head",
        false,
        answer.heads > 1 ? field("Head", head) : null,
        table(
          ["leader", "share", "since layer", "followers"],
          answer.head.leaders.map((one) => [
            one.word,
            percent(one.share),
            one.since,
            one.followers.join(", ") + (one.more ? ` and ${one.more} more` : ""),
          ]),
        ),
        plane,
      ),
      group("Export", false, h("div", { className: "hm-buttons" }, ...exports)),
    ];
    result[4].addEventListener("toggle", () => result[4].open && !plane.hasChildNodes() && showPlane(plane, answer));
    return result;
  }

  flipControl() {
    const found = h("p", { role: "status" });
    const remove = button("Remove these words", () => {}, { hidden: true });
    const search = async () => {
      found.textContent = "Searching …";
      const { state } = this;
      const { message, sentence, flips, places } = await this.call("flip", this.body()).catch((error) => error);
      if (this.state !== state) return;
      found.textContent = message || sentence;
      remove.hidden = !flips;
      remove.onclick = () => this.edit(places.map(([start, end]) => [start, end, ""]));
    };
    return h("div", {}, button("Find a small set of words", search), found, remove);
  }

  async export(kind) {
    const blob = await this.call("export-text", { ...this.body(), kind }).catch((error) => this.warn(error));
    if (blob) download(blob, `explanation.${kind}`);
  }
}

function bars(rows, classes) {
  const ends = rows.flatMap(({ start, value }) => [start, start + value]);
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const scale = 100 / (high - low || 1);
  return h(
    "div",
    { className: "hm-bars" },
    ...rows.flatMap(({ name, start, value, class: side, sum }) => {
      const bar = h("span", { className: "hm-bar-fill" });
      bar.style.left = `${(Math.min(start, start + value) - low) * scale}%`;
      bar.style.width = `${Math.abs(value) * scale}%`;
      bar.style.background = classes[side].colour;
      const zero = h("span", { className: "hm-zero-line" });
      zero.style.left = `${-low * scale}%`;
      const kind = sum ? "hm-sum" : "";
      return [
        h("span", { className: kind, title: name }, name),
        h("span", { className: "hm-track", ariaHidden: "true" }, bar, zero),
        h("span", { className: `hm-number ${kind}` }, signed(value)),
      ];
    }),
  );
}

function showPlane(host, { head: { plane } }) {
  const note = (text) => h("p", { className: "hm-note" }, text);
  if (!plane) return fill(host, note("Only heads with two coordinates, of a model with two classes, are drawn."));
  const layers = plane.positions.map((points, k) => [...points, plane.means[k]]); // the mean is the last point
  const ends = [0, 1].map((r) => layers.flat().map((point) => point[r]));
  const ranges = ends.map((values) => [Math.min(...values), Math.max(...values)]);
  const pad = 0.08 * Math.max(...ranges.map(([low, high]) => high - low), 1e-6);
  const axes = ranges.map(([low, high], r) => ({ label: ["z₁", "z₂"][r], low: low - pad, high: high + pad }));
  const [a, b] = plane.normal;
  const size = a * a + b * b || 1;
  const foot = [(-a * plane.offset) / size, (-b * plane.offset) / size];
  const far = (100 * pad) / Math.sqrt(size);
  const path = [-1, 1].map((s) => [foot[0] - s * far * b, foot[1] + s * far * a]);
  const leaders = plane.leads.flatMap((leads, i) => (leads ? [i] : []));
  const [grey, ink] = [LEADER_COLOURS.length, LEADER_COLOURS.length + 1];
  const faces = plane.follows.map((followed, i) => {
    const k = leaders.indexOf(followed >= 0 ? followed : i);
    return k < 0 ? grey : k % grey;
  });
  const inEveryLayer = (values) => Uint8Array.from(layers.flatMap(() => values));
  const tokens = new Tokens({
    positions: Float32Array.from(layers.flat(2)),
    dimension: 2,
    palette: [...LEADER_COLOURS, "shade", "ink"],
    faces: inEveryLayer([...faces, ink]),
    edges: inEveryLayer([...faces, 0].map(() => ink)),
    marks: inEveryLayer([...plane.leads.map(Number), CROSS]),
    texts: [...plane.words, "mean of all words"],
    names: [...plane.words.map((word, i) => (plane.leads[i] ? word : "")), ""],
  });
  const about =
    "Stars lead; words have the colour of the leader they follow. The cross is the mean of all words: its side of the dashed line is the prediction. The line contains the contributions of the other heads.";
  const stage = h("div");
  fill(host, stage, note(about));
  const line = { kind: "lines", paths: [path], colour: "ink", dash: [6, 5], alpha: 0.8 };
  const panels = [{ kind: "picture", axes, label: "Words in the plane of the head", shapes: [line] }];
  const frames = layers.map((_, k) => ({ label: `${k}` }));
  mount(stage, { panels, frames, tokens, start: layers.length - 1, slider: "Layer ", interval: HEAD_STEP_MS });
}

export class Reviews {
  constructor(host, { models, examples, state = null }) {
    this.models = models;
    this.state = { model: models[0], texts: examples.map((text) => ({ text, edits: [] })), ...state };
    this.problem = h("p", { className: "hm-problem", role: "alert", hidden: true });
    this.texts = h("div", { className: "hm-texts" });
    this.compared = h("div", { className: "hm-card", hidden: true });
    const names = models.map((name) => [name, name]);
    this.model = choices(names, this.state.model, (model) => {
      this.rebuild({ model, texts: this.plain().texts });
      if (this.file) this.read(...this.file);
    });
    this.key = h("span", { className: "hm-key" });
    const bar = h(
      "div",
      { className: "hm-review-bar" },
      field("Model", this.model),
      this.key,
      button("Add a text", () => this.add()),
      button("Compare the first two", () => this.compare()),
      button("Copy link", ({ target }) => copyLink(target, "r", this.plain(), (message) => this.warn(message))),
    );
    fill(host, h("p", { className: "hm-lead" }, LEAD), this.problem, bar, this.texts, this.compared, this.makeTable());
    host.classList.add("hm-reviews");
    this.rebuild({});
  }

  rebuild(values) {
    Object.assign(this.state, values);
    this.forget();
    this.views = this.state.texts.map((text) => this.makeView(text));
    fill(this.texts, ...this.views.map(({ element }) => element));
  }

  makeView({ text, edits }) {
    const body = h("div");
    const title = "Remove this text";
    const remove = button("×", () => this.remove(view), { className: "hm-remove", ariaLabel: title, title });
    const element = h("article", { className: "hm-card hm-text" }, remove, body);
    const { model } = this.state;
    const [onchange, onedit] = [(one) => this.changed(one), () => this.forget()];
    const view = { element, explanation: new Explanation(body, { call: post, text, edits, model, onedit, onchange }) };
    return view;
  }

  changed({ answer }) {
    fill(
      this.key,
      ...answer.classes.flatMap(({ name, colour }) => {
        const mark = h("span", { className: "hm-swatch" });
        mark.style.background = colour;
        return [mark, ` ${name}  `];
      }),
    );
    this.remember();
  }

  plain() {
    return { model: this.state.model, texts: this.views.map(({ explanation }) => explanation.state) };
  }

  async remember() {
    if (this.views.some(({ explanation }) => !explanation.answer)) return;
    await keepLink("r", this.plain());
  }

  add(text = "") {
    if (this.views.length >= MAX_TEXTS)
      return this.warn(`At most ${MAX_TEXTS} texts are shown side by side. Remove one first.`);
    const view = this.makeView({ text, edits: [] });
    this.views.push(view);
    this.texts.append(view.element);
    view.explanation.area.focus();
  }

  remove(view) {
    this.forget();
    if (this.views.length === 1) {
      view.explanation.area.value = "";
      return view.explanation.update("", []);
    }
    this.views = this.views.filter((other) => other !== view);
    view.element.remove();
    this.remember();
  }

  warn(message) {
    this.problem.hidden = !message;
    this.problem.textContent = message;
  }

  async attempt(work) {
    this.warn("");
    try {
      await work();
    } catch (error) {
      this.warn(error.message);
    }
  }

  forget() {
    // The comparison does not belong to other texts or to another model.
    this.compared.hidden = true;
    this.comparing = null;
  }

  async compare() {
    if (this.views.length < 2) return this.warn("Add a second text to compare it with the first.");
    await this.attempt(async () => {
      const [first, second] = this.views.map(({ explanation }) => explanation.state);
      const asked = (this.comparing = {});
      const { sentence, rows, towards } = await post("compare", { first, second, model: this.state.model });
      if (this.comparing !== asked) return;
      this.compared.hidden = false;
      const cells = rows.map(({ token, where, before, after, change }) => {
        return [token, where, signed(before), signed(after), signed(change)];
      });
      const changes = table(["token", "in text", "first", "second", "change"], cells);
      const note = h("p", { className: "hm-note" }, `Contributions to ${towards}:`);
      fill(this.compared, h("h2", {}, "The first two texts compared"), h("p", {}, sentence), note, changes);
      this.compared.scrollIntoView({ block: "nearest" });
    });
  }

  // Tables of texts.

  makeTable() {
    const paste = h("textarea", { rows: 3, placeholder: "one text per line", ariaLabel: "Texts, one per line" });
    const file = h("input", {
      type: "file",
      accept: ".csv,.tsv,.jsonl,.ndjson,.txt,.xlsx,.json",
      ariaLabel: "File of texts",
      onchange: async () =>
        file.files[0] && this.read(file.files[0].name, new Uint8Array(await file.files[0].arrayBuffer())),
    });
    this.column = h("input", { placeholder: "guessed", ariaLabel: "Column of texts" });
    this.filter = h("input", {
      type: "search",
      placeholder: "filter",
      ariaLabel: "Filter the rows",
      oninput: () => this.showRows(),
    });
    this.table = h("div", { className: "hm-table" });
    return h(
      "section",
      { className: "hm-card", ariaLabel: "Many texts" },
      h("h2", {}, "Many texts"),
      h("div", { className: "hm-review-bar" }, field("File of texts", file), field("Column of texts", this.column)),
      field("Or paste texts, one per line", paste),
      button("Classify", () => this.read("texts.txt", new TextEncoder().encode(paste.value))),
      this.table,
    );
  }

  async read(...file) {
    const [name, bytes] = (this.file = file); // read again by another model
    const body = { name, data: encodeBase64(bytes), column: this.column.value || null, model: this.state.model };
    await this.attempt(async () => {
      fill(this.table, h("p", { role: "status" }, "Classifying …"));
      const rows = await post("table", body).catch((error) => error);
      if (this.file !== file || this.state.model !== body.model) return; // a newer table is on its way
      fill(this.table);
      if (rows instanceof Error) throw rows;
      this.rows = rows;
      this.order = ["row", 1];
      this.showRows();
    });
  }

  showRows() {
    const { rows, classes, name, note } = this.rows;
    const wanted = this.filter.value.toLowerCase();
    const [key, direction] = this.order;
    const found = rows.filter(
      (row) => row.text.toLowerCase().includes(wanted) || classes[row.class].name.includes(wanted),
    );
    found.sort((a, b) => direction * (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : a.row - b.row));
    const heads = Object.entries({ row: "row", text: "text", class: "prediction", probability: "probability" });
    const sortBy = (column) => {
      this.order = [column, key === column ? -direction : 1];
      this.showRows();
    };
    const head = heads.map(([column, title]) => {
      const ariaSort = column === key ? (direction > 0 ? "ascending" : "descending") : undefined;
      return h("th", { scope: "col", ariaSort }, button(title, () => sortBy(column)));
    });
    const counts = classes
      .map(({ name: label }, k) => `${rows.filter((row) => row.class === k).length} ${label}`)
      .join(", ");
    const body = found.slice(0, SHOWN_ROWS).map((row) => {
      const title = "Explain this text";
      const open = button(row.text.slice(0, 140), () => this.add(row.text), { className: "hm-open", title });
      const words = row.words.map((word) => `${word.text} ${signed(word.value)}`).join(", ") || "no known word";
      return [`${row.row}`, open, classes[row.class].name, percent(row.probability), words];
    });
    const shown = `The first ${SHOWN_ROWS} of ${found.length} rows are shown; the CSV has all.`;
    const save = button("Download as CSV", () => this.downloadRows());
    const more = found.length > SHOWN_ROWS ? h("p", { className: "hm-note" }, shown) : null;
    fill(
      this.table,
      h("p", { role: "status" }, `${name}: ${rows.length} texts, ${counts}. ${note}`),
      h("div", { className: "hm-review-bar" }, this.filter, save),
      table([...head, "strongest words"], body),
      more,
    );
    if (document.activeElement === document.body && wanted) this.filter.focus();
  }

  async downloadRows() {
    const { rows, model } = this.rows;
    const body = { rows: rows.map(({ text }) => ({ text })), model };
    await this.attempt(async () => download(await post("export-table", body), "predictions.csv"));
  }
}
