import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { type EdgeFailure, edgeApi, unanswered, unreadable } from "../../../providers/edge-api.ts";
import { failure } from "../../../providers/outcome.ts";
import { EACH_SECRET } from "../defaults.ts";
import { type CallContext, doneBy, type Put, remoteType } from "../destination-type.ts";
import { connectionSchema, wordList } from "../fields.ts";
import { CURSOR_REFUSED, pageNumber } from "../listing-cursor.ts";
import { checkObject, intentOf } from "../object-rules.ts";
import { MARKER_TEXT } from "../variables.ts";
import { description } from "./description.ts";

const SCOPES = ["workers", "ai_gateway", "dex", "access", "containers", "websearch"] as const;
/** "Manage account secrets": the size of a value. */
const MAX_BYTES = 65_536;
const MAX_NAME = 255;
/** An account holds 100 secrets, the most of a page; more pages cover larger quotas, and servers that answer fewer. */
const PAGE = 100;
const MAX_PAGES = 20;

/** Limit of retries after conflicts while another writer creates or deletes the same secret. */
const MAX_ROUNDS = 3;

const SCOPES_RULE = `must name one or more of ${SCOPES.join(", ")}`;
const id = () => z.string("must be a text").regex(/^[\da-f]{32}$/, "must be 32 hexadecimal digits");

/** A destination's connection to its store. */
const connection = connectionSchema(() => ({
  account_id: id(),
  store_id: id(),
  api_token: z
    .string("must be a text")
    .regex(/^[\x21-\x7e]{1,1024}$/, "must be 1 to 1024 printable characters without spaces"),
  scopes: wordList(SCOPES_RULE)
    .pipe(z.array(z.enum(SCOPES, SCOPES_RULE)))
    .nullish(),
}));
type EdgeStoreConnection = z.infer<ReturnType<typeof connection>>;

const schemas = memo(() => {
  const secret = z.object({
    id: z.string().min(1),
    name: z.string(),
    comment: z.string().nullish(),
    modified: z.string(),
    status: z.string().nullish(),
  });
  return { secret, page: z.array(secret), created: z.array(secret).min(1) };
});

type Secret = z.infer<ReturnType<typeof schemas>["secret"]>;

/**
 * Secrets of a Cloudflare Secrets Store. One external object is one secret, a record with an id. The comment marks it as
 * ours and identifies the push, so that a creation with a lost answer is recognised. Values cannot be read.
 */
export const edgeStore = remoteType(description, connection, {
  targets: ({ account_id: account, store_id: store }) => [JSON.stringify([account, store])],
  defaults: EACH_SECRET,
  naming: { allowed: /^[\w-]$/, maxLength: MAX_NAME, replacement: "_" },
  maxValueBytes: MAX_BYTES,
  // The API takes 1200 calls in 5 minutes of all of a user's tokens.
  pace: { atOnce: 2, burst: 30, perMinute: 100 },

  async put(object, connection, context) {
    const refused = checkObject(object, {
      noun: "secret",
      name: /^[\w-]{1,255}$/,
      rule: `be 1 to ${MAX_NAME} letters, digits or characters of _-`,
      maxBytes: MAX_BYTES,
      limit: `at most ${MAX_BYTES} fit`,
    });
    if (refused !== null) return refused;
    const store = storeOf(connection, context);
    const { name, updatePolicy: policy } = object;
    const fields = {
      value: object.value,
      scopes: connection.scopes ?? ["workers"],
      comment: `${MARKER_TEXT} (push ${intentOf(object).slice(0, 32)})`,
    };
    const known = readReference(object.reference);
    if (known !== null && policy === "replace") {
      const changed = await store.change(known.id, name, fields);
      // A record of another name has taken our place, or it is gone: the list decides.
      if (changed.ok && changed.secret.name === name) return done(changed.secret);
      if (!changed.ok && changed.status !== 404) return changed.outcome;
    }
    let contended = failure("external", "contended", `${name} is being changed by another caller.`);
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const found = await store.find(name);
      if (!found.ok) return found.outcome;
      const { secret } = found;
      if (secret !== null && policy === "if-not-exists") {
        return secret.comment === fields.comment ? done(secret) : { outcome: "ok", left: true };
      }
      if (secret !== null && policy === "owned-only" && !isMarked(secret)) return notOwned(name);
      const written = secret === null ? await store.create(name, fields) : await store.change(secret.id, name, fields);
      if (written.ok) return done(written.secret);
      // Created or deleted since the list was read. A missing store shows in the list.
      const isContended = secret === null ? written.status === 409 : written.status === 404;
      if (!isContended) return written.outcome;
      contended = failure("external", "contended", written.outcome.message);
    }
    return contended;
  },

  reading: {
    /** Values are never shown, so a secret can be adopted only. */
    async list(cursor, connection, context) {
      const page = pageNumber(cursor);
      if (page === null) return CURSOR_REFUSED;
      const listed = await storeOf(connection, context).page(page);
      if (!listed.ok) return listed.outcome;
      const names = listed.secrets.filter(({ status }) => status !== "deleted").map(({ name }) => name);
      return { outcome: "ok", names, next: listed.isLast ? null : String(page + 1) };
    },
  },

  async remove({ name, ownedOnly }, connection, context) {
    const store = storeOf(connection, context);
    const found = await store.find(name);
    if (!found.ok) return found.outcome;
    if (found.secret === null || (ownedOnly && !isMarked(found.secret))) return { outcome: "ok" };
    const removed = await store.remove(found.secret.id, name);
    return removed.ok || removed.status === 404 ? { outcome: "ok" } : removed.outcome;
  },

  async inspect({ name, reference }, connection, context) {
    const found = await storeOf(connection, context).find(name);
    if (!found.ok) return found.outcome;
    const { secret } = found;
    if (secret === null) return { outcome: "ok", state: "absent", owned: null };
    const known = readReference(reference);
    const isSame = secret.id === known?.id && secret.modified === known.modified;
    const state = known === null ? "present" : isSame ? "unchanged" : "changed";
    return { outcome: "ok", state, owned: isMarked(secret) };
  },

  probe: async (connection, context) => doneBy(await storeOf(connection, context).find("sallyport-check")),
});

interface Fields {
  readonly value: string;
  readonly scopes: readonly (typeof SCOPES)[number][];
  readonly comment: string;
}

type Found = { readonly ok: true; readonly secret: Secret } | EdgeFailure;

/** The calls for one store. Each sends one request, `find` one per page. */
function storeOf(connection: EdgeStoreConnection, { settings, send }: CallContext) {
  const api = edgeApi(connection, { url: settings.EDGE_STORE_API_URL, send });
  const path = `/secrets_store/stores/${connection.store_id}/secrets`;
  const read = (doing: string, result: unknown): Found => {
    const parsed = schemas().secret.safeParse(result);
    return parsed.success ? { ok: true, secret: parsed.data } : unreadable("unknown", doing);
  };
  async function pageOf(
    page: number,
  ): Promise<{ ok: true; secrets: readonly Secret[]; isLast: boolean } | EdgeFailure> {
    const doing = "Listing the store's secrets";
    const answer = await api.call(doing, "GET", `${path}?page=${page}&per_page=${PAGE}`);
    if (!answer.ok) return answer;
    const parsed = schemas().page.safeParse(answer.result);
    if (!parsed.success) return unreadable("external", doing);
    const isLast = answer.pages === null ? parsed.data.length === 0 : page >= answer.pages;
    return { ok: true, secrets: parsed.data, isLast };
  }
  return {
    page: pageOf,
    /** The secret of a name, or null. */
    async find(name: string): Promise<{ ok: true; secret: Secret | null } | EdgeFailure> {
      for (let page = 1; page <= MAX_PAGES; page++) {
        const listed = await pageOf(page);
        if (!listed.ok) return listed;
        const secret = listed.secrets.find((one) => one.name === name && one.status !== "deleted");
        if (secret || listed.isLast) return { ok: true, secret: secret ?? null };
      }
      return unanswered(failure("client", "too_many_secrets", `The store has more than ${MAX_PAGES} pages of them.`));
    },
    async create(name: string, fields: Fields): Promise<Found> {
      const doing = `Creating ${name}`;
      const answer = await api.call(doing, "POST", path, { content: [{ name, ...fields }] });
      if (!answer.ok) return answer;
      const parsed = schemas().created.safeParse(answer.result);
      const named = parsed.data?.find((one) => one.name === name);
      return read(doing, named);
    },
    async change(id: string, name: string, fields: Fields): Promise<Found> {
      const doing = `Changing ${name}`;
      const answer = await api.call(doing, "PATCH", `${path}/${encodeURIComponent(id)}`, { content: fields });
      return answer.ok ? read(doing, answer.result) : answer;
    },
    remove: (id: string, name: string) => api.call(`Deleting ${name}`, "DELETE", `${path}/${encodeURIComponent(id)}`),
  };
}

const isMarked = ({ comment }: Secret): boolean => comment?.startsWith(MARKER_TEXT) ?? false;

const done = ({ id, modified }: Secret): Put => ({ outcome: "ok", reference: `${id} ${modified}` });

function readReference(reference: string | null): { id: string; modified: string } | null {
  const [, id = "", modified = ""] = /^(\S+) (\S+)$/.exec(reference ?? "") ?? [];
  return id === "" ? null : { id, modified };
}

const notOwned = (name: string): Failure =>
  failure("client", "not_owned", `The secret ${name} exists and was not made by this service.`);
