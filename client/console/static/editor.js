// The SQL editor: CodeMirror when the server has it, else a text field with the same functions.

import { Completion } from "./completion.js";
import { byId, h } from "./dom.js";

const TYPING_PAUSE_MS = 150;
const LABEL = "SQL statements";
const KEYWORDS =
  "all alter and any array as asc begin between by call case cast catalog catalogs changelog_mode columns comment constraint create cross cumulate current database databases day days decade describe descriptor desc distinct distributed drop else end enforced escape exists explain extended false fetch filter first following for from full function functions group grouping having hop hour hours if ilike in inner insert interval into is job jobs join key last left like limit match_recognize metadata minute minutes month months natural not null nulls of offset on only or order outer over overwrite partition partitioned plan preceding primary quarter range recursive reset restrict right row rows second seconds select semi session set sets show similar size slide some statement stop system table tables temporary then ties time timestamp to true tumble unbounded union unique unknown unnest use using values varying view views virtual watermark week when where window with within without year years zone";
const TYPES = "bigint binary boolean bytes char date decimal double float int integer map multiset numeric raw real smallint string timestamp_ltz tinyint varbinary varchar";

const words = (text) => Object.fromEntries(text.split(" ").map((word) => [word, true]));

export async function makeEditor(parent, hasEditor, actions, ask) {
  if (hasEditor) {
    try {
      await loadCodeMirror();
      return new RichEditor(parent, actions, ask);
    } catch {
      // Fall back to the plain one.
    }
  }
  byId("plain-editor").hidden = false;
  return new PlainEditor(parent, actions, ask);
}

async function loadCodeMirror() {
  document.head.append(h("link", { rel: "stylesheet", href: "/console/editor-codemirror.css" }));
  for (const name of ["codemirror.js", "sql.js"]) {
    await new Promise((resolve, reject) => {
      document.head.append(h("script", { src: `/console/editor-${name}`, on: { load: resolve, error: reject } }));
    });
  }
}

function keyAction(event, actions) {
  if (!(event.ctrlKey || event.metaKey)) return null;
  if (event.key === "Enter") return event.shiftKey ? actions.runAll : actions.run;
  return event.key === " " ? actions.complete : null;
}

class Editor {
  constructor(actions, ask) {
    this.actions = { ...actions, complete: () => this.completion.open(true) };
    this.completion = new Completion(this, ask);
    this.timer = 0;
  }

  // Handles a key; returns whether it was for the completion or a command.
  onKey(event) {
    if (!event.ctrlKey && !event.metaKey && this.completion.onKey(event.key)) return true;
    const action = keyAction(event, this.actions);
    if (action === null) return false;
    action();
    return true;
  }

  onInput(isTyped) {
    clearTimeout(this.timer);
    this.clearError();
    this.completion.close();
    this.actions.change();
    if (isTyped && /[\w$][.\w$]$/.test(this.text().slice(0, this.cursor()))) {
      this.timer = setTimeout(() => this.completion.open(false), TYPING_PAUSE_MS);
    }
  }
}

export class RichEditor extends Editor {
  constructor(parent, actions, ask) {
    super(actions, ask);
    const CodeMirror = window.CodeMirror;
    CodeMirror.defineMIME("text/x-sqlstream", {
      name: "sql", keywords: words(KEYWORDS), builtin: words(TYPES), atoms: words("false true null unknown"),
      dateSQL: words("date time timestamp"), operatorChars: /^[*+\-%<>!=|]/, support: words("doubleQuote binaryNumber hexNumber"),
      identifierQuote: "`",
      hooks: { "`": backquoted },
    });
    this.cm = CodeMirror(parent, {
      mode: "text/x-sqlstream", screenReaderLabel: LABEL, lineNumbers: true, lineWrapping: true, indentUnit: 2, tabSize: 2, inputStyle: "textarea",
      extraKeys: { Tab: false, "Shift-Tab": false, "Ctrl-Enter": false, "Cmd-Enter": false },
    });
    this.element = this.cm.getInputField();
    for (const [name, value] of Object.entries({ "aria-label": LABEL, role: "textbox", "aria-multiline": "true" })) this.element.setAttribute(name, value);
    this.cm.on("keydown", (_, event) => {
      if (this.onKey(event)) event.preventDefault();
    });
    this.cm.on("change", (_, change) => this.onInput(change.origin === "+input"));
    this.cm.on("blur", () => this.completion.close());
    this.cm.on("scroll", () => this.completion.close());
    this.mark = null;
  }

  text() { return this.cm.getValue(); }
  setText(text) { this.cm.setValue(text); this.cm.clearHistory(); }
  cursor() { return this.cm.indexFromPos(this.cm.getCursor()); }
  selection() { return [this.cm.indexFromPos(this.cm.getCursor("from")), this.cm.indexFromPos(this.cm.getCursor("to"))]; }
  cursorBox() { return this.cm.cursorCoords(true, "window"); }
  focus() { this.cm.focus(); }
  describe(isOpen, id) { describe(this.element, isOpen, id); }

  replace(start, end, text) {
    this.cm.replaceRange(text, this.cm.posFromIndex(start), this.cm.posFromIndex(end));
  }

  showError(start, end, message) {
    this.clearError();
    const [from, to] = [this.cm.posFromIndex(start), this.cm.posFromIndex(Math.max(end, start + 1))];
    this.mark = this.cm.markText(from, to, { className: "sql-error", attributes: { title: message } });
    this.cm.scrollIntoView(from, 40);
  }

  clearError() {
    this.mark?.clear();
    this.mark = null;
  }
}

function backquoted(stream) {
  let c;
  while ((c = stream.next()) !== undefined) if (c === "`") break;
  return "variable-2";
}

function describe(element, isOpen, id) {
  if (isOpen) element.setAttribute("aria-controls", "candidates");
  else element.removeAttribute("aria-controls");
  if (id === null) element.removeAttribute("aria-activedescendant");
  else element.setAttribute("aria-activedescendant", id);
}

// A text field above a copy of its text, which carries the underline and shows where the cursor is.
export class PlainEditor extends Editor {
  constructor(parent, actions, ask) {
    super(actions, ask);
    this.backdrop = h("pre", { class: "plain-backdrop", "aria-hidden": "true" });
    this.element = h("textarea", { class: "plain-input", "aria-label": LABEL, spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
    parent.append(h("div", { class: "plain" }, this.backdrop, this.element));
    this.error = null;
    this.element.addEventListener("keydown", (event) => {
      if (this.onKey(event)) event.preventDefault();
    });
    this.element.addEventListener("input", () => this.onInput(true));
    this.element.addEventListener("blur", () => this.completion.close());
    this.element.addEventListener("scroll", () => this.scrollBackdrop());
  }

  text() { return this.element.value; }
  setText(text) { this.element.value = text; this.onInput(false); }
  cursor() { return this.element.selectionStart; }
  selection() { return [this.element.selectionStart, this.element.selectionEnd]; }
  focus() { this.element.focus(); }
  describe(isOpen, id) { describe(this.element, isOpen, id); }

  replace(start, end, text) {
    this.element.setRangeText(text, start, end, "end");
    this.onInput(false);
  }

  cursorBox() {
    const at = h("span", {}, "\u200b");
    this.backdrop.replaceChildren(this.text().slice(0, this.cursor()), at);
    this.scrollBackdrop();
    const box = at.getBoundingClientRect();
    this.paint();
    return { left: box.left, top: box.top, bottom: box.bottom };
  }

  showError(start, end, message) {
    this.error = { start, end: Math.max(end, start + 1), message };
    this.element.title = message;
    this.paint();
  }

  clearError() {
    this.error = null;
    this.element.removeAttribute("title");
    this.paint();
  }

  paint() {
    const text = this.text();
    if (this.error === null) this.backdrop.replaceChildren(`${text}\n`);
    else {
      const { start, end } = this.error;
      this.backdrop.replaceChildren(text.slice(0, start), h("span", { class: "sql-error" }, document.createTextNode(text.slice(start, end) || " ")), `${text.slice(end)}\n`);
    }
    this.scrollBackdrop();
  }

  scrollBackdrop() {
    this.backdrop.scrollTop = this.element.scrollTop;
    this.backdrop.scrollLeft = this.element.scrollLeft;
  }
}
