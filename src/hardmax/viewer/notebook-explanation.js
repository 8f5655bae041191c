// The explanation of a text in a notebook, as an anywidget module.

import { connect } from "./messages.js";
import { Explanation } from "./reviews.js";

function render({ model, el }) {
  const host = document.createElement("div");
  host.className = "hm-root hm-notebook hm-card";
  host.dataset.lmSuppressShortcuts = "true";
  el.append(host);
  new Explanation(host, { call: connect(model), text: model.get("text"), model: model.get("name"), editable: false });
}

export default { render };
