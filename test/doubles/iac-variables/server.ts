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

/** Variables of workspaces and variable sets by the JSON:API of HCP Terraform, stricter in unknown attributes. */

export interface Variable {
  id: string;
  key: string;
  value: string;
  category: string;
  hcl: boolean;
  sensitive: boolean;
  description: string | null;
  version: number;
}

export class IacAccount extends DoubleAccount {
  readonly token = `made-up.atlasv1.${crypto.randomUUID()}`;
  readonly places = new Map<string, Variable[]>([
    ["/workspaces/ws-web1234567890abc", []],
    ["/varsets/varset-web1234567890ab", []],
  ]);
  /** The tokens that may read only are answered 404 when they write, as the service hides what they may not do. */
  readOnly = false;
  /** Older servers have no versions. */
  hasVersions = true;
  pageSize = 100;
}

const refuse = (status: number, title: string, detail = "") =>
  new Refusal(status, { errors: [{ status: String(status), title, detail }] });

const ATTRIBUTES = ["key", "value", "category", "hcl", "sensitive", "description"];

function attributesOf(request: Received, id: string | null): Record<string, unknown> {
  if (request.headers["content-type"] !== "application/vnd.api+json") throw refuse(415, "unsupported media type");
  const { data } = fieldsOf(request, ["data"], (detail) => refuse(400, "bad request", detail));
  const { type, id: given = null, attributes, ...others } = data as Record<string, unknown>;
  if (type !== "vars" || given !== id || Object.keys(others).length > 0)
    throw refuse(422, "invalid attribute", "Type or id");
  const known = attributes as Record<string, unknown>;
  const unknown = Object.keys(known).find((name) => !ATTRIBUTES.includes(name));
  if (unknown !== undefined) throw refuse(422, "invalid attribute", `Unknown attribute ${unknown}`);
  return known;
}

function check({ key, value, category, hcl, description }: Variable): void {
  const invalid = (detail: string) => refuse(422, "invalid attribute", detail);
  if (key === "" || key.length > 128 || /[\s=]/.test(key)) throw invalid("Key is invalid");
  if (category !== "env" && category !== "terraform") throw invalid("Category is not included in the list");
  if (hcl && category === "env") throw invalid("Hcl is only for terraform variables");
  if (Buffer.byteLength(value) > 256 * 1024) throw invalid("Value is too long");
  if ((description ?? "").length > 512) throw invalid("Description is too long");
}

function perform(request: Received, account: IacAccount): Reply {
  const path =
    /^\/api\/v2(\/workspaces\/[^/]+|\/varsets\/[^/]+(?=\/relationships\/))(?:\/relationships)?\/vars(?:\/([^/]+))?$/.exec(
      request.url.pathname,
    );
  const variables = account.places.get(path?.[1] ?? "");
  if (variables === undefined || (account.readOnly && request.method !== "GET")) throw refuse(404, "not found");
  const id = path?.[2] ?? null;
  const shown = ({ version, ...attributes }: Variable) => ({
    id: attributes.id,
    type: "vars",
    attributes: {
      ...Object.fromEntries(Object.entries(attributes).filter(([name]) => name !== "id")),
      value: attributes.sensitive ? null : attributes.value,
      ...(account.hasVersions && { "version-id": `v-${attributes.id}-${version}` }),
    },
  });
  if (id === null && request.method === "GET") {
    const size = Math.min(Number(request.url.searchParams.get("page[size]") ?? 20), account.pageSize);
    const page = Number(request.url.searchParams.get("page[number]") ?? 1);
    const next = variables.length > page * size ? page + 1 : null;
    const data = variables.slice((page - 1) * size, page * size).map(shown);
    return { status: 200, body: { data, meta: { pagination: { "current-page": page, "next-page": next } } } };
  }
  if (id === null && request.method === "POST") {
    const given = attributesOf(request, null);
    const created: Variable = {
      id: `var-${crypto.randomUUID().slice(0, 12)}`,
      key: "",
      value: "",
      category: "",
      hcl: false,
      sensitive: false,
      description: null,
      version: 1,
      ...given,
    };
    check(created);
    if (variables.some(({ key, category }) => key === created.key && category === created.category)) {
      throw refuse(422, "invalid attribute", "Key has already been taken");
    }
    variables.push(created);
    return { status: 201, body: { data: shown(created) } };
  }
  const variable = variables.find((one) => one.id === id);
  if (variable === undefined) throw refuse(404, "not found");
  if (request.method === "PATCH") {
    const given = attributesOf(request, id);
    const frozen = ["key", "hcl", "sensitive"].find((name) => variable.sensitive && name in given);
    if (frozen !== undefined) {
      throw refuse(422, "invalid attribute", `${frozen} cannot be updated for a sensitive variable`);
    }
    const changed = { ...variable, ...given, version: variable.version + 1 };
    check(changed);
    Object.assign(variable, changed);
    return { status: 200, body: { data: shown(variable) } };
  }
  if (request.method !== "DELETE") throw refuse(404, "not found");
  variables.splice(variables.indexOf(variable), 1);
  return { status: 204 };
}

export const startIacVariables = (): Promise<AccountDouble<IacAccount>> =>
  startTokenDouble<IacAccount>({
    newAccount: () => new IacAccount(),
    tokenOf: bearerOf,
    unauthorized: refuse(401, "unauthorized"),
    perform,
    refusals: {
      throttled: { ...refuse(429, "rate limited").reply, headers: { "retry-after": "1", "x-ratelimit-limit": "30" } },
      unavailable: { status: 503, body: "" },
      forbidden: refuse(403, "forbidden").reply,
    },
  });
