// The list of candidates below the cursor, for either editor.

import { h } from "./dom.js";

const SHOWN_MAX = 50;

// The part of the text before the cursor that a candidate would replace: its longest beginning that stands there.
export function overlap(before, candidate) {
  const most = Math.min(before.length, candidate.length);
  const [text, folded] = [before.toLowerCase(), candidate.toLowerCase()];
  for (let length = most; length > 0; length -= 1) {
    if (text.endsWith(folded.slice(0, length)) && !/\w/.test(before[before.length - length - 1] ?? " ")) return length;
  }
  return 0;
}

// `host` is an editor: text(), cursor(), cursorBox(), replace(start, end, text), element, focus().
export class Completion {
  constructor(host, ask) {
    this.host = host;
    this.ask = ask;
    this.items = [];
    this.index = -1;
    this.asked = 0;
    this.list = h("ul", { class: "candidates", role: "listbox", id: "candidates", hidden: true, "aria-label": "Completions" });
    document.body.append(this.list);
  }

  get isOpen() {
    return !this.list.hidden;
  }

  async open(isAsked) {
    const number = (this.asked += 1);
    const [text, cursor] = [this.host.text(), this.host.cursor()];
    let found;
    try {
      found = await this.ask(text, cursor);
    } catch {
      found = [];
    }
    if (number !== this.asked || this.host.text() !== text || this.host.cursor() !== cursor) return;
    const before = text.slice(0, cursor);
    this.items = found.slice(0, SHOWN_MAX).filter((item) => isAsked || (overlap(before, item) > 0 && overlap(before, item) < item.length));
    if (this.items.length === 0) this.close();
    else this.show(isAsked ? 0 : -1);
  }

  show(index) {
    this.list.replaceChildren(
      ...this.items.map((item, i) =>
        h("li", {
          role: "option", id: `candidate-${i}`,
          on: { mousedown: (event) => { event.preventDefault(); this.accept(i); } },
        }, item)),
    );
    this.list.hidden = false;
    const box = this.host.cursorBox();
    const height = this.list.offsetHeight;
    const isAbove = box.bottom + height > window.innerHeight && box.top > height;
    this.list.style.left = `${Math.max(4, Math.min(box.left, window.innerWidth - this.list.offsetWidth - 8))}px`;
    this.list.style.top = `${isAbove ? box.top - height - 2 : box.bottom + 2}px`;
    this.select(index);
  }

  select(index) {
    this.index = index;
    [...this.list.children].forEach((child, i) => {
      child.setAttribute("aria-selected", String(i === index));
      if (i === index) child.scrollIntoView({ block: "nearest" });
    });
    this.host.describe(this.isOpen, index < 0 ? null : `candidate-${index}`);
  }

  accept(index) {
    const item = this.items[index];
    const cursor = this.host.cursor();
    const start = cursor - overlap(this.host.text().slice(0, cursor), item);
    this.close();
    this.host.replace(start, cursor, item);
    this.host.focus();
  }

  close() {
    this.asked += 1;
    this.list.hidden = true;
    this.index = -1;
    this.host.describe(false, null);
  }

  // Whether a key was for the list. Enter takes a candidate only after one was chosen, so that it else ends a line.
  onKey(key) {
    if (!this.isOpen) return false;
    if (key === "ArrowDown" || key === "ArrowUp") {
      const step = key === "ArrowDown" ? 1 : -1;
      this.select((this.index + step + this.items.length) % this.items.length);
    } else if (key === "Tab") this.accept(Math.max(0, this.index));
    else if (key === "Enter" && this.index >= 0) this.accept(this.index);
    else if (key === "Escape") this.close();
    else return false;
    return true;
  }
}
