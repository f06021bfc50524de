// Runs the script of a page on a document without a browser, then the steps of a test, and prints
// what these return. Standard input has {elements: [{tag, attributes, text}], script, steps, hash}.
const given = JSON.parse(require("fs").readFileSync(0, "utf8"));

class Element {
  constructor(tag, attributes = {}, text = "") {
    Object.assign(this, { tag, attributes: {}, children: [], listeners: {}, dataset: {} });
    this.style = { setProperty() {} };
    Object.assign(this, { text, parentElement: null, hidden: false, complete: true });
    Object.assign(this, { clientWidth: 500, offsetWidth: 60, naturalWidth: 6, naturalHeight: 4 });
    this.classList = { toggle() {} };
    for (const [name, value] of Object.entries(attributes)) this.setAttribute(name, value ?? "");
  }
  setAttribute(name, value) {
    this.attributes[name] = String(value);
    if (name.startsWith("data-")) this.dataset[name.slice(5)] = String(value);
    if (["name", "value", "width", "height"].includes(name)) this[name] = value;
  }
  append(...children) {
    for (const child of children) {
      const element = child instanceof Element ? child : new Element("#text", {}, String(child));
      element.parentElement = this;
      this.children.push(element);
    }
  }
  replaceChildren(...children) {
    this.children = [];
    this.append(...children);
  }
  replaceWith(other) {
    const { children } = this.parentElement;
    children[children.indexOf(this)] = other;
    other.parentElement = this.parentElement;
  }
  addEventListener(name, listener) {
    (this.listeners[name] ??= []).push(listener);
  }
  fire(name, event = {}) {
    const all = { target: this, preventDefault() {}, ...event };
    for (const listener of this.listeners[name] ?? []) listener(all);
  }
  contains(other) {
    return this.all.includes(other);
  }
  get all() {
    return [this, ...this.children.flatMap((child) => child.all)];
  }
  get firstChild() {
    return this.children[0];
  }
  get previousElementSibling() {
    const { children } = this.parentElement;
    return children[children.indexOf(this) - 1];
  }
  get textContent() {
    return this.text + this.children.map((child) => child.textContent).join("");
  }
  set textContent(text) {
    Object.assign(this, { text, children: [] });
  }
  querySelectorAll(selector) {
    const [, name, value] = /^\[([\w-]+)(?:="(.*)")?\]$/.exec(selector) ?? [];
    const fits = ({ tag, attributes }) => (name === undefined
      ? [tag, `.${attributes.class}`].includes(selector)
      : name in attributes && [undefined, attributes[name]].includes(value));
    return this.all.filter(fits);
  }
  querySelector(selector) {
    return this.querySelectorAll(selector)[0] ?? null;
  }
  getBoundingClientRect() {
    return { left: 0, top: 0, width: 100, height: 100 };
  }
  scrollIntoView() {}
  // What was put on a canvas, and the other canvases and images that were drawn on it.
  getContext() {
    return this.context ??= {
      drawn: [],
      measureText: (text) => ({ width: 7 * text.length }),
      getImageData: (x, y, width, height) => new ImageData(width, height),
      putImageData: (image) => { this.image = image; },
      drawImage: (...given) => {
        if (!given.slice(1).every(Number.isFinite)) throw new Error("drawn nowhere");
        this.context.drawn.push(given[0]);
      },
    };
  }
}

class ImageData {
  constructor(width, height) {
    if (!(width > 0 && height > 0)) throw new Error(`an image of ${width} × ${height}`);
    Object.assign(this, { width, height, data: new Uint8ClampedArray(4 * width * height) });
  }
}

const root = new Element("html");
root.append(...given.elements.map(({ tag, attributes, text }) => new Element(tag, attributes, text)));
const document = {
  documentElement: root,
  activeElement: {},
  createElement: (tag) => new Element(tag),
  createElementNS: (_, tag) => new Element(tag),
  getElementById: (id) => root.all.find(({ attributes }) => attributes.id === id),
  querySelectorAll: (selector) => root.querySelectorAll(selector),
};
const colours = { "--paper": "0 0 0", "--accent": "255 0 0" };
const getComputedStyle = () => ({ fontFamily: "serif", getPropertyValue: (name) => colours[name] });
const matchMedia = () => ({ addEventListener() {} });

// The address of the page, and the steps back: hashchange follows at once.
const listeners = [];
const past = [];
const location = {
  protocol: given.protocol ?? "file:", pathname: "/page.html", search: "", hash: given.hash ?? "",
};
const history = {
  pushState(state, title, address) {
    past.push(location.hash);
    location.hash = address.startsWith("#") ? address : "";
  },
  back() {
    location.hash = past.pop();
    for (const listener of listeners) listener();
  },
};
const addEventListener = (name, listener) => { if (name === "hashchange") listeners.push(listener); };

const globals = {
  document, getComputedStyle, matchMedia, ImageData, location, history, addEventListener, past,
  innerWidth: 1280,
};
const page = new Function(...Object.keys(globals), `${given.script}\n{ ${given.steps} }`);
console.log(JSON.stringify(page(...Object.values(globals)) ?? null));
