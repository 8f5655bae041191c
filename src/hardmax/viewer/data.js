// Data between Python and the viewer: base64, packed replies, links, and requests.

const MAX_LINK = 6000; // characters that browsers and mail programs keep
const KINDS = { f4: Float32Array, i4: Int32Array };

export function decodeBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

export function encodeBase64(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

export function unpack(buffer) {
  // Return the header of a reply with its arrays, as `Reply.to_bytes` writes them.
  const length = new DataView(buffer).getUint32(0, true);
  const { arrays, ...header } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  for (const { name, kind, shape, at } of arrays) {
    const size = shape.reduce((a, b) => a * b, 1);
    header[name] = new KINDS[kind](buffer, 4 + length + at, size);
  }
  return header;
}

async function pipe(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

export async function toLink(value) {
  const packed = await pipe(new TextEncoder().encode(JSON.stringify(value)), new CompressionStream("deflate-raw"));
  return encodeBase64(packed).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function fromLink(text) {
  const packed = decodeBase64(text.replaceAll("-", "+").replaceAll("_", "/"));
  return JSON.parse(new TextDecoder().decode(await pipe(packed, new DecompressionStream("deflate-raw"))));
}

export async function fromAddress(key, address = location.href) {
  const found = new URL(address).hash.match(/^#(.)=([\w-]+)$/);
  return found && found[1] === key ? fromLink(found[2]) : null;
}

export async function keepLink(key, value) {
  const link = await toLink(value);
  history.replaceState(null, "", link.length <= MAX_LINK ? `#${key}=${link}` : location.pathname);
}

export async function copyLink(button, key, value, warn) {
  const url = new URL(location.href);
  url.hash = `${key}=${await toLink(value)}`;
  if (url.hash.length > MAX_LINK) return warn("This is too large for a link. Export it as a file.");
  try {
    await navigator.clipboard.writeText(url.href);
    button.textContent = "Copied";
  } catch {
    warn(`Copy the address of this page: ${url.href}`);
  }
  setTimeout(() => (button.textContent = "Copy link"), 2000);
}

export class RequestError extends Error {}

export async function post(path, body, signal) {
  // Send a request to the server; return the reply, or the file as a Blob.
  let response;
  try {
    response = await fetch(`/api/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("The app does not respond. Start it again; the address of this page keeps your work.");
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => ({ error: response.statusText }));
    throw new RequestError(problem.error);
  }
  if (response.headers.get("content-disposition")) return response.blob();
  return unpack(await response.arrayBuffer());
}

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
