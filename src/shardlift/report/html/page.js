"use strict";
// Copy a command.
for (const pre of document.querySelectorAll(".finding pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "copy";
  button.addEventListener("click", () => {
    const text = pre.querySelector("code").textContent;
    const done = () => {
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => {});
    else { // a page from a file, in some browsers
      const range = document.createRange();
      range.selectNodeContents(pre.querySelector("code"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
      done();
    }
  });
  pre.append(button);
}

// Zoom and move the timeline: buttons, the wheel with ctrl or over a zoomed one, dragging.
const lanes = document.querySelector(".lanes");
if (lanes) {
  const whole = 1000, span = Number(lanes.dataset.span);
  const ticks = document.querySelector(".ticks");
  let left = 0, width = whole;
  const words = (s) => {
    if (s === 0) return "0";
    if (s >= 600) return `${(s / 60).toFixed(0)} min`;
    for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["µs", 1e-6]]) {
      if (s >= size) return `${(s / size).toPrecision(4)} ${unit}`;
    }
    return `${(s * 1e9).toFixed(0)} ns`;
  };
  const show = () => {
    width = Math.min(whole, Math.max(width, 1e-3));
    left = Math.min(whole - width, Math.max(0, left));
    lanes.setAttribute("viewBox", `${left} 0 ${width} ${lanes.getAttribute("height")}`);
    [...ticks.children].forEach((tick, k) => {
      tick.textContent = words((left + width * k / 4) / whole * span);
    });
  };
  const zoom = (factor, at = 0.5) => {
    const middle = left + width * at;
    width = Math.min(whole, width * factor);
    left = middle - width * at;
    show();
  };
  for (const [label, title, act] of [
    ["−", "zoom out", () => zoom(2)],
    ["+", "zoom in", () => zoom(0.5)],
    ["◀", "earlier", () => { left -= width / 3; show(); }],
    ["▶", "later", () => { left += width / 3; show(); }],
    ["all", "the whole run", () => { left = 0; width = whole; show(); }],
  ]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.title = title;
    button.setAttribute("aria-label", title);
    button.addEventListener("click", act);
    document.querySelector(".zoom").append(button);
  }
  lanes.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && width === whole && event.deltaY > 0) return; // let the page scroll
    event.preventDefault();
    const box = lanes.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, (event.clientX - box.left) / box.width);
  }, { passive: false });
  let from = null;
  lanes.addEventListener("pointerdown", (event) => {
    from = [event.clientX, left];
    lanes.setPointerCapture(event.pointerId);
  });
  lanes.addEventListener("pointermove", (event) => {
    if (!from) return;
    left = from[1] - (event.clientX - from[0]) / lanes.getBoundingClientRect().width * width;
    show();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    lanes.addEventListener(end, () => { from = null; });
  }
  lanes.addEventListener("dblclick", () => { left = 0; width = whole; show(); });
}
