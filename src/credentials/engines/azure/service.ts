import * as z from "zod";
import type { CloudResult } from "../../../contracts/cloud-calls.ts";
import { tryParseJson } from "../../../lib/json.ts";
import { sendAuthorized, type TokenRequest } from "../../../providers/cloud-b-azure/login.ts";
import type { Send } from "../../../providers/outcome.ts";
import { notSent, type Operation, refusal, unanswered, unreadable } from "./errors.ts";

/** One request to a service, with path and query below the service's address. */
interface ServiceRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Null when one of its ids is malformed. */
  readonly path: string | null;
  /** Query parameters; only the values are encoded. */
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Readonly<Record<string, unknown>>;
}

/** A client of Microsoft Graph or Resource Manager. Each call is sent once; lists are read completely. */
export interface Service {
  call<T>(operation: Operation, request: ServiceRequest, answer: z.ZodType<T>): Promise<CloudResult<T>>;
  list<T>(operation: Operation, request: ServiceRequest, item: z.ZodType<T>): Promise<CloudResult<readonly T[]>>;
}

/** The schema of answers without content. */
export const nothing: z.ZodType<null> = z.unknown().transform(() => null);

export const isUuid = (text: string): boolean => /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text);

/** A text as a literal of an OData filter (OData 4.01, 5.1.1.14.1). */
export const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Few objects share a name, but pages may be cut before the filter applies. */
const maxPages = 50;

interface ServiceOptions {
  account: TokenRequest;
  /** The address that requests are sent to, without a trailing slash. */
  url: string;
  /** The cloud's own address, which links in answers may use. */
  officialUrl: string;
  /** The rule for paths, for error messages. */
  pathRule: string;
  send: Send;
}

/** The client of the service at `url`. Requests are sent to no other address, even for links in answers. */
export function service({ account, url, officialUrl, pathRule, send }: ServiceOptions): Service {
  const call: Service["call"] = async (operation, request, answer) =>
    request.path === null
      ? { ok: false, failure: notSent(operation, "refused", pathRule) }
      : exchange(operation, `${url}${request.path}${queryOf(request.query)}`, request, answer);

  async function exchange<T>(
    operation: Operation,
    target: string,
    { method, body }: Pick<ServiceRequest, "method" | "body">,
    answer: z.ZodType<T>,
  ): Promise<CloudResult<T>> {
    const headers = { accept: "application/json", ...(body && { "content-type": "application/json" }) };
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) };
    const sent = await sendAuthorized(account, [target, init], send);
    if (!sent.ok) return { ok: false, failure: unanswered(sent, operation) };
    const answered = tryParseJson(sent.text);
    if (!sent.response.ok) return { ok: false, failure: refusal(operation, sent.response, answered) };
    const parsed = answer.safeParse(answered);
    return parsed.success
      ? { ok: true, value: parsed.data }
      : { ok: false, failure: unreadable(operation, sent.response.status) };
  }

  /** The URL of a link in an answer; null when it leads to another service, which must not receive the token. */
  const followed = (link: string): string | null => {
    const from = [url, officialUrl].find((base) => link.startsWith(`${base}/`));
    return from === undefined ? null : url + link.slice(from.length);
  };

  return {
    call,
    async list<T>(operation: Operation, request: ServiceRequest, item: z.ZodType<T>) {
      const page = z.object({
        value: z.array(item),
        nextLink: z.string().nullish(),
        "@odata.nextLink": z.string().nullish(),
      });
      const found: T[] = [];
      let answered = await call(operation, request, page);
      for (let pages = 1; ; pages++) {
        if (!answered.ok) return answered;
        found.push(...answered.value.value);
        const link = answered.value["@odata.nextLink"] ?? answered.value.nextLink;
        if (!link) return { ok: true, value: found };
        const next = followed(link);
        if (next === null || pages === maxPages) return { ok: false, failure: unreadable(operation, 200) };
        answered = await exchange(operation, next, { method: "GET" }, page);
      }
    },
  };
}

function queryOf(query: ServiceRequest["query"]): string {
  const pairs = Object.entries(query ?? {}).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

/** A client that fails every call: the account violates `rule`, one sentence without a full stop. */
export function unusable(rule: string): Service {
  const refuse = async (operation: Operation) =>
    ({ ok: false, failure: notSent(operation, "misconfigured", rule) }) as const;
  return { call: refuse, list: refuse };
}
