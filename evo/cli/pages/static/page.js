// The trials' filter, and links to trials, which unfold where they lead to. The page is complete without it.
(function () {
  "use strict";
  var asked = { text: "", kept: false };
  function filter() {
    var form = document.getElementById("filter"), list = document.getElementById("trial-list");
    if (!form || !list) return;
    var text = document.getElementById("filter-text"), kept = document.getElementById("filter-kept");
    var trials = Array.prototype.slice.call(list.querySelectorAll(".trial"));
    var words = trials.map(function (one) { return (one.id + " " + one.querySelector("summary").textContent).toLowerCase(); });
    var tried = trials.filter(function (one) { return !one.dataset.start; }).length;  // a start is none
    form.hidden = false;
    text.value = asked.text;
    kept.checked = asked.kept;
    function show() {
      var found = 0, wanted = text.value.toLowerCase().trim();
      asked = { text: text.value, kept: kept.checked };
      trials.forEach(function (one, at) {
        var shown = (!wanted || words[at].indexOf(wanted) >= 0) && (!kept.checked || one.dataset.kept === "1");
        one.hidden = !shown;
        if (shown && !one.dataset.start) found++;
      });
      list.querySelectorAll(".run").forEach(function (run) {
        run.hidden = !run.querySelector(".trial:not([hidden])");
        if (wanted && !run.hidden) run.open = true;
      });
      document.getElementById("filter-count").textContent = found + " of " + tried + " trials shown";
    }
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    text.addEventListener("input", show);
    kept.addEventListener("change", show);
    show();
  }
  function unfold() {
    var name = decodeURIComponent(location.hash.slice(1));
    var there = name.indexOf("t-") === 0 ? document.getElementById(name) : null;
    for (var at = there; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (there) there.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  document.addEventListener("click", function (event) {
    var link = event.target.closest ? event.target.closest("a[href^='#t-']") : null;
    if (link && link.hash === location.hash) unfold();
  });
  window.evoFilter = filter;
  filter();
  unfold();
})();
