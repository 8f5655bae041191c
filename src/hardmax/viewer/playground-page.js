// The page of the playground in the app.

import { fromAddress, keepLink, post, RequestError } from "./data.js";
import { Playground } from "./playground.js";
import { setUp } from "./shell.js";

async function main() {
  setUp();
  const host = document.querySelector("main");
  const options = await post("options", {});
  let [scene, problem] = [null, ""];
  try {
    scene = await fromAddress("s");
    if (scene) await post("scene", { scene, quick: true });
  } catch (error) {
    const reason = error instanceof RequestError ? error.message : "it was cut or changed. Ask for it again.";
    [scene, problem] = [null, `This link is damaged: ${reason}`];
  }
  const remember = (playground) => keepLink("s", playground.plain());
  const playground = new Playground(host, { call: post, options, scene, problem, onchange: remember });
  window.addEventListener("hashchange", (event) =>
    playground.attempt(async () => {
      const opened = await fromAddress("s", event.newURL); // the address may have the former scene again by now
      await post("scene", { scene: opened, quick: true });
      playground.open(opened);
    }),
  );
  window.playground = playground;
}

main();
