// Sets dark or light before the first paint: the user's choice, or else the system's.
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
      try { localStorage.setItem("theme", next); } catch { /* applies to this page only */ }
      document.documentElement.dataset.theme = next;
    });
  });
}
