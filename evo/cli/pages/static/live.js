// A page whose server tells it what is new: sections are replaced as they change, and stay as far unfolded as they were.
(function () {
  "use strict";
  var base = document.body.dataset.query || "", gone = document.getElementById("offline"), loaded = {}, over = false;
  function get(path) {
    return fetch(path + base, { cache: "no-store" }).then(function (answer) {
      return answer.text().then(function (text) {
        if (!answer.ok) throw new Error(text);
        return text;
      });
    });
  }
  function fill(box) {
    var path = box.dataset.load;
    box.removeAttribute("data-load");
    if (loaded[path]) { box.outerHTML = loaded[path]; return; }
    get("/" + path).then(function (html) { loaded[path] = html; box.outerHTML = html; }, function (problem) {
      box.textContent = "Not loaded: " + problem.message;
    });
  }
  function watch(root) {
    root.querySelectorAll("details").forEach(function (one) {
      function ask() {
        if (!one.open) return;
        one.querySelectorAll("[data-load]").forEach(function (box) {
          if (box.closest("details") === one) fill(box);
        });
      }
      one.addEventListener("toggle", ask);
      ask();
    });
    root.querySelectorAll("button[data-count]").forEach(function (button) {
      button.addEventListener("click", function () {
        button.disabled = true;
        button.textContent = "Counting…";
        var path = button.dataset.count;
        get("/" + path).then(function (html) { loaded[path] = html; button.closest("div").outerHTML = html; },
          function (problem) { button.textContent = "Not counted: " + problem.message; });
      });
      if (loaded[button.dataset.count]) button.closest("div").outerHTML = loaded[button.dataset.count];
    });
  }
  function replace(name, html) {
    var box = document.getElementById("s-" + name);
    if (!box) return;
    var open = {};
    box.querySelectorAll("details[data-key]").forEach(function (one) { open[one.dataset.key] = one.open; });
    box.innerHTML = html;
    box.querySelectorAll("details[data-key]").forEach(function (one) {
      if (one.dataset.key in open) one.open = open[one.dataset.key];
    });
    watch(box);
    tick();
    if (name === "trials") window.evoFilter();
  }
  function tick() {
    var now = document.querySelector("[data-since]");
    if (now) {
      var seconds = Math.max(0, Math.round(Date.now() / 1000 - Number(now.dataset.since)));
      now.textContent = seconds < 60 ? seconds + " s" : Math.floor(seconds / 60) + " min " + (seconds % 60) + " s";
    }
  }
  var marks = JSON.parse(document.body.dataset.marks || "{}");
  var source = new EventSource("/events" + base);
  source.addEventListener("marks", function (event) {
    var told = JSON.parse(event.data);
    gone.hidden = true;
    Object.keys(told).forEach(function (name) {
      if (marks[name] === told[name]) return;
      var mark = told[name];
      get("/section/" + name).then(function (html) { marks[name] = mark; replace(name, html); }, function () {});
    });
  });
  source.addEventListener("task", function () { window.location.reload(); });
  source.addEventListener("end", function () { over = true; source.close(); lost(); });
  source.onerror = lost;
  function lost() {
    gone.textContent = over ? "The server has ended with its run. What is shown here is the last state."
      : "The server does not answer. What is shown here is its last state.";
    gone.hidden = false;
  }
  watch(document);
  window.setInterval(tick, 1000);
  tick();
})();
