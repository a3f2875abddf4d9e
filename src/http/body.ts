import { badRequest, RequestError } from "./errors.ts";
import { isPlainObject, parseLossless } from "./json.ts";

/** Largest request body, in bytes. */
export const MAX_BODY_BYTES = 1024 * 1024;

const tooLarge = () => new RequestError(413, `request body: larger than ${MAX_BODY_BYTES} bytes`);

/** The body as text. @throws RequestError 413 beyond the limit, 400 when it is not UTF-8 */
export async function readText(request: Request): Promise<string> {
  if (request.body === null) return "";
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw tooLarge();
    chunks.push(chunk);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(Buffer.concat(chunks));
  } catch {
    throw badRequest("request body: is not UTF-8");
  }
}

/**
 * The body as an object; empty when there is none. Clients often send no content type, so the first character decides: JSON
 * when it is `{` or `[`, else a form.
 */
export function parseObject(text: string): Record<string, unknown> {
  const trimmed = text.trimStart();
  if (trimmed === "") return {};
  if (!/^[{[]/.test(trimmed)) {
    if (trimmed.trim() === "null") return {};
    if (/[\u0000-\u001f"]/.test(trimmed) || !trimmed.includes("="))
      throw badRequest("request body: is not a JSON object");
    return Object.fromEntries(new URLSearchParams(trimmed.trimEnd()));
  }
  let value: unknown;
  try {
    value = parseLossless(text);
  } catch (failure) {
    // The engine's text quotes the input, which may hold a secret.
    const because =
      failure instanceof SyntaxError && failure.message.startsWith("nested") ? failure.message : "is not valid JSON";
    throw badRequest(`request body: ${because}`);
  }
  if (!isPlainObject(value)) throw badRequest("request body: must be a JSON object");
  return value;
}
