// Requests as messages of a notebook widget: each has a number, and the answer carries the same one.

import { RequestError, unpack } from "./data.js";

export function connect(model) {
  const waiting = new Map();
  let number = 0;
  model.on("msg:custom", ({ id, error, file, type }, buffers) => {
    const request = waiting.get(id);
    if (!request) return;
    waiting.delete(id);
    if (error) return request.reject(new RequestError(error));
    const view = buffers[0];
    const bytes = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
    request.resolve(file ? new Blob([bytes], { type }) : unpack(bytes));
  });
  return (path, body, signal) =>
    new Promise((resolve, reject) => {
      const id = ++number;
      waiting.set(id, { resolve, reject });
      signal?.addEventListener("abort", () => {
        waiting.delete(id);
        reject(new DOMException("A newer request was sent.", "AbortError"));
      });
      model.send({ id, path, body });
    });
}
