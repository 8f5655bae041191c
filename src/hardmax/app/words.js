// A text whose words are coloured by what they say for the answer. Click a word, or Enter on it, strikes it or brings it
// back; the line below the text puts another one in its place. What is typed only ever becomes a text node.
//
// Reads `pieces` and `label`; writes `request`: {number, kind: "strike" | "replace" | "restore", start, end, word,
// replacement}. Nothing is computed here.

const STYLE = `
.text { color: var(--hm-text, #1a1a1a); font-size: 1rem; line-height: 1.8; white-space: pre-wrap; overflow-wrap: anywhere;
  max-height: 24rem; overflow-y: auto; padding: 0.2rem 0.3rem; }
.word { cursor: pointer; border-radius: 3px; padding: 1px 1px; border-bottom: 2px solid transparent; }
.word:hover { outline: 1px solid var(--hm-line, #999); }
.word:focus-visible { outline: 2px solid var(--hm-text, #1a1a1a); outline-offset: 1px; }
.word.for { background: color-mix(in srgb, var(--hm-for, #0072B2) var(--strength), transparent);
  border-bottom-color: var(--hm-for, #0072B2); }
.word.against { background: color-mix(in srgb, var(--hm-against, #D55E00) var(--strength), transparent);
  border-bottom: 2px dashed var(--hm-against, #D55E00); }
.word del { opacity: 0.6; text-decoration-thickness: 2px; }
.word ins { text-decoration: none; font-style: italic; }
.tools { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: center; min-height: 2.2rem; margin-top: 0.3rem;
  font-size: 0.875rem; color: var(--hm-text, #1a1a1a); }
.tools input { font: inherit; width: 9rem; padding: 0.15rem 0.4rem; color: inherit;
  background: var(--hm-background, #fff); border: 1px solid var(--hm-line, #999); border-radius: 4px; }
.tools button { font: inherit; padding: 0.15rem 0.6rem; color: inherit; cursor: pointer;
  background: var(--hm-panel, #f3f4f6); border: 1px solid var(--hm-line, #999); border-radius: 4px; }
.hint { opacity: 0.75; }
`;

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function signed(value) {
  const size = Math.abs(value).toFixed(2);
  return size === "0.00" ? size : (value < 0 ? "\u2212" : "+") + size;
}

function wordElement(piece) {
  const word = make("span", "word");
  if (piece.strength) {
    word.classList.add(piece.strength > 0 ? "for" : "against");
    word.style.setProperty("--strength", `${Math.round(8 + 47 * Math.abs(piece.strength))}%`);
  }
  if (piece.was !== undefined) {
    word.append(make("del", "", piece.was));
    if (piece.text) word.append(" ", make("ins", "", piece.text));
  } else {
    word.textContent = piece.text;
  }
  const struck = piece.was !== undefined && !piece.text;
  word.dataset.start = piece.start;
  word.title = struck ? "struck" : `${signed(piece.value)} for the answer`;
  word.setAttribute("role", "button");
  word.setAttribute("aria-pressed", String(piece.was !== undefined));
  word.setAttribute("aria-label", struck ? `${piece.was}, struck` : `${piece.text}, ${word.title}`);
  word.tabIndex = -1;
  return word;
}

function render({ model, el }) {
  const words = make("div", "text");
  words.setAttribute("role", "group");
  const tools = make("div", "tools");
  const about = make("span", "hint");
  const input = make("input");
  input.maxLength = 200;
  input.placeholder = "another word";
  const put = make("button", "", "Replace");
  tools.append(about, input, put);
  el.replaceChildren(make("style", "", STYLE), words, tools);

  let shown = new Map(); // from where a word starts to [piece, element]
  let current = null; // the start of the word that was focused last

  function send(kind, piece, replacement = "") {
    const { start, end } = piece;
    const number = (model.get("request")?.number ?? 0) + 1;
    model.set("request", { number, kind, start, end, word: piece.was ?? piece.text, replacement });
    model.save_changes();
  }

  function toggle(piece) {
    send(piece.was === undefined ? "strike" : "restore", piece);
  }

  function describe() {
    const found = shown.get(current);
    input.hidden = put.hidden = !found;
    if (!found) {
      about.textContent = shown.size ? "Click a word to strike it; arrow keys walk through the words." : "";
      return;
    }
    const [piece] = found;
    const name = `\u201c${piece.was ?? piece.text}\u201d`;
    const state = piece.was === undefined ? signed(piece.value) : piece.text ? "replaced" : "struck";
    about.textContent = `${name} ${state}; in its place:`;
    input.setAttribute("aria-label", `In the place of ${name}`);
  }

  function choose(start, focus) {
    const before = shown.get(current);
    if (before) before[1].tabIndex = -1;
    current = start;
    const found = shown.get(start) ?? shown.values().next().value;
    if (found) found[1].tabIndex = 0; // the one stop of the tab key; arrows do the rest
    if (focus && found) found[1].focus();
    describe();
  }

  function draw() {
    const root = el.getRootNode();
    const had = words.contains(root.activeElement) || words.contains(document.activeElement);
    shown = new Map();
    const parts = [];
    for (const piece of model.get("pieces") ?? []) {
      if (piece.start === undefined) {
        parts.push(document.createTextNode(piece.text));
        continue;
      }
      const word = wordElement(piece);
      shown.set(piece.start, [piece, word]);
      parts.push(word);
    }
    words.replaceChildren(...parts);
    words.setAttribute("aria-label", model.get("label") ?? "");
    choose(shown.has(current) ? current : null, had);
  }

  const startOf = (event) => {
    const word = event.target.closest?.(".word");
    return word ? Number(word.dataset.start) : null;
  };

  words.addEventListener("focusin", (event) => {
    const start = startOf(event);
    if (start !== null && start !== current) choose(start, false);
  });
  words.addEventListener("click", (event) => {
    const start = startOf(event);
    if (start === null) return;
    choose(start, true);
    toggle(shown.get(start)[0]);
  });
  words.addEventListener("keydown", (event) => {
    const start = startOf(event);
    if (start === null) return;
    const starts = [...shown.keys()];
    const at = starts.indexOf(start);
    const step = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: starts.length - 1 }[event.key];
    if (step !== undefined) {
      choose(starts[Math.max(0, Math.min(starts.length - 1, step))], true);
    } else if (event.key === "Enter" || event.key === " ") {
      toggle(shown.get(start)[0]);
    } else {
      return;
    }
    event.preventDefault();
  });

  function replaceNow() {
    const found = shown.get(current);
    const replacement = input.value.trim();
    if (!found || !replacement) return;
    input.value = "";
    send("replace", found[0], replacement);
  }
  put.addEventListener("click", replaceNow);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") replaceNow();
  });

  model.on("change:pieces", draw);
  draw();
  return () => model.off("change:pieces", draw);
}

export default { render };
