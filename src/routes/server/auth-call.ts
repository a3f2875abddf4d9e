import type { AuthMount } from "../../contracts/auth.ts";
import { accessControl } from "../../contracts/stubs.ts";
import { unwrap } from "../../platform/http/errors.ts";
import type { Call } from "./route.ts";

/** The auth mount of a request to a route of an auth method. */
export function authMountOf(call: Call): AuthMount {
  if (call.authMount === null) throw new Error("not a route of an auth method");
  return call.authMount;
}

/** Reads an entry of the request's auth mount; null when there is none. */
export async function readEntry<Entry>(call: Call, kind: string, name: string): Promise<Entry | null> {
  const text = unwrap(await accessControl(call.env).authEntry({ mount: authMountOf(call).uuid, kind, name }));
  return text === null ? null : (JSON.parse(text) as Entry);
}

export async function writeEntry(call: Call, kind: string, name: string, entry: object): Promise<void> {
  const place = { mount: authMountOf(call).uuid, kind, name };
  unwrap(await accessControl(call.env).putAuthEntry(place, JSON.stringify(entry)));
}

export async function deleteEntry(call: Call, kind: string, name: string): Promise<void> {
  unwrap(await accessControl(call.env).deleteAuthEntry({ mount: authMountOf(call).uuid, kind, name }));
}

export const entryNames = (call: Call, kind: string): Promise<string[]> =>
  Promise.resolve(accessControl(call.env).authEntryNames(authMountOf(call).uuid, kind));

/** The client's address, as the platform states it. */
export const addressOf = (call: Call): string | null => call.request.headers.get("CF-Connecting-IP");
