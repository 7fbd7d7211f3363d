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
