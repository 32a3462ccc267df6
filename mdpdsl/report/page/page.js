// Values under the pointer, and a switch between light and dark. The page works without it.
(function () {
  "use strict";
  var root = document.documentElement;
  var button = document.getElementById("theme");
  var tip = document.getElementById("tip");

  button.hidden = false;
  button.addEventListener("click", function () {
    var isDark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    try { localStorage.setItem("mdpdsl-theme", root.dataset.theme); } catch (error) { /* as above */ }
  });

  // With scripts, the tip replaces the titles, which would otherwise show as well.
  document.querySelectorAll("[data-tip] > title").forEach(function (title) { title.remove(); });

  function show(event, words) {
    tip.textContent = words;
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    var x = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    var y = event.clientY - box.height - 12;
    tip.style.left = Math.max(8, x) + "px";
    tip.style.top = (y < 8 ? event.clientY + 18 : y) + "px";
  }

  function cellOf(image, event) {
    var cells = image.cells || (image.cells = JSON.parse(image.dataset.cells));
    var box = image.getBoundingClientRect();
    var column = Math.floor((event.clientX - box.left) / box.width * cells.x.length);
    var line = Math.floor((box.bottom - event.clientY) / box.height * cells.y.length);
    var row = cells.v[line];
    if (!row || column < 0 || column >= row.length) return "";
    return cells.x[column] + "\n" + cells.y[line] + "\n" + (row[column] || "no such pair");
  }

  function point(event) {
    var target = event.target.closest ? event.target.closest("[data-tip],[data-cells]") : null;
    var words = "";
    if (target) words = target.dataset.tip || cellOf(target, event);
    if (words) show(event, words); else tip.hidden = true;
  }

  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("scroll", function () { tip.hidden = true; }, { passive: true });
})();
