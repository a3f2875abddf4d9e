import type { Login, SeenEntry } from "../../contracts/auth.ts";
import { badRequest, notFound, refusalError, unwrap } from "../../platform/http/errors.ts";
import { accessControl } from "../../rpc/stubs.ts";
import { envelope } from "./respond.ts";
import type { AuthorisedMethodCall, Call, MethodCall } from "./route.ts";
import { checkWrite } from "./write-rights.ts";

/** A change of an entry begins again this often when another one comes between. */
const ATTEMPTS = 5;

/** An entry, and its text as stored: see `Login.seen`. */
interface Seen<Entry> {
  readonly entry: Entry;
  readonly seen: SeenEntry;
}

const textOf = async (call: MethodCall, kind: string, name: string): Promise<string | null> =>
  unwrap(await accessControl(call.env).authEntry({ mount: call.authMount.uuid, kind, name }));

/** Reads an entry of the request's auth mount; null when there is none. */
export async function readEntry<Entry>(call: MethodCall, kind: string, name: string): Promise<Seen<Entry> | null> {
  const text = await textOf(call, kind, name);
  return text === null ? null : { entry: JSON.parse(text) as Entry, seen: { kind, name, text } };
}

/** Reads an entry of the request's auth mount. @throws RequestError 404 when there is none */
export async function foundEntry<Entry>(call: MethodCall, kind: string, name: string): Promise<Entry> {
  const found = await readEntry<Entry>(call, kind, name);
  if (found === null) throw notFound();
  return found.entry;
}

/**
 * Changes an entry of the request's auth mount. Two changes at the same time are both kept, and a change does not bring
 * back an entry that is deleted meanwhile.
 * @param change the new entry for the stored one, null for none; called again after a change by another request
 * @throws RequestError 403 without the right to create the entry, or to change one that exists
 */
export async function changeEntry<Entry extends object>(
  call: AuthorisedMethodCall,
  kind: string,
  name: string,
  change: (before: Entry | null) => Entry,
): Promise<Entry> {
  const place = { mount: call.authMount.uuid, kind, name };
  for (let attempt = 1; ; attempt += 1) {
    const before = await textOf(call, kind, name);
    const entry = change(before === null ? null : (JSON.parse(before) as Entry));
    checkWrite(call, before !== null);
    const written = await accessControl(call.env).putAuthEntry(place, JSON.stringify(entry), before);
    if (written.ok) return entry;
    if (written.reason !== "conflict" || attempt === ATTEMPTS) throw refusalError(written);
  }
}

/** Replaces an entry of the request's auth mount. */
export async function writeEntry(call: MethodCall, kind: string, name: string, entry: object): Promise<void> {
  const place = { mount: call.authMount.uuid, kind, name };
  unwrap(await accessControl(call.env).putAuthEntry(place, JSON.stringify(entry)));
}

export async function deleteEntry(call: MethodCall, kind: string, name: string): Promise<void> {
  unwrap(await accessControl(call.env).deleteAuthEntry({ mount: call.authMount.uuid, kind, name }));
}

export const entryNames = (call: MethodCall, kind: string): Promise<string[]> =>
  Promise.resolve(accessControl(call.env).authEntryNames(call.authMount.uuid, kind));

/** The client's address, as the platform states it. */
export const addressOf = (call: Call): string | null => call.request.headers.get("CF-Connecting-IP");

/** Issues the token of a verified login. @param path of the login, from the mount @throws RequestError with the refusal */
export async function loggedIn(
  call: MethodCall,
  path: string,
  login: Omit<Login, "address" | "path">,
): Promise<Response> {
  const at = { address: addressOf(call), path: `auth/${call.authMount.path}${path}` };
  const { auth, warnings } = unwrap(await accessControl(call.env).login({ ...login, ...at }));
  return envelope(call, { auth, warnings, mountType: call.authMount.type });
}

const ROLE_NAME = /^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,126}[A-Za-z0-9_])?$/;

/** Whether a role may have a name. Names of roles are compared in lower case, as upstream does. */
export const isRoleName = (name: string): boolean => ROLE_NAME.test(name);

/** @param field the name of the field in messages @throws RequestError 400 */
export function checkRoleName(name: string, field = "name"): void {
  if (!isRoleName(name)) throw badRequest(`${field}: must be 1 to 128 of A-Z a-z 0-9 _ . -, not ending in . or -`);
}
