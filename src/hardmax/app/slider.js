// A slider with a name: a native one, which keyboards, screen readers and dark pages know.

const STYLE = `
  .hm-slider { display: grid; grid-template-columns: 1fr auto; gap: 2px 8px; font: 13px system-ui, sans-serif;
    color: var(--hm-text, #1c1c1c); }
  .hm-slider input { grid-column: 1 / 3; width: 100%; margin: 0; accent-color: var(--hm-for, #0072B2); min-height: 24px; }
  .hm-slider input:focus-visible { outline: 3px solid var(--hm-focus, #0072B2); }
  .hm-slider output { font-variant-numeric: tabular-nums; font-weight: 600; }
`;

function render({ model, el }) {
  const style = document.createElement("style");
  style.textContent = STYLE;
  const root = document.createElement("div");
  root.className = "hm-slider";
  const text = document.createElement("span");
  const value = document.createElement("output");
  const input = document.createElement("input");
  input.type = "range";
  root.append(text, value, input);
  el.append(style, root);
  function show() {
    text.textContent = model.get("label");
    input.setAttribute("aria-label", model.get("label"));
    for (const [name, key] of [["min", "start"], ["max", "end"], ["step", "step"]]) input[name] = model.get(key);
    input.value = model.get("value");
    value.textContent = +(+model.get("value")).toFixed(3);
  }
  for (const name of ["value", "label", "start", "end", "step"]) model.on(`change:${name}`, show);
  input.addEventListener("input", () => {
    value.textContent = input.value;
    model.set("value", +input.value);
    model.save_changes();
  });
  show();
}

export default { render };
