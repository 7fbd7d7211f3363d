"use strict";
const body = document.querySelector(".projects tbody");
const rows = [...body.rows];
const heads = [...document.querySelectorAll(".projects th")];
heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
  const down = head.getAttribute("aria-sort") !== "descending";
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => row.cells[column].textContent;
  const order = (a, b) => key(a).localeCompare(key(b), "en", { numeric: true });
  body.append(...rows.sort((a, b) => (down ? -1 : 1) * order(a, b)));
}));
const input = document.querySelector(".filter input"), shown = document.querySelector(".shown");
input.addEventListener("input", () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let number = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    number += !row.hidden;
  }
  shown.textContent = number + (number === 1 ? " project" : " projects");
});
