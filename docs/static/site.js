// Open the folded entries that an address points into, and name the toggles of the navigation for screen readers.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  target?.scrollIntoView();
}
addEventListener("hashchange", openTarget);
addEventListener("DOMContentLoaded", () => {
  if (location.hash) openTarget();
  for (const icon of document.querySelectorAll("summary > .toctree-toggle")) icon.parentElement.ariaLabel = "Subpages";
});
