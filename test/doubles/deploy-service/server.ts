import {
  type AccountDouble,
  bearerOf,
  DoubleAccount,
  fieldsOf,
  Refusal,
  type Reply,
  startTokenDouble,
} from "../http-double.ts";
import type { Received } from "../loopback.ts";

/**
 * Environment variables of Render's API, stricter in unknown fields and parameters; judged by its published document
 * (published.test.ts).
 */

export class RenderAccount extends DoubleAccount {
  readonly token = `rnd_${crypto.randomUUID()}`;
  readonly service = "srv-d1a2b3c4e5f6";
  readonly group = "evg-d1a2b3c4e5f6";
  /** Variables by the id of their place. */
  readonly places = new Map<string, Map<string, string>>([
    [this.service, new Map()],
    [this.group, new Map()],
  ]);
}

const ids: Readonly<Record<number, string>> = {
  400: "bad_request",
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  429: "rate_limited",
};
const refuse = (status: number, message: string) => new Refusal(status, { id: ids[status] ?? "", message });
const badRequest = (message: string) => refuse(400, message);

const groupOf = ({ group }: RenderAccount, variables: Map<string, string>) => ({
  id: group,
  name: "shared",
  ownerId: "tea-1",
  createdAt: "2026-01-01T00:00:00Z",
  updatedAt: "2026-01-01T00:00:00Z",
  serviceLinks: [],
  envVars: [...variables].map(([key, value]) => ({ key, value })),
  secretFiles: [],
});

/** The variables after `cursor`, at most `limit`; cursors are positions. */
function pageOf(variables: Map<string, string>, query: URLSearchParams): object[] {
  for (const name of query.keys()) if (!["cursor", "limit"].includes(name)) throw badRequest(`unknown ${name}`);
  const limit = Number(query.get("limit") ?? "20");
  if (!(limit >= 1 && limit <= 100)) throw badRequest("limit must be 1 to 100");
  const from = Number(query.get("cursor")?.slice(1) ?? "0");
  return [...variables]
    .map(([key, value], index) => ({ envVar: { key, value }, cursor: `c${index + 1}` }))
    .slice(from, from + limit);
}

function perform(request: Received, account: RenderAccount): Reply {
  const { method, url } = request;
  const [, kind, id = "", rest, key] =
    /^\/v1\/(services|env-groups)\/([^/]+)(\/env-vars(?:\/([^/]+))?)?$/.exec(url.pathname) ?? [];
  const variables = account.places.get(id);
  const isGroup = kind === "env-groups";
  if (variables === undefined || isGroup !== id.startsWith("evg-")) throw refuse(404, "not found");
  if (key === undefined) {
    // Groups have no list of their own, and a PUT of a service's list would replace it.
    if (method !== "GET" || isGroup !== (rest === undefined)) throw refuse(404, "not found");
    return { status: 200, body: isGroup ? groupOf(account, variables) : pageOf(variables, url.searchParams) };
  }
  const name = decodeURIComponent(key);
  switch (method) {
    case "GET":
      if (!variables.has(name)) throw refuse(404, "not found");
      return { status: 200, body: { key: name, value: variables.get(name) } };
    case "PUT": {
      const { value } = fieldsOf(request, ["value"], badRequest);
      if (!/^[A-Za-z_]\w*$/.test(name)) throw badRequest("invalid key");
      if (typeof value !== "string" || value === "") throw badRequest("must provide a value");
      variables.set(name, value);
      return { status: 200, body: isGroup ? groupOf(account, variables) : { key: name, value } };
    }
    case "DELETE":
      if (!variables.delete(name)) throw refuse(404, "not found");
      return { status: 204 };
    default:
      throw refuse(404, "not found");
  }
}

export const startDeployService = (): Promise<AccountDouble<RenderAccount>> =>
  startTokenDouble<RenderAccount>({
    newAccount: () => new RenderAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401, "Unauthorized"),
    perform,
    refusals: {
      throttled: { ...refuse(429, "rate limit exceeded").reply, headers: { "ratelimit-reset": "1" } },
      unavailable: { status: 503, body: "" },
      forbidden: refuse(403, "Forbidden").reply,
    },
  });
