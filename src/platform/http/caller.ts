import { firstHeader, requestHeader } from "../../compat/dialect.ts";
import { badRequest } from "./errors.ts";

const LONGEST_TOKEN = 512;
const LONGEST_NAMESPACE = 1_024;

/** The token a caller presents, by header or as a bearer; null when there is none. */
export function tokenOf(headers: Headers): string | null {
  const token = firstHeader(headers, requestHeader.token) ?? bearerIn(headers);
  // No token is this long. Cut, it is still unknown, and nobody remembers 100 KB of it.
  return token === undefined ? null : token.slice(0, LONGEST_TOKEN);
}

const bearerIn = (headers: Headers): string | undefined =>
  /^Bearer\s+(\S+)\s*$/i.exec(headers.get("Authorization") ?? "")?.[1];

/** The namespace of areas A and B as the caller wrote it; empty for the root. */
export function namespaceOf(headers: Headers): string {
  const namespace = firstHeader(headers, requestHeader.namespace) ?? "";
  if (namespace.length > LONGEST_NAMESPACE) {
    throw badRequest(`namespace: the header is longer than ${LONGEST_NAMESPACE} characters`);
  }
  return namespace;
}
