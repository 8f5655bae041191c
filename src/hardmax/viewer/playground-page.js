// The page of the playground in the app.

import { post, RequestError, toLink } from "./data.js";
import { Playground } from "./playground.js";
import { sceneFromAddress } from "./scene.js";
import { setUp } from "./shell.js";

const MAX_LINK = 6000;

async function main() {
  setUp();
  const host = document.querySelector("main");
  const options = await post("options", {});
  let [scene, problem] = [null, ""];
  try {
    scene = await sceneFromAddress();
    if (scene) await post("scene", { scene, quick: true });
  } catch (error) {
    const reason = error instanceof RequestError ? error.message : "it was cut or changed. Ask for it again.";
    [scene, problem] = [null, `This link is damaged: ${reason}`];
  }
  const remember = async (playground) => {
    const link = await toLink(playground.plain());
    history.replaceState(null, "", link.length <= MAX_LINK ? `#s=${link}` : location.pathname);
  };
  const playground = new Playground(host, { call: post, options, scene, problem, onchange: remember });
  window.addEventListener("hashchange", () =>
    playground.attempt(async () => {
      const opened = await sceneFromAddress();
      await post("scene", { scene: opened, quick: true });
      playground.open(opened);
    }),
  );
  window.playground = playground;
}

main();
