import { createHash } from "node:crypto";
import type { Failure } from "../../../contracts/failure.ts";
import { atPointer, webhookSignature } from "../../../providers/http-templates.ts";
import { failure } from "../../../providers/outcome.ts";
import {
  type Meaning,
  notSent,
  type RestAnswer,
  type RestAnswered,
  type RestMethod,
  type RestRefused,
  restClient,
} from "../../../providers/rest.ts";
import type { CallContext, Listing } from "../destination-type.ts";
import { refuseListedHost } from "../listed-host.ts";
import { digestOf } from "../object-rules.ts";
import { MARKER_TEXT, type SeenVariable, type VariablePlace, type Written } from "../variables.ts";
import type { HttpsConnection } from "./connection.ts";
import { hasField, renderBody, renderUrl, type Texts } from "./template.ts";

/** The requests of a connection, rendered for one object, and the objects that its reads show. */

const maxRequestBytes = 256 * 1024;
/** Limit of pages that are read in search of a name. */
const maxPages = 100;
const defaultBody = '{"name":{{ .Name | json }},"value":{{ .Value | json }}}';

/** The reference after a write whose answer had no version. */
export const UNVERSIONED = "written";

/** Whether creations and changes are different requests. */
const isSplit = ({ change_method, change_url, change_body }: HttpsConnection): boolean =>
  [change_method, change_url, change_body].some((field) => field !== undefined);

/** Whether a request needs the API's id of an object. */
const usesId = ({ change_url, change_body, delete_url, delete_body }: HttpsConnection): boolean =>
  [change_url, change_body, delete_url, delete_body].some((template) => hasField(template, "Id"));

/** The id of a request: equal for repeats of an intent. */
const idOf = (...parts: readonly string[]): string => `msg_${digestOf(...parts).slice(0, 32)}`;

interface Request {
  readonly doing: string;
  readonly method: RestMethod;
  /** A template, or for reads an address that the API has answered. */
  readonly url: string;
  readonly body?: string | undefined;
}

/**
 * Sends requests about one object.
 * @param intent what repeats have in common; absent for requests of their own
 */
export function callerOf(
  connection: HttpsConnection,
  { settings, send }: CallContext,
  intent?: readonly string[],
): (request: Request, texts: Texts) => Promise<RestAnswer> {
  const { url, headers = {}, content_type: contentType = "application/json", signing_secret: secret } = connection;
  const { origin } = new URL(url);
  return async ({ doing, method, url: template, body: bodyTemplate }, texts) => {
    const refused = refuseListedHost("url", origin, settings);
    if (refused !== null) return notSent(failure("client", "host_not_allowed", `${refused}.`));
    const at = renderUrl(template, texts);
    if (at === null) return notSent(nameRefused(texts.name));
    const body = bodyTemplate === undefined ? undefined : renderBody(bodyTemplate, texts);
    if (body !== undefined && new TextEncoder().encode(body).byteLength > maxRequestBytes) {
      const message = `The request for ${texts.name} is larger than ${maxRequestBytes} bytes.`;
      return notSent(failure("client", "value_too_large", message));
    }
    const messageId = intent === undefined ? `msg_${crypto.randomUUID()}` : idOf(...intent);
    const signed = secret !== undefined && method !== "GET" ? webhookSignature(secret, messageId, body ?? "") : {};
    const repeated = method === "GET" ? {} : { "idempotency-key": messageId };
    const call = restClient({
      base: "",
      headers: { ...headers, ...repeated, ...signed },
      send,
      contentType,
      encode: String,
      takesAnyText: true,
      meaningOf,
    });
    return call(doing, method, at, body);
  };
}

const nameRefused = (name: string) =>
  failure("client", "name_invalid", `The name ${name} would change the path of the URL.`);

type Found = { readonly ok: true; readonly seen: SeenVariable | null } | RestRefused;

/** @param token the intent's, for writes */
export function placeOf(
  connection: HttpsConnection,
  context: CallContext,
  token?: string,
): VariablePlace & { names(): Promise<Listing> } {
  const { url, body = defaultBody, method = "PUT" } = connection;
  const read = callerOf(connection, context);
  const splits = isSplit(connection);
  const needsId = usesId(connection);

  async function write(request: Omit<Request, "doing">, { name, value }: Wanted, id?: string): Promise<Sent> {
    const doing = `Writing ${name}`;
    // A receiver that recognises repeats must not take a change for the creation before it.
    const kind = splits && id !== undefined ? [request.method] : [];
    const intent = token === undefined ? undefined : [token, name, ...kind];
    const answer = await callerOf(connection, context, intent)({ ...request, doing }, { name, value, id });
    if (!answer.ok) return { ok: false, status: answer.status, outcome: answer.outcome };
    const refused = refusedBy(connection, doing, answer);
    if (refused !== null) return { ok: false, status: null, outcome: refused };
    return { ok: true, reference: versionOf(connection, answer, answer.body) ?? (await versionAfter(name)) };
  }

  /** The version that a read shows after a write without one, for APIs that show it in reads only. */
  async function versionAfter(name: string): Promise<string> {
    if (connection.version_pointer === undefined || connection.inspect_url === undefined) return UNVERSIONED;
    const found = await find(name);
    return (found.ok && found.seen?.version) || UNVERSIONED;
  }

  async function find(name: string): Promise<Found> {
    const { inspect_url: inspectUrl, probe_url: probeUrl } = connection;
    if (inspectUrl !== undefined) {
      const found = await inspected(name, inspectUrl);
      if (!found.ok || found.seen !== null) return found;
      // A list was read, so the place exists.
      if (connection.name_pointer !== undefined) return found;
    }
    // The status of an absent object is the same for a missing place.
    if (probeUrl === undefined) return { ok: true, seen: null };
    const probed = await read({ doing: "The probe", method: "GET", url: probeUrl }, { name });
    return probed.ok ? { ok: true, seen: null } : probed;
  }

  async function inspected(name: string, inspectUrl: string): Promise<Found> {
    const { name_pointer: nameAt } = connection;
    if (nameAt !== undefined) {
      const found = await search(inspectUrl, name, (item) => atPointer(item, nameAt) === name);
      return found.ok && found.seen
        ? { ok: true, seen: seenIn(connection, found.seen.answer, found.seen.item) }
        : found;
    }
    const answer = await read({ doing: `Reading ${name}`, method: "GET", url: inspectUrl }, { name });
    if (answer.ok) return { ok: true, seen: seenIn(connection, answer, answer.body) };
    return answer.status === 404 || answer.status === 410 ? { ok: true, seen: null } : answer;
  }

  /** Reads a list page by page until an item is the one in search. */
  async function search(inspectUrl: string, name: string, isIt: (item: unknown) => boolean) {
    const { list_pointer: listAt, next_pointer: nextAt } = connection;
    const doing = name === "" ? "Listing the objects" : `Reading ${name}`;
    let next: string | null = inspectUrl;
    for (let page = 0; next !== null; page++) {
      if (page === maxPages) {
        const message = `The list at inspect_url has more than ${maxPages} pages.`;
        return notSent(failure("client", "list_too_long", message));
      }
      const answer: RestAnswer = await read({ doing, method: "GET", url: next }, { name });
      if (!answer.ok) return answer;
      const items = listAt === undefined ? answer.body : (atPointer(answer.body, listAt) ?? []);
      if (!Array.isArray(items)) return notSent(failure("external", "unreadable_answer", noList(listAt)));
      const item: unknown = items.find(isIt);
      if (item !== undefined) return { ok: true as const, seen: { answer, item } };
      const after: unknown = nextAt === undefined ? null : atPointer(answer.body, nextAt);
      next = typeof after === "string" && after !== "" ? after : null;
      if (next !== null && URL.parse(next)?.origin !== new URL(url).origin) {
        return notSent(failure("client", "host_not_allowed", "The list's next page is at another host."));
      }
    }
    return { ok: true as const, seen: null };
  }

  /** The names of all objects of a list. */
  async function names(): Promise<Listing> {
    const { inspect_url: inspectUrl, name_pointer: nameAt } = connection;
    if (inspectUrl === undefined || nameAt === undefined || hasField(inspectUrl, "Name")) {
      const message = "An inspect_url without {{ .Name }}, and name_pointer, are needed to list objects.";
      return failure("client", "list_unsupported", message);
    }
    const found: string[] = [];
    const listed = await search(inspectUrl, "", (item) => {
      const name = atPointer(item, nameAt);
      if (typeof name === "string" && name !== "") found.push(name);
      return false;
    });
    return listed.ok ? { outcome: "ok", names: found, next: null } : listed.outcome;
  }

  async function change(object: Wanted, seen: SeenVariable | null): Promise<Written> {
    if (!splits) return whyOf(await write({ method, url, body }, object));
    const { change_method: verb = method, change_url: at = url, change_body: text = body } = connection;
    let id = seen?.id;
    if (needsId && id === undefined) {
      const found = await find(object.name);
      if (!found.ok) return { ok: false, why: null, outcome: found.outcome };
      id = found.seen?.id;
      if (id === undefined) return { ok: false, why: "absent", outcome: absent(object.name) };
    }
    const sent = await write({ method: verb, url: at, body: text }, object, id ?? "");
    return whyOf(sent, !sent.ok && (sent.status === 404 || sent.status === 410) ? "absent" : null);
  }

  return {
    ...(needsId && { hasIds: true as const }),
    names,
    find,
    async create(object) {
      const sent = await write({ method, url, body }, object);
      if (sent.ok || !splits || sent.status === null || ![400, 409, 422].includes(sent.status)) return whyOf(sent);
      // APIs spell "exists already" in many ways.
      const found = await find(object.name);
      return whyOf(sent, found.ok && found.seen !== null ? "exists" : null);
    },
    change,
    async remove(name, seen) {
      const { delete_method: verb = "DELETE", delete_body: text, delete_url: at = url } = connection;
      if (verb === "none") return { ok: true };
      const doing = `Deleting ${name}`;
      const intent = token === undefined ? undefined : [token, name];
      const remove = callerOf(connection, context, intent);
      const answer = await remove({ doing, method: verb, url: at, body: text }, { name, id: seen?.id });
      if (!answer.ok) return answer.status === 410 ? { ...answer, status: 404 } : answer;
      // Many deletions are answered without a body.
      const refused = answer.body === null ? null : refusedBy(connection, doing, answer);
      return refused === null ? answer : notSent(refused);
    },
  };
}

type Wanted = Parameters<VariablePlace["create"]>[0];

type Sent =
  | { readonly ok: true; readonly reference: string }
  | { readonly ok: false; readonly status: number | null; readonly outcome: Failure };

const whyOf = (sent: Sent, why: "exists" | "absent" | null = null): Written =>
  sent.ok ? sent : { ok: false, why, outcome: sent.outcome };

const absent = (name: string): Failure => failure("external", "not_found", `${name} was deleted by another caller.`);
const noList = (pointer = "the answer"): string => `The inspect URL was answered, but ${pointer} is no list.`;

/** The failure of a success whose member for success denies it. */
function refusedBy({ success_pointer: at }: HttpsConnection, doing: string, answer: RestAnswered): Failure | null {
  const member = at === undefined ? true : atPointer(answer.body, at);
  if (member === true || (typeof member === "object" && member !== null)) return null;
  return failure(
    "client",
    "refused",
    `${doing} was answered with ${answer.status}, but ${at} of the answer is not true.`,
  );
}

function seenIn(connection: HttpsConnection, answer: RestAnswered, object: unknown): SeenVariable {
  const { id_pointer: idAt, owner_pointer: ownerAt, value_pointer: valueAt } = connection;
  const id = idAt === undefined ? undefined : atPointer(object, idAt);
  const value = valueAt === undefined ? undefined : atPointer(object, valueAt);
  return {
    ...((typeof id === "string" || typeof id === "number") && { id: String(id) }),
    ...(typeof value === "string" && { value }),
    version: versionOf(connection, answer, object),
    owned: ownerAt === undefined ? null : atPointer(object, ownerAt) === MARKER_TEXT,
  };
}

/** A digest of the version of an object, which may be made from the value; undefined without one. */
function versionOf(connection: HttpsConnection, { headers }: RestAnswered, object: unknown): string | undefined {
  const { version_pointer: pointer = "/version", name_pointer: nameAt } = connection;
  // The ETag of a list is not that of an item.
  const version = (nameAt === undefined ? headers.get("etag") : null) ?? atPointer(object, pointer);
  if (typeof version !== "string" && typeof version !== "number") return undefined;
  return createHash("sha256").update(String(version)).digest("hex");
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 ? ["client", "not_found", "there is no such place, or the credentials may not see it"] : null;
