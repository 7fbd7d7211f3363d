// A button on each block of code that is typed; of a session, the commands without their prompts.
function typed(block) {
  const text = block.querySelector("pre").textContent;
  const prompts = text.split("\n").filter((line) => /^(\$|>>>|\.\.\.) /.test(line));
  const session = /^(\$|>>>) /.test(text);
  return session ? prompts.map((line) => line.replace(/^\S+ /, "")).join("\n") + "\n" : text;
}

document.addEventListener("DOMContentLoaded", () => {
  const kinds = ["python", "sh", "console", "toml", "yaml"].map((kind) => `.highlight-${kind}`);
  for (const block of document.querySelectorAll(kinds.join(","))) {
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "copy";
    button.onclick = async () => {
      await navigator.clipboard.writeText(typed(block));
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1500);
    };
    block.append(button);
  }
});
