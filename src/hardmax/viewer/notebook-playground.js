// The playground in a notebook, as an anywidget module. Requests go to Python as messages.

import { connect } from "./messages.js";
import { Playground } from "./playground.js";

function render({ model, el }) {
  const host = document.createElement("div");
  host.className = "hm-root hm-notebook";
  host.dataset.lmSuppressShortcuts = "true"; // keys belong to the widget, not to JupyterLab
  el.append(host);
  const onchange = (playground) => {
    model.set("scene", playground.plain());
    model.save_changes();
  };
  const call = connect(model);
  call("options", {}).then((options) => new Playground(host, { call, options, scene: model.get("scene"), onchange }));
}

export default { render };
