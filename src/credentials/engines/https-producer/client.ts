import { createHash } from "node:crypto";
import type { CloudFailure, CloudResult } from "../../../contracts/cloud-calls.ts";
import type { Refusal } from "../../../lib/result.ts";
import { atPointer, webhookSignature } from "../../../providers/http-templates.ts";
import type { Send } from "../../../providers/outcome.ts";
import { parseAppKey } from "../../../providers/repo-host-github/app-key.ts";
import { answerJson, failed, httpResult } from "../http-result.ts";
import { type Account, type Captured, type Held, type Made, type Producer, sameObject, type Vars } from "./cloud.ts";
import type { Call, Definition } from "./document.ts";
import {
  lifeValues,
  markerValues,
  ownValues,
  percentEncoded,
  rendered,
  requestOf,
  textOf,
  under,
  type Values,
  varValues,
} from "./render.ts";

/** Consecutive characters of a generated value are drawn evenly. */
const CHARSET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/**
 * Refusals of a removal after which the search decides. Not those of a right that was lost: the search may then hide
 * what is there.
 */
const MAY_BE_GONE: ReadonlySet<string> = new Set(["refused", "already_exists", "locked"]);

interface Operation {
  readonly name: string;
  readonly reads: boolean;
  readonly creates?: true;
}

/** The failure of a call that a value does not fit into. Nothing was sent. */
const unfit = (name: string, { message }: Refusal) => failed("client", "misconfigured", `${name}: ${message}.`);

/** The failure of a call that another definition has made a step of. */
const NOT_DEFINED = failed("client", "misconfigured", "The definition has no such call.");

/** The calls of a producer. Messages never have texts of the provider, which may quote a secret. */
export function producer(account: Account & { readonly vars: Vars }, send: Send): Producer {
  const { url, definition, signingSecret } = account;
  let bearer: string | null = null;

  async function login(values: Values): Promise<CloudResult<string>> {
    const { auth } = definition;
    if (!auth || bearer !== null) return { ok: true, value: bearer ?? "" };
    if (auth.type === "jwt_rs256") {
      const signed = await signedToken(auth, values);
      if (signed.ok) bearer = signed.value;
      return signed;
    }
    const scope = auth.scope && { scope: auth.scope };
    const form = { grant_type: "client_credentials", ...scope };
    const asked = rendered(() => {
      const request = requestOf(url, { method: "POST", path: auth.path, form }, values);
      const [id, secret] = [auth.client_id, auth.client_secret].map((each) => percentEncoded(textOf(each, values)));
      return { ...request, authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}` };
    });
    if (!asked.ok) return unfit("Logging in", asked);
    const { authorization, body = "" } = asked.value;
    const headers = { ...asked.value.headers, authorization };
    const sent = await send([asked.value.url, { method: "POST", headers, body }]);
    const result = httpResult(sent, { name: "Logging in", reads: true });
    if (!result.ok) return result;
    const token = atPointer(result.value, "/access_token");
    if (typeof token !== "string" || token === "") {
      return failed("external", "unreadable_answer", "Logging in was answered without an access token.");
    }
    bearer = token;
    return { ok: true, value: token };
  }

  /** @param isNew sends it as the new credentials, without those of the engine */
  async function call(
    operation: Operation,
    given: Call,
    values: Values,
    more: Readonly<Record<string, string>> = {},
    isNew = false,
  ): Promise<CloudResult<unknown>> {
    const common = isNew ? null : definition.headers;
    const dropsOthers = operation.creates !== true && !isNew;
    const request = rendered(() => requestOf(url, given, values, { common, more, dropsOthers }));
    if (!request.ok) return unfit(operation.name, request);
    const token = isNew ? ({ ok: true, value: "" } as const) : await login(values);
    if (!token.ok) return token;
    const { method } = given;
    const { url: target, body } = request.value;
    const id = `msg_${createHash("sha256")
      .update(JSON.stringify([method, target, body]))
      .digest("hex")
      .slice(0, 32)}`;
    const signed =
      signingSecret !== "" && method !== "GET" && !isNew ? webhookSignature(signingSecret, id, body ?? "") : {};
    const authorization = token.value === "" ? {} : { authorization: `Bearer ${token.value}` };
    const headers = { ...request.value.headers, ...authorization, ...signed };
    const sent = await send([target, { method, headers, ...(body !== undefined && { body }) }]);
    return judged(operation, given, sent);
  }

  const calls: Producer = {
    async create({ marker, vars, root, expires }) {
      const part = partOf(definition, root);
      if (!part) return NOT_DEFINED;
      const generated = generatedValues(part);
      const own = { ...ownValues(account, vars), ...markerValues(marker), ...generated };
      const values = { ...own, ...lifeValues(expires, Date.now()) };
      const made = await call({ name: "Creating credentials", reads: false, creates: true }, part.create, values);
      if (!made.ok) return made;
      const captured = capturedOf(made.value, part.create.capture);
      if (!captured) {
        return failed(
          "unknown",
          "unreadable_answer",
          "Creating credentials was answered without what create captures.",
        );
      }
      return { ok: true, value: madeOf(part, captured, { ...own, ...captured }) };
    },

    async find({ marker, vars, root }) {
      const find = partOf(definition, root)?.find;
      if (!find) return NOT_DEFINED;
      const values = { ...ownValues(account, vars), ...markerValues(marker) };
      const rules = rendered(() => rulesOf(find, values));
      if (!rules.ok) return unfit("Searching for credentials", rules);
      const found: Captured[] = [];
      const { pages } = find;
      for (let page = 0; ; page++) {
        const more = pages ? { [pages.query]: String(pages.first + page) } : {};
        const answer = await call({ name: "Searching for credentials", reads: true }, find, values, more);
        if (!answer.ok)
          return answer.failure.code === "not_found" && isGone(find, answer.failure)
            ? { ok: true, value: found }
            : answer;
        const items = find.items === undefined ? [answer.value] : atItems(answer.value, find.items);
        const matched = Array.isArray(items) ? matching(items, find, rules.value) : null;
        if (!matched) {
          return failed(
            "external",
            "unreadable_answer",
            "Searching for credentials was answered without find's items.",
          );
        }
        found.push(...matched);
        if (!pages || (items as readonly unknown[]).length === 0) return { ok: true, value: found };
        if (page + 1 >= pages.most) {
          return failed("client", "refused", `Searching for credentials has more than ${pages.most} pages.`);
        }
      }
    },

    async revoke(text) {
      const held = JSON.parse(text) as Held;
      const { ids, marker, vars } = held;
      const revoke = partOf(definition, held.root)?.revoke;
      if (!revoke) return NOT_DEFINED;
      const values = { ...ownValues(account, vars), ...markerValues(marker), ...ids };
      const removed = await call({ name: "Removing credentials", reads: false }, revoke, values);
      if (removed.ok || marker === "" || !MAY_BE_GONE.has(removed.failure.code)) return nothing(removed);
      // Some providers refuse the removal of nothing as they refuse any other.
      const left = await calls.find(held);
      const isGone = left.ok && !left.value.some((each) => sameObject(each, ids));
      return isGone ? failed("client", "not_found", "Removing credentials: there are none.") : removed;
    },

    async renew({ ids, marker, vars }, expires) {
      const { renew } = definition;
      if (!renew) return { ok: true, value: null };
      const own = { ...ownValues(account, vars), ...markerValues(marker), ...ids };
      const values = { ...own, ...lifeValues(expires, Date.now()) };
      return nothing(await call({ name: "Renewing credentials", reads: false }, renew, values));
    },

    async verify(data) {
      const { verify } = definition;
      if (!verify) return { ok: true, value: null };
      const values = { ...varValues(account.vars), ...under("data", data) };
      return nothing(await call({ name: "Using the new credentials", reads: true }, verify, values, {}, true));
    },

    async self(vars) {
      const self = definition.root?.self;
      if (!self) return { ok: true, value: null };
      const values = ownValues(account, vars);
      const answer = await call({ name: "Reading the engine's credentials", reads: true }, self, values);
      if (!answer.ok) return answer;
      const ids = capturedOf(answer.value, self.capture);
      return ids
        ? { ok: true, value: ids }
        : failed("client", "refused", "Reading the engine's credentials was answered without what root.self captures.");
    },

    async use(object, secrets) {
      const found = await producer({ ...account, secrets: { ...account.secrets, ...secrets } }, send).find(object);
      if (!found.ok) return found;
      return found.value.length > 0
        ? { ok: true, value: null }
        : failed("client", "not_found", "The search with the new secrets finds nothing.");
    },
  };
  return calls;
}

/** Life of a signed token, seconds. */
const TOKEN_LIFE = 60;

async function signedToken(
  auth: Extract<NonNullable<Definition["auth"]>, { type: "jwt_rs256" }>,
  values: Values,
): Promise<CloudResult<string>> {
  const secret = rendered(() => textOf(auth.private_key, values));
  if (!secret.ok) return unfit("auth", secret);
  const key = parseAppKey(secret.value);
  if (!key.ok) return failed("client", "misconfigured", `auth: ${key.message}.`);
  const all = { ...values, "key.fingerprint": key.fingerprint };
  const texts = rendered(() => [auth.issuer, auth.subject, auth.audience].map((text) => text && textOf(text, all)));
  if (!texts.ok) return unfit("auth", texts);
  const [issuer, subject, audience] = texts.value;
  const now = Math.floor(Date.now() / 1000);
  const claims = { iss: issuer, sub: subject, iat: now, exp: now + TOKEN_LIFE, ...(audience && { aud: audience }) };
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = `${part({ alg: "RS256", typ: "JWT" })}.${part(claims)}`;
  const der = Buffer.from(key.pem.replaceAll(/-----[^-]+-----|\s/g, ""), "base64");
  const algorithm = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
  const signer = await crypto.subtle.importKey("pkcs8", der, algorithm, false, ["sign"]);
  const signature = await crypto.subtle.sign(algorithm, signer, Buffer.from(text));
  return { ok: true, value: `${text}.${Buffer.from(signature).toString("base64url")}` };
}

/** The calls for credentials, or for secrets of the engine; null for a definition without the latter. */
function partOf({ root, ...calls }: Definition, isRoot: true | undefined): Part | null {
  if (!isRoot) return { ...calls, results: calls.lease.data };
  return root ? { ...root, results: root.secrets } : null;
}

type Part = Pick<Definition, "generate" | "create" | "find" | "revoke"> & { readonly results: Vars };

const nothing = (result: CloudResult<unknown>): CloudResult<null> => (result.ok ? { ok: true, value: null } : result);

const isGone = (call: Call, { status }: CloudFailure): boolean =>
  "gone" in call && status !== null && (call.gone?.includes(status) ?? false);

/** The result of a call, by the statuses that its definition names. */
function judged(operation: Operation, call: Call, sent: Awaited<ReturnType<Send>>): CloudResult<unknown> {
  const unsure = operation.reads ? "external" : "unknown";
  if (sent.ok) {
    const { status } = sent.response;
    if (isGone(call, { status } as CloudFailure)) {
      return failed("client", "not_found", `${operation.name}: there is none (HTTP ${status}).`, { status });
    }
    if ("conflict" in call && call.conflict?.includes(status)) {
      return failed("unknown", "already_exists", `${operation.name}: it exists already (HTTP ${status}).`, { status });
    }
    if (sent.response.ok && call.expect && !call.expect.includes(status)) {
      return failed(unsure, "unreadable_answer", `${operation.name} was answered with HTTP ${status}.`, { status });
    }
    // A removal may be answered with any text.
    if (sent.response.ok && !("capture" in call)) return { ok: true, value: answerJson(sent.text) ?? null };
  }
  return httpResult(sent, operation);
}

const atItems = (document: unknown, pointer: string): unknown =>
  pointer === "" ? document : atPointer(document, pointer);

/** The members of an answer by their names; null when one is missing. */
function capturedOf(document: unknown, capture: Readonly<Record<string, string>>): Captured | null {
  const found = Object.entries(capture).map(([name, pointer]) => [name, atPointer(document, pointer)] as const);
  return found.every(([, value]) => isValue(value)) ? (Object.fromEntries(found) as Captured) : null;
}

const isValue = (value: unknown): boolean =>
  (typeof value === "string" && value !== "") || typeof value === "number" || typeof value === "boolean";

type Find = NonNullable<Definition["find"]>;
type Rule = readonly [pointer: string, text: string];

const rulesOf = ({ match }: Find, values: Values): Rule[] =>
  Object.entries(match).map(([pointer, template]) => [pointer, textOf(template, values)]);

/** The items that have our marker; null when one of them lacks what is captured. */
function matching(items: readonly unknown[], find: Find, rules: readonly Rule[]): Captured[] | null {
  const ours = items.filter((item) => rules.every(([pointer, text]) => String(atPointer(item, pointer)) === text));
  const found = ours.map((item) => capturedOf(item, find.capture)).filter((each) => each !== null);
  return found.length === ours.length ? found : null;
}

function madeOf({ find, results }: Part, captured: Captured, values: Values): Made {
  const ids = Object.fromEntries(Object.keys(find?.capture ?? {}).flatMap((name) => pair(name, captured[name])));
  const data: Vars = Object.fromEntries(Object.entries(results).map(([name, text]) => [name, textOf(text, values)]));
  return { ids, data };
}

const pair = <T>(name: string, value: T | undefined): [string, T][] => (value === undefined ? [] : [[name, value]]);

function generatedValues({ generate = {} }: Part): Values {
  return under(
    "generated",
    Object.fromEntries(
      Object.entries(generate).map(([name, { length, charset = CHARSET }]) => [name, drawn(length, charset)]),
    ),
  );
}

/** A random text; bytes beyond the last whole multiple of the alphabet are drawn again. */
function drawn(length: number, charset: string): string {
  const most = 256 - (256 % charset.length);
  let text = "";
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      if (byte < most && text.length < length) text += charset[byte % charset.length];
    }
  }
  return text;
}
