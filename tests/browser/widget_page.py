"""A page that hosts a widget as the front end of a notebook does, without a notebook.

``sent`` has what the widget saved, in order: what a front end would send to the kernel.
"""

import json

PAGE = """<!doctype html><html data-ready><meta charset="utf-8"><style>%(style)s</style>
<div id="host"></div><script type="module">%(script)s
const data = Uint8Array.from(atob("%(record)s"), (c) => c.charCodeAt(0)).buffer;
const state = { record: new DataView(data), options: %(options)s, selection: {} };
const heard = {};
let changed = {};
window.sent = [];
window.model = {
  get: (name) => state[name],
  set: (name, value) => { state[name] = changed[name] = value; heard[name]?.(); },
  save_changes: () => { sent.push(changed); changed = {}; },
  on: (name, call) => { heard[name.split(":")[1]] = call; },
  off: (name) => delete heard[name.split(":")[1]],
};
window.stop = widget.render({ model, el: document.querySelector("#host") });
</script></html>"""


def widget_page(script: str, style: str, record: str, options: dict) -> str:
    """Page of a widget's script and style with the state of its model; the record is base64."""
    return PAGE % {
        "style": style,
        "script": script.replace("export default", "const widget ="),
        "record": record,
        "options": json.dumps(options),
    }
