// Shows each frame of a run; only sections that changed are replaced, and what is open stays open.
"use strict";
const view = document.currentScript.dataset.view;
const state = document.getElementById("state");
const parse = (html) => {
  const made = document.createElement("template");
  made.innerHTML = html;
  return made.content;
};
const take = (old, now) => {
  if (old.outerHTML === now.outerHTML) return;
  const open = [...old.querySelectorAll("details")].map((one) => one.open);
  [...now.querySelectorAll("details")].forEach((one, i) => { one.open = open[i] ?? one.open; });
  old.replaceWith(now);
};
const fill = (place, html) => {
  const now = parse(html);
  if (place.children.length !== now.children.length) return place.replaceChildren(now);
  [...now.children].forEach((one, i) => take(place.children[i], one));
};
// Which of the pictures' widths the style sheet shows in this window: only that is asked for.
const fit = () => [720, 1160, 1640].filter((width) => innerWidth >= width).length;
let frames, fitted;
const follow = () => {
  fitted = fit();
  frames = new EventSource(`/events?view=${view}&fit=${fitted}`);
  frames.addEventListener("frame", (event) => {
    const frame = JSON.parse(event.data);
    fill(document.querySelector("header"), frame.header);
    fill(document.querySelector("main"), frame.main);
    state.textContent = frame.ended ? "ended" : "live";
    if (frame.ended) frames.close();
  });
  frames.onerror = () => { state.textContent = "not connected"; };
};
follow();
addEventListener("resize", () => {
  if (fit() === fitted || frames.readyState === EventSource.CLOSED) return;
  frames.close();
  follow();
});
