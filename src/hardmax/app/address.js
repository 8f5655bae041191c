// The address of the page always says what is seen, so that a link shows the same elsewhere; and whether it is dark.

function render({ model, el }) {
  el.hidden = true;
  document.querySelector("[data-root-id]")?.setAttribute("role", "main");
  function show() {
    document.documentElement.classList.toggle("hm-dark", model.get("dark"));
    const url = new URL(window.location.href), name = model.get("parameter"), link = model.get("letters");
    if (!model.get("known")) return;
    if (link) url.searchParams.set(name, link); else url.searchParams.delete(name);
    if (url.href !== window.location.href) window.history.replaceState(null, "", url);
  }
  model.on("change:letters", show);
  model.on("change:known", show);
  show();
  return () => {};
}

export default { render };
