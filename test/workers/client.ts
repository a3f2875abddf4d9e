import { exports } from "cloudflare:workers";

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any;
}

interface Options {
  readonly token?: string | null;
  readonly headers?: Record<string, string>;
}

/** One request to the whole Worker; by default with the root token. */
export async function send(method: string, path: string, body?: unknown, options: Options = {}): Promise<Answer> {
  const headers = new Headers(options.headers);
  const token = options.token === undefined ? "root" : options.token;
  if (token !== null) headers.set("X-Orch-Token", token);
  if (method === "PATCH" && !headers.has("Content-Type")) headers.set("Content-Type", "application/merge-patch+json");
  const url = method === "LIST" ? `https://x${path}${path.includes("?") ? "&" : "?"}list=true` : `https://x${path}`;
  const init: RequestInit = { method: method === "LIST" ? "GET" : method, headers };
  if (body !== undefined) init.body = typeof body === "string" ? body : JSON.stringify(body);
  const response = await exports.default.fetch(url, init);
  const text = await response.text();
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    parsed = undefined;
  }
  return { status: response.status, headers: response.headers, text, body: parsed };
}

export const get = (path: string, options?: Options) => send("GET", path, undefined, options);
export const list = (path: string, options?: Options) => send("LIST", path, undefined, options);
export const put = (path: string, body: unknown, options?: Options) => send("PUT", path, body, options);
export const patch = (path: string, body: unknown, options?: Options) => send("PATCH", path, body, options);
export const del = (path: string, options?: Options) => send("DELETE", path, undefined, options);

/** Mounts a KV store and answers its record. */
export async function mountKv(path = "kv", options?: Options): Promise<{ accessor: string; uuid: string }> {
  const mounted = await put(`/v1/sys/mounts/${path}`, { type: "kv", options: { version: "2" } }, options);
  if (mounted.status !== 204) throw new Error(`mount failed: ${mounted.text}`);
  return (await get(`/v1/sys/mounts/${path}`, options)).body.data;
}

/** Reads a stream's lines as they come. */
export async function* lines(body: ReadableStream<Uint8Array> | null) {
  if (!body) throw new Error("no body");
  const decoder = new TextDecoder();
  let buffer = "";
  for await (const chunk of body) {
    buffer += decoder.decode(chunk, { stream: true });
    for (let end = buffer.indexOf("\n"); end >= 0; end = buffer.indexOf("\n")) {
      yield JSON.parse(buffer.slice(0, end));
      buffer = buffer.slice(end + 1);
    }
  }
}
