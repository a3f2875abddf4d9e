import { firstHeader, requestHeader } from "../../compat/dialect.ts";
import { badRequest } from "./errors.ts";
import type { HeaderReader } from "./request-headers.ts";

const LONGEST_TOKEN = 512;
/** Batch tokens hold a sealed statement: see `MAX_BATCH_TOKEN` in `src/contracts/tokens.ts`. */
const BATCH_TOKEN = /^hvb\./;
const LONGEST_BATCH_TOKEN = 2_048;
const LONGEST_NAMESPACE = 1_024;

/** The request's token, from a header or as a bearer token; null when there is none. */
export function tokenOf(headers: HeaderReader): string | null {
  const token = firstHeader(headers, requestHeader.token) ?? bearerIn(headers);
  // No valid token is this long. The truncated text is still unknown and bounds the memory used for it.
  return token === undefined ? null : token.slice(0, BATCH_TOKEN.test(token) ? LONGEST_BATCH_TOKEN : LONGEST_TOKEN);
}

const bearerIn = (headers: HeaderReader): string | undefined =>
  /^Bearer\s+(\S+)\s*$/i.exec(headers.get("Authorization") ?? "")?.[1];

/** The namespace header of the secrets API as sent; empty for the root. */
export function namespaceOf(headers: HeaderReader): string {
  const namespace = firstHeader(headers, requestHeader.namespace) ?? "";
  if (namespace.length > LONGEST_NAMESPACE) {
    throw badRequest(`namespace: the header is longer than ${LONGEST_NAMESPACE} characters`);
  }
  return namespace;
}
