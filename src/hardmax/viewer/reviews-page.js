// The page of texts in the app.

import { fromAddress, post } from "./data.js";
import { Reviews } from "./reviews.js";
import { setUp } from "./shell.js";

async function main() {
  setUp();
  const { models, examples } = await post("options", {});
  let [state, problem] = [null, ""];
  try {
    state = await fromAddress("r");
    if (state && !(Array.isArray(state.texts) && state.texts.length && models.includes(state.model))) throw new Error();
  } catch {
    [state, problem] = [null, "This link is damaged, or its model is not here. Ask for it again."];
  }
  window.reviews = new Reviews(document.querySelector("main"), { models, examples, state });
  if (problem) window.reviews.warn(problem);
}

main();
