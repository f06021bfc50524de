"""Widgets for notebooks: every view, with its choices and its selection in Python.

They need ``pip install regard[notebook]``. Without widgets a result shows itself as a page in a
notebook, and as a drawing where a saved notebook is shown without scripts.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from regard.core.errors import BadInput, shown
from regard.views.pages import MODULES, bundle, style
from regard.views.view_record import ViewRecord

try:
    import anywidget
    import traitlets
except ImportError:  # pragma: no cover
    raise BadInput("widgets need anywidget: pip install 'regard[notebook]'") from None

_SCRIPT = """{modules}
export default {{
  render({{ model, el }}) {{
    const record = () => {{
      const {{ buffer, byteOffset, byteLength }} = model.get("record");
      return base.decode(buffer.slice(byteOffset, byteOffset + byteLength));
    }};
    let own = false; // a change of this view, which it has drawn already
    const send = (name, value) => {{
      own = true;
      model.set(name, value);
      model.save_changes();
      own = false;
    }};
    const view = {module}.render(el, record(), {{
      ...model.get("options"),
      onOptions: (changes, state) => send("options", {{ ...state }}),
      onSelect: (selection) => send("selection", selection),
    }});
    const changed = () => {{ if (!own) view.update(null, model.get("options")); }};
    const replaced = () => view.update(record());
    model.on("change:options", changed);
    model.on("change:record", replaced);
    return () => {{
      model.off("change:options", changed);
      model.off("change:record", replaced);
      view.destroy();
    }};
  }},
}};
"""


class HasRecord(Protocol):
    """Protocol of results with a record for views and a drawing."""

    def view_record(self) -> ViewRecord: ...
    def static_drawing(self) -> str: ...


class ViewWidget(anywidget.AnyWidget):
    """Base class of widgets: ``options`` are the choices, ``selection`` is what is pointed at.

    Both are the same in the notebook and in Python: to set ``options`` draws the view anew, and
    ``observe`` tells of what the reader chooses.
    """

    record = traitlets.Bytes().tag(sync=True)
    options = traitlets.Dict().tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)
    drawing = ""

    @property
    def layer(self) -> int | None:
        """Layer that was selected last, or chosen."""
        return self._place("layer")

    @property
    def head(self) -> int | None:
        """Head that was selected last, or chosen."""
        return self._place("head")

    @property
    def token(self) -> int | None:
        """Token, word or query that is selected."""
        names = "token", "query", "word"
        return next((self.selection[name] for name in names if name in self.selection), None)

    def _place(self, name: str) -> int | None:
        return self.selection.get(name, self.options.get(name))

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Widget and, for saved notebooks, the drawing."""
        bundle = super()._repr_mimebundle_(**options)
        if not bundle or not self.drawing:
            return bundle
        data, metadata = bundle
        return {**data, "image/svg+xml": self.drawing}, metadata


def _widget_class(kind: str, module: str) -> type[ViewWidget]:
    name = "".join(part.capitalize() for part in kind.split("_")) + "Widget"
    script = _SCRIPT.format(modules=bundle([module]), module=module)
    about = f"Widget of the view ``{kind}``."
    fields = {"_esm": script, "_css": style(), "__doc__": about}
    return type(name, (ViewWidget,), {**fields, "__module__": __name__})


WIDGETS: Mapping[str, type[ViewWidget]] = {
    kind: _widget_class(kind, module) for kind, module in MODULES.items()
}
"""Widget class of each kind of view."""


def widget(result: HasRecord, kind: str | None = None, **options: object) -> ViewWidget:
    """Make a widget of a result or of its record; ``options`` are the first choices.

    ``kind`` draws the record by another view, such as "matrix" for attention.
    """
    record = result.view_record()
    name = kind or record.kind
    if name not in WIDGETS:
        raise BadInput(f"kind: no view is called {shown(name)}; there are: {', '.join(WIDGETS)}")
    made = WIDGETS[name](record=record.to_bytes(), options=options)
    made.drawing = result.static_drawing()
    return made
