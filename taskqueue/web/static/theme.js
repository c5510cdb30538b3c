// Dark or light before anything is drawn: as was chosen here, else as the system has it.
"use strict";
{
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = () => { document.documentElement.dataset.theme = chosen() ?? (dark.matches ? "dark" : "light"); };
  dark.addEventListener("change", show);
  show();
  document.addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", () => {
      const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("theme", next); } catch { /* it holds for this page alone */ }
      document.documentElement.dataset.theme = next;
    });
  });
}
