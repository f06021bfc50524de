// What is chosen, in the address of the page: "#layer=1&heads=0,3". A field is left out while it has
// its first value; what the page does not know is ignored. Every choice is a step of the history. A
// page without an address of its own (in a frame of a notebook) does without. A page has chosen, an
// object; fields(), those of the address; and choose(change), which draws and calls writeAddress.
const HAS_ADDRESS = ["file:", "http:", "https:"].includes(location.protocol);
let first; // what was chosen before the address was read

// A field writes its value as text, and reads it: undefined if the text is no value of it.
const wordField = (...values) => ({
  write: (value) => value,
  read: (text) => (values.includes(text) ? text : undefined),
});
const numberField = (unchosen, count) => ({
  write: (value) => (value === null ? unchosen : String(value)),
  read: (text) => {
    if (text === unchosen) return null;
    return /^\d{1,6}$/.test(text) && Number(text) < count() ? Number(text) : undefined;
  },
});
const listField = (field) => ({
  write: (values) => values.map(field.write).join(),
  read: (text) => {
    const parts = text.split(",").filter((part) => part !== "");
    const values = [...new Set(parts)].map(field.read);
    return values.includes(undefined) ? undefined : values;
  },
});
// Fields are read in their order: the map decides which layers there are, the layer which heads.
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  Object.assign(chosen, first);
  for (const [name, { read }] of Object.entries(fields())) {
    const value = given.has(name) ? read(given.get(name)) : undefined;
    if (value !== undefined) chosen[name] = value;
  }
}
function addressOf(state) {
  const written = Object.entries(fields()).map(([name, { write }]) =>
    [name, write(state[name]), write(first[name])]);
  return written.filter(([, value, before]) => value !== before)
    .map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%2C", ",")}`)
    .join("&");
}

let written = null; // the address of what is chosen; null before it has been read
function writeAddress() {
  const address = addressOf(chosen);
  if (HAS_ADDRESS && written !== null && address !== written)
    history.pushState(null, "", address ? `#${address}` : location.pathname + location.search);
  written = address;
}
function openAddress() {
  first = { ...chosen };
  const open = () => {
    written = null;
    readAddress();
    choose({});
  };
  if (HAS_ADDRESS) addEventListener("hashchange", open);
  open();
}
