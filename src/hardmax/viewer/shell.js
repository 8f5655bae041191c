// What the pages of the app share: light and dark, and the view for presentations.

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
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "f" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) return;
    root.classList.toggle("hm-presenting");
    window.dispatchEvent(new Event("resize"));
  });
}
