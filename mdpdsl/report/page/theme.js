// The scheme that the reader chose on this page before, if any; otherwise that of the system.
(function () {
  try {
    var kept = localStorage.getItem("mdpdsl-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch (error) { /* a page opened from a file may have no storage */ }
})();
