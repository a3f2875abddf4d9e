import { firstHeader, requestHeader } from "../../compat/dialect.ts";
import { badRequest } from "./errors.ts";
import type { HeaderReader } from "./request-headers.ts";

const MAX_TOKEN_LENGTH = 512;
/** Batch tokens hold a sealed statement: see `MAX_BATCH_TOKEN` in `src/contracts/tokens.ts`. */
const BATCH_TOKEN = /^hvb\./;
const MAX_BATCH_TOKEN_LENGTH = 2_048;
const MAX_NAMESPACE_LENGTH = 1_024;

/** The request's token, from a header or as a bearer token; null when there is none. */
export function tokenOf(headers: HeaderReader): string | null {
  const token = firstHeader(headers, requestHeader.token) ?? bearerIn(headers);
  // No valid token is this long. The truncated text is still unknown and bounds the memory used for it.
  return token === undefined
    ? null
    : token.slice(0, BATCH_TOKEN.test(token) ? MAX_BATCH_TOKEN_LENGTH : MAX_TOKEN_LENGTH);
}

const bearerIn = (headers: HeaderReader): string | undefined =>
  /^Bearer\s+(\S+)\s*$/i.exec(headers.get("Authorization") ?? "")?.[1];

/** The namespace header of the secrets API as sent; empty for the root. */
export function namespaceOf(headers: HeaderReader): string {
  const namespace = firstHeader(headers, requestHeader.namespace) ?? "";
  if (namespace.length > MAX_NAMESPACE_LENGTH) {
    throw badRequest(`namespace: the header is longer than ${MAX_NAMESPACE_LENGTH} characters`);
  }
  return namespace;
}
