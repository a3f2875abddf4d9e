/** Transfers of large bodies, with their progress. */

import type { WireRequest } from "../lib/wire.ts";
import { ApiError, requestHeaders } from "./client.ts";

/** Reads an answer to its end. @throws ApiError */
export async function download(
  wire: WireRequest,
  signal: AbortSignal,
  onProgress: (bytes: number) => void,
): Promise<Blob> {
  const headers = requestHeaders(wire.namespace);
  const response = await fetch(wire.target, { headers, cache: "no-store", signal });
  if (!response.ok || !response.body) throw refusalOf(response.status, await response.text(), wire);
  const parts: BlobPart[] = [];
  let bytes = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts);
    parts.push(value);
    bytes += value.byteLength;
    onProgress(bytes);
  }
}

/** Sends a file; `fetch` does not tell how much of it has left. Resolves with the answer. Rejects with an ApiError. */
export const upload = (wire: WireRequest, file: File, onProgress: (bytes: number) => void): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(wire.verb, wire.target);
    for (const [name, value] of Object.entries(requestHeaders(wire.namespace))) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded }) => onProgress(loaded);
    request.onerror = () => reject(refusalOf(0, "", wire));
    request.onload = () => {
      if (request.status !== 200) reject(refusalOf(request.status, request.responseText, wire));
      else resolve(JSON.parse(request.responseText));
    };
    request.send(file);
  });

/** Reads a JSON file of the console's own. @throws ApiError */
export async function readFile<Content>(path: string): Promise<Content> {
  const response = await fetch(path);
  const text = await response.text();
  if (!response.ok) throw refusalOf(response.status, text, { verb: "GET", target: path, namespace: "" });
  return JSON.parse(text) as Content;
}

function refusalOf(status: number, text: string, wire: WireRequest): ApiError {
  try {
    return new ApiError(status, (JSON.parse(text) as { errors: string[] }).errors.map(String), wire);
  } catch {
    return new ApiError(status, [text.slice(0, 2000) || "The service does not answer."], wire);
  }
}
