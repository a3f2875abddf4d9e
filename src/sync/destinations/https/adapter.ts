import { createHash } from "node:crypto";
import { memo } from "../../../lib/memo.ts";
import { atPointer, webhookSignature } from "../../../providers/http-templates.ts";
import { failure } from "../../../providers/outcome.ts";
import { type Meaning, notSent, type RestAnswer, type RestMethod, restClient } from "../../../providers/rest.ts";
import { EACH_SECRET } from "../defaults.ts";
import { fromDescription } from "../description.ts";
import type { CallContext, Done, RemoteDestinationType } from "../destination-type.ts";
import { refuseListedHost } from "../listed-host.ts";
import {
  checkVariable,
  inspectVariable,
  putVariable,
  removeVariable,
  type VariablePlace,
  type Written,
} from "../variables.ts";
import { type HttpsConnection, httpsConnection } from "./connection.ts";
import { description } from "./description.ts";
import { renderBody, renderUrl } from "./template.ts";

const maxValueBytes = 64 * 1024;
const maxRequestBytes = 256 * 1024;
const defaultBody = '{"name":{{ .Name | json }},"value":{{ .Value | json }}}';

/** The reference after a write whose answer had no version. */
const UNVERSIONED = "written";

const parsedConnection = memo(httpsConnection);

/**
 * Any API that takes a value by one request. One external object is one name; the requests are templates. A repeated
 * request has the same id, so that a receiver can recognise it. Of an answer, only the status, the retry hint, and a
 * digest of the version are used: a body may echo the value.
 */
export const https: RemoteDestinationType<HttpsConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return parsedConnection();
  },
  targets: ({ url }) => [url],
  defaults: EACH_SECRET,
  naming: {
    allowed: /^[A-Za-z0-9_./:@+-]$/,
    maxLength: 512,
    replacement: "-",
    refuse: (name) => (/^\.{1,2}$/.test(name) ? "The name must not be dots alone." : null),
  },
  maxValueBytes,
  pace: { atOnce: 2, burst: 20, perMinute: 120 },
  checkSettings: ({ url }, settings) => refuseListedHost("url", new URL(url).origin, settings),

  async put(object, connection, context) {
    const refused = checkVariable(object, {
      name: /^(?!\.{1,2}$)[\w./:@+-]{1,512}$/,
      rule: "1 to 512 letters, digits or characters of _./:@+-, not dots alone",
      maxBytes: maxValueBytes,
    });
    if (refused !== null) return refused;
    if (object.updatePolicy !== "replace" && connection.inspect_url === undefined) {
      const message = `The update policy ${object.updatePolicy} needs inspect_url, to see whether an object exists.`;
      return failure("client", "policy_unsupported", message);
    }
    return putVariable(placeOf(connection, context, idOf(object.idempotencyToken, object.name)), object);
  },

  async remove(object, connection, context) {
    if (connection.delete_method === "none") return { outcome: "ok" };
    if (object.ownedOnly && object.reference === null) return { outcome: "ok" };
    return removeVariable(placeOf(connection, context), { ...object, ownedOnly: false });
  },

  async inspect(object, connection, context) {
    if (connection.inspect_url !== undefined) {
      const found = await inspectVariable(placeOf(connection, context), object);
      // The answer to our write had no version to compare with.
      const isOpen = found.outcome === "ok" && found.state === "changed" && object.reference === UNVERSIONED;
      return isOpen ? { ...found, state: "present" } : found;
    }
    const probed = await probe(connection, context);
    return probed.outcome === "ok" ? { outcome: "ok", state: "present", owned: null } : probed;
  },

  probe,
};

async function probe(connection: HttpsConnection, context: CallContext): Promise<Done> {
  if (connection.probe_url === undefined) {
    const refused = refuseListedHost("url", new URL(connection.url).origin, context.settings);
    return refused === null ? { outcome: "ok" } : failure("client", "host_not_allowed", `${refused}.`);
  }
  const probed = await callerOf(connection, context)("The probe", "GET", connection.probe_url);
  return probed.ok ? { outcome: "ok" } : probed.outcome;
}

/** The id of a request: equal for repeats of an intent. */
const idOf = (...parts: string[]): string =>
  `msg_${createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 32)}`;

function callerOf(connection: HttpsConnection, { settings, send }: CallContext, id?: string) {
  const { url, headers = {}, content_type: contentType = "application/json", signing_secret: secret } = connection;
  const { origin } = new URL(url);
  return async (doing: string, method: RestMethod, at: string, body?: string): Promise<RestAnswer> => {
    const refused = refuseListedHost("url", origin, settings);
    if (refused !== null) return notSent(failure("client", "host_not_allowed", `${refused}.`));
    const messageId = id ?? `msg_${crypto.randomUUID()}`;
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
  notSent(failure("client", "name_invalid", `The name ${name} would change the path of the URL.`));

function placeOf(connection: HttpsConnection, context: CallContext, id?: string): VariablePlace {
  const call = callerOf(connection, context, id);
  const {
    url,
    delete_url: deleteUrl = url,
    version_pointer: versionAt = "/version",
    success_pointer: success,
  } = connection;

  async function write(name: string, value: string): Promise<Written> {
    const doing = `Writing ${name}`;
    const body = renderBody(connection.body ?? defaultBody, { name, value });
    if (new TextEncoder().encode(body).byteLength > maxRequestBytes) {
      const message = `The request for ${name} is larger than ${maxRequestBytes} bytes.`;
      return { ok: false, why: null, outcome: failure("client", "value_too_large", message) };
    }
    const at = renderUrl(url, name);
    const answer = at === null ? nameRefused(name) : await call(doing, connection.method ?? "PUT", at, body);
    if (!answer.ok) return { ok: false, why: null, outcome: answer.outcome };
    if (success !== undefined && atPointer(answer.body, success) !== true) {
      const message = `${doing} was answered with ${answer.status}, but ${success} of the answer is not true.`;
      return { ok: false, why: null, outcome: failure("client", "refused", message) };
    }
    return { ok: true, reference: versionOf(answer, versionAt) ?? UNVERSIONED };
  }

  return {
    async find(name) {
      const { inspect_url: inspectUrl, probe_url: probeUrl } = connection;
      const at = inspectUrl === undefined ? null : renderUrl(inspectUrl, name);
      if (inspectUrl !== undefined && at === null) return nameRefused(name);
      const answer = at === null ? null : await call(`Reading ${name}`, "GET", at);
      if (answer?.ok) return { ok: true, seen: { version: versionOf(answer, versionAt), owned: null } };
      if (answer !== null && answer.status !== 404 && answer.status !== 410) return answer;
      // The status is the same for a missing place.
      const probed = probeUrl === undefined ? null : await call("The probe", "GET", probeUrl);
      return probed === null || probed.ok ? { ok: true, seen: null } : probed;
    },
    create: ({ name, value }) => write(name, value),
    change: ({ name, value }) => write(name, value),
    async remove(name) {
      const { delete_method: method = "DELETE", delete_body: template } = connection;
      if (method === "none") return { ok: true };
      const at = renderUrl(deleteUrl, name);
      if (at === null) return nameRefused(name);
      const body = template === undefined ? undefined : renderBody(template, { name, value: "" });
      const answer = await call(`Deleting ${name}`, method, at, body);
      return !answer.ok && answer.status === 410 ? { ...answer, status: 404 } : answer;
    },
  };
}

/** A digest of the version of an answer, which may be made from the value; undefined without one. */
function versionOf({ headers, body }: Extract<RestAnswer, { ok: true }>, pointer: string): string | undefined {
  const version = headers.get("etag") ?? atPointer(body, pointer);
  if (typeof version !== "string" && typeof version !== "number") return undefined;
  return createHash("sha256").update(String(version)).digest("hex");
}

const meaningOf = (status: number): Meaning | null =>
  status === 404 ? ["client", "not_found", "there is no such place, or the credentials may not see it"] : null;
