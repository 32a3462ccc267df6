// The scheme that was chosen on this page before, if any; else the reader's own.
(function () {
  try {
    var kept = localStorage.getItem("mdpdsl-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch (error) { /* a page from a file may not be allowed to keep anything */ }
})();
