// What the pages of the app share: light and dark, and the view for presentations.

const TYPING = "input:not([type=range], [type=checkbox], [type=file]), textarea, select"; // where F is a letter

export function setUp() {
  const root = document.documentElement;
  const button = document.querySelector(".hm-theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    window.dispatchEvent(new Event("hm-theme"));
  };
  apply(localStorage.getItem("hm-theme") || (dark.matches ? "dark" : "light"));
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("hm-theme", theme);
    apply(theme);
  });
  const present = document.querySelector(".hm-present");
  if (!present) return;
  const presents = () => root.classList.contains("hm-presenting");
  const toggle = () => {
    root.classList.toggle("hm-presenting");
    present.textContent = presents() ? "Leave (Esc)" : "Present (F)";
  };
  present.addEventListener("click", toggle);
  const press = (event) => {
    const leaves = event.key === "Escape" && presents();
    const enters = event.key.toLowerCase() === "f" && !(event.ctrlKey || event.metaKey || event.altKey);
    if (!leaves && (!enters || event.target.closest(TYPING))) return;
    event.stopPropagation(); // Escape would clear the selection, too
    toggle();
  };
  document.addEventListener("keydown", press, true);
}
