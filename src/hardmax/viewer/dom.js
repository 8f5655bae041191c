// Elements: h("button", { className: "x", onclick: f }, "text").

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null) continue;
    if (name in element && name !== "list" && name !== "form") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

export function choices(values, chosen, onchange, attributes = {}) {
  const select = h("select", { ...attributes, onchange: () => onchange(select.value) });
  for (const [value, text] of values) select.append(h("option", { value, selected: value === chosen }, text));
  return select;
}

export function button(text, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, text);
}

export function table(heads, rows) {
  // A table; a row is an array of cells or an element.
  const head = h("tr", {}, ...heads.map((name) => (name.nodeType ? name : h("th", { scope: "col" }, name))));
  const body = rows.map((row) => (row.nodeType ? row : h("tr", {}, ...row.map((cell) => h("td", {}, cell)))));
  return h("div", { className: "hm-wide" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...body)));
}

let number = 0;

export function field(label, control) {
  control.id ||= `hm-field-${++number}`;
  return h("div", { className: "hm-field" }, h("label", { htmlFor: control.id }, label), control);
}

export function group(title, open, ...children) {
  return h(
    "details",
    { className: "hm-group", open },
    h("summary", {}, title),
    h("div", { className: "hm-group-body" }, ...children),
  );
}

export function signed(value, digits = 2) {
  if (Math.abs(value) >= 1e5) return value.toExponential(1).replace("-", "−");
  const size = Math.abs(value).toFixed(digits);
  return Number(size) === 0 ? size : (value < 0 ? "−" : "+") + size;
}
