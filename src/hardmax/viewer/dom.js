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
  const size = Math.abs(value).toFixed(digits);
  return Number(size) === 0 ? size : (value < 0 ? "−" : "+") + size;
}
