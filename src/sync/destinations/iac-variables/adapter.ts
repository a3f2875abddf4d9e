import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { failure } from "../../../providers/outcome.ts";
import {
  type Meaning,
  notSent,
  type RestAnswer,
  type RestRefused,
  restClient,
  unreadable,
} from "../../../providers/rest.ts";
import { EACH_KEY } from "../defaults.ts";
import { fromDescription } from "../description.ts";
import type { CallContext, Listing, RemoteDestinationType } from "../destination-type.ts";
import { refuseListedHost } from "../listed-host.ts";
import { CURSOR_REFUSED, pageNumber } from "../listing-cursor.ts";
import {
  checkVariable,
  MARKER_TEXT,
  readVariable,
  type SeenVariable,
  type VariablePlace,
  variableOperations,
  type Written,
} from "../variables.ts";
import { type IacVariablesConnection, iacVariablesConnection } from "./connection.ts";
import { description } from "./description.ts";

const defaultUrl = "https://app.terraform.io";
const maxValueBytes = 256 * 1024;
/** 100 variables each. */
const maxPages = 20;

const parsedConnection = memo(iacVariablesConnection);

const schemas = memo(() => {
  const variable = z.object({
    id: z.string(),
    attributes: z.object({
      key: z.string(),
      value: z.string().nullish(),
      category: z.string(),
      sensitive: z.boolean(),
      hcl: z.boolean().nullish(),
      description: z.string().nullish(),
      "version-id": z.string().nullish(),
    }),
  });
  return {
    one: z.object({ data: variable }),
    page: z.object({
      data: z.array(variable),
      meta: z.object({ pagination: z.object({ "next-page": z.number().nullish() }).nullish() }).nullish(),
    }),
    errors: z.object({ errors: z.array(z.object({ detail: z.string().catch("") })) }),
  };
});

type Variable = z.infer<ReturnType<typeof schemas>["one"]>["data"];

/**
 * Variables of HCP Terraform and Terraform Enterprise. One external object is one variable: a key in a category. Values of
 * sensitive variables are never shown, so changes are found by the version of the variable.
 */
export const iacVariables: RemoteDestinationType<IacVariablesConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return parsedConnection();
  },
  targets: ({ address, category, ...given }, { IAC_VARIABLES_URL: url = defaultUrl }) => [
    JSON.stringify([address ?? url, given.workspace_id ?? given.varset_id, category ?? "env"]),
  ],
  defaults: EACH_KEY,
  naming: {
    allowed: /^[A-Za-z0-9_]$/,
    maxLength: 128,
    replacement: "_",
    adapt: (name) => (/^\d/.test(name) ? `_${name}` : name),
  },
  maxValueBytes,
  // 30 calls a second of a user; a push is up to three.
  pace: { atOnce: 3, burst: 20, perMinute: 300 },
  reading: { list, read: (name, connection, context) => readVariable(placeOf(connection, context), name) },
  checkSettings: ({ address }, settings) => (address ? refuseListedHost("address", address, settings) : null),

  ...variableOperations(placeOf, (object) =>
    checkVariable(object, {
      name: /^[A-Za-z_]\w{0,127}$/,
      rule: "1 to 128 letters, digits or _, not beginning with a digit",
      maxBytes: maxValueBytes,
    }),
  ),

  /** Lists variables. A missing right to write shows at the first push. */
  async probe(connection, context) {
    const found = await placeOf(connection, context).find("");
    return found.ok ? { outcome: "ok" } : found.outcome;
  },
};

const pathOf = ({ workspace_id: workspace, varset_id: set }: IacVariablesConnection): string =>
  workspace === undefined ? `/varsets/${set}/relationships/vars` : `/workspaces/${workspace}/vars`;

function callerOf(connection: IacVariablesConnection, { settings, send }: CallContext) {
  const { address, access_token: token } = connection;
  const refused = address ? refuseListedHost("address", address, settings) : null;
  if (refused !== null) return async () => notSent(failure("client", "host_not_allowed", `${refused}.`));
  const base = `${(address ?? (settings.IAC_VARIABLES_URL || defaultUrl)).replace(/\/+$/, "")}/api/v2`;
  const type = "application/vnd.api+json";
  const headers = { authorization: `Bearer ${token}`, accept: type };
  return restClient({ base, headers, send, contentType: type, meaningOf });
}

type Caller = ReturnType<typeof callerOf>;
type Page = { readonly ok: true; readonly data: readonly Variable[]; readonly isLast: boolean } | RestRefused;

async function readPage(call: Caller, connection: IacVariablesConnection, page: number): Promise<Page> {
  const doing = "Listing the variables";
  const query = new URLSearchParams({ "page[number]": String(page), "page[size]": "100" });
  const answer = await call(doing, "GET", `${pathOf(connection)}?${query}`);
  if (!answer.ok) return answer;
  const parsed = schemas().page.safeParse(answer.body);
  if (!parsed.success) return unreadable(doing, "GET");
  const { data, meta } = parsed.data;
  return { ok: true, data, isLast: !meta?.pagination?.["next-page"] };
}

/** Variables of the category whose values are shown. A push would change an expression into a text, or the reverse. */
async function list(cursor: string, connection: IacVariablesConnection, context: CallContext): Promise<Listing> {
  const number = pageNumber(cursor);
  if (number === null) return CURSOR_REFUSED;
  const page = await readPage(callerOf(connection, context), connection, number);
  if (!page.ok) return page.outcome;
  const { category = "env", hcl = false } = connection;
  const shown = page.data.filter(
    ({ attributes: of }) => of.category === category && !of.sensitive && (of.hcl ?? false) === hcl,
  );
  return {
    outcome: "ok",
    names: shown.map(({ attributes }) => attributes.key),
    next: page.isLast ? null : String(number + 1),
  };
}

function placeOf(connection: IacVariablesConnection, context: CallContext): VariablePlace {
  const call = callerOf(connection, context);
  const path = pathOf(connection);
  const { category = "env", sensitive = true, hcl = false } = connection;
  /** Sensitive variables take a new value and description only. */
  const frozen = new Set<string>();

  function written(doing: string, name: string, answer: RestAnswer): Written {
    if (!answer.ok) return { ok: false, why: whyOf(answer), outcome: answer.outcome };
    const parsed = schemas().one.safeParse(answer.body);
    if (parsed.success && parsed.data.data.attributes.key === name) {
      return { ok: true, reference: versionOf(parsed.data.data) };
    }
    return { ok: false, why: null, outcome: unreadable(doing, "POST").outcome };
  }

  return {
    hasIds: true,
    async find(name) {
      for (let number = 1; number <= maxPages; number++) {
        const page = await readPage(call, connection, number);
        if (!page.ok) return page;
        const { data, isLast } = page;
        const found = data.find(({ attributes: { key, category: of } }) => key === name && of === category);
        if (found?.attributes.sensitive) frozen.add(found.id);
        if (found) return { ok: true, seen: seenOf(found) };
        if (isLast) return { ok: true, seen: null };
      }
      return notSent(failure("client", "too_many_variables", `There are more than ${maxPages} pages of variables.`));
    },

    async create({ name, value }) {
      const doing = `Creating ${name}`;
      const attributes = { key: name, value, category, hcl, sensitive, description: MARKER_TEXT };
      return written(doing, name, await call(doing, "POST", path, { data: { type: "vars", attributes } }));
    },

    async change({ name, value }, seen) {
      const doing = `Changing ${name}`;
      const id = seen?.id ?? "";
      const more = frozen.has(id) ? {} : { hcl, sensitive };
      const attributes = { value, description: MARKER_TEXT, ...more };
      const answer = await call(doing, "PATCH", `${path}/${id}`, { data: { id, type: "vars", attributes } });
      return written(doing, name, answer);
    },

    remove: (name, seen) => call(`Deleting ${name}`, "DELETE", `${path}/${seen?.id ?? ""}`),
  };
}

const seenOf = (variable: Variable): SeenVariable => ({
  id: variable.id,
  value: variable.attributes.sensitive ? undefined : (variable.attributes.value ?? undefined),
  version: variable.attributes["version-id"] ?? undefined,
  owned: variable.attributes.description?.startsWith(MARKER_TEXT) ?? false,
});

/** The reference: variable sets of older servers have no versions. */
const versionOf = ({ id, attributes }: Variable): string => attributes["version-id"] ?? id;

const isTaken = (body: unknown): boolean =>
  schemas()
    .errors.safeParse(body)
    .data?.errors.some(({ detail }) => /has already been taken/.test(detail)) ?? false;

function whyOf({ status, body }: RestRefused): "exists" | "absent" | null {
  if (status === 404) return "absent";
  return status === 422 && isTaken(body) ? "exists" : null;
}

function meaningOf(status: number): Meaning | null {
  if (status === 404)
    return ["client", "not_found", "there is no such workspace, set or variable, or the token may not see it"];
  return status === 412 ? ["external", "conflict", "something else changes it at the same time"] : null;
}
