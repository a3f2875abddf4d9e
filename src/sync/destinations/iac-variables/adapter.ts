import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { flag } from "../../../platform/http/fields.ts";
import { failure } from "../../../providers/outcome.ts";
import {
  contentOf,
  type Meaning,
  notSent,
  type Rest,
  type RestAnswer,
  type RestRefused,
} from "../../../providers/rest.ts";
import { EACH_KEY, environmentNames, environmentRule } from "../defaults.ts";
import { type CallContext, doneBy, type Listing, remoteType } from "../destination-type.ts";
import { accessToken, choice, connectionSchema, optionalText } from "../fields.ts";
import { addressedClient, optionalAddress, refuseAddress } from "../listed-host.ts";
import { CURSOR_REFUSED, pageNumber } from "../listing-cursor.ts";
import { checkObject } from "../object-rules.ts";
import {
  MARKER_TEXT,
  readVariable,
  type SeenVariable,
  type VariablePlace,
  variableOperations,
  writtenBy,
} from "../variables.ts";
import { description } from "./description.ts";

const defaultUrl = "https://app.terraform.io";
const maxValueBytes = 256 * 1024;
const VARIABLE_RULE = { ...environmentRule(128), maxBytes: maxValueBytes };
/** 100 variables each. */
const maxPages = 20;

/** A destination's connection to its workspace or variable set: one of the two. */
const connection = connectionSchema(
  () => ({
    access_token: accessToken(),
    workspace_id: optionalText(/^ws-[A-Za-z0-9]{1,64}$/, "must be the workspace's id, such as ws-SihZTyXKfNXUWuUa"),
    varset_id: optionalText(/^varset-[A-Za-z0-9]{1,64}$/, "must be the set's id, such as varset-mio9UUFyFMjU33S4"),
    category: choice("env", "terraform"),
    sensitive: flag().optional(),
    hcl: flag().optional(),
    address: optionalAddress(),
  }),
  (given, refuse) => {
    if (!given.workspace_id && !given.varset_id) refuse("workspace_id", "is required, or varset_id");
    if (given.workspace_id && given.varset_id) refuse("varset_id", "cannot be set together with workspace_id");
    if (given.hcl && given.category !== "terraform") refuse("hcl", "is only for category terraform");
  },
);
type IacVariablesConnection = z.infer<ReturnType<typeof connection>>;

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
    page: z
      .object({
        data: z.array(variable),
        meta: z.object({ pagination: z.object({ "next-page": z.number().nullish() }).nullish() }).nullish(),
      })
      .transform(({ data, meta }) => ({ data, isLast: !meta?.pagination?.["next-page"] })),
    errors: z.object({ errors: z.array(z.object({ detail: z.string().catch("") })) }),
  };
});

type Variable = z.infer<ReturnType<typeof schemas>["one"]>["data"];

/**
 * Variables of HCP Terraform and Terraform Enterprise. One external object is one variable: a key in a category. Values of
 * sensitive variables are never shown, so changes are found by the version of the variable.
 */
export const iacVariables = remoteType(description, connection, {
  targets: ({ address, category, ...given }, { IAC_VARIABLES_URL: url = defaultUrl }) => [
    JSON.stringify([address ?? url, given.workspace_id ?? given.varset_id, category ?? "env"]),
  ],
  defaults: EACH_KEY,
  naming: environmentNames(128),
  maxValueBytes,
  // 30 calls a second of a user; a push is up to three.
  pace: { atOnce: 3, burst: 20, perMinute: 300 },
  reading: { list, read: (name, connection, context) => readVariable(placeOf(connection, context), name) },
  checkSettings: refuseAddress,

  ...variableOperations(placeOf, (object) => checkObject(object, VARIABLE_RULE)),

  /** Lists variables. A missing right to write shows at the first push. */
  probe: async (connection, context) => doneBy(await placeOf(connection, context).find("")),
});

const pathOf = ({ workspace_id: workspace, varset_id: set }: IacVariablesConnection): string =>
  workspace === undefined ? `/varsets/${set}/relationships/vars` : `/workspaces/${workspace}/vars`;

function callerOf(connection: IacVariablesConnection, context: CallContext): Rest {
  const type = "application/vnd.api+json";
  return addressedClient(connection, context, context.settings.IAC_VARIABLES_URL || defaultUrl, "/api/v2", {
    headers: { authorization: `Bearer ${connection.access_token}`, accept: type },
    contentType: type,
    meaningOf,
  });
}

async function readPage(call: Rest, connection: IacVariablesConnection, page: number) {
  const query = new URLSearchParams({ "page[number]": String(page), "page[size]": "100" });
  return contentOf(await call("Listing the variables", "GET", `${pathOf(connection)}?${query}`), schemas().page);
}

/** Variables of the category whose values are shown. A push would change an expression into a text, or the reverse. */
async function list(cursor: string, connection: IacVariablesConnection, context: CallContext): Promise<Listing> {
  const number = pageNumber(cursor);
  if (number === null) return CURSOR_REFUSED;
  const page = await readPage(callerOf(connection, context), connection, number);
  if (!page.ok) return page.outcome;
  const { category = "env", hcl = false } = connection;
  const { data, isLast } = page.content;
  const shown = data.filter(
    ({ attributes: of }) => of.category === category && !of.sensitive && (of.hcl ?? false) === hcl,
  );
  return {
    outcome: "ok",
    names: shown.map(({ attributes }) => attributes.key),
    next: isLast ? null : String(number + 1),
  };
}

function placeOf(connection: IacVariablesConnection, context: CallContext): VariablePlace {
  const call = callerOf(connection, context);
  const path = pathOf(connection);
  const { category = "env", sensitive = true, hcl = false } = connection;
  /** Sensitive variables take a new value and description only. */
  const frozen = new Set<string>();

  // Variable sets of older servers have no versions.
  const written = (name: string, answer: RestAnswer) =>
    writtenBy(
      answer,
      schemas().one,
      ({ data }) => (data.attributes.key === name ? (data.attributes["version-id"] ?? data.id) : null),
      whyOf,
    );

  return {
    hasIds: true,
    async find(name) {
      for (let number = 1; number <= maxPages; number++) {
        const page = await readPage(call, connection, number);
        if (!page.ok) return page;
        const { data, isLast } = page.content;
        const found = data.find(({ attributes: { key, category: of } }) => key === name && of === category);
        if (found?.attributes.sensitive) frozen.add(found.id);
        if (found) return { ok: true, seen: seenOf(found) };
        if (isLast) return { ok: true, seen: null };
      }
      return notSent(failure("client", "too_many_variables", `There are more than ${maxPages} pages of variables.`));
    },

    async create({ name, value }) {
      const attributes = { key: name, value, category, hcl, sensitive, description: MARKER_TEXT };
      return written(name, await call(`Creating ${name}`, "POST", path, { data: { type: "vars", attributes } }));
    },

    async change({ name, value }, seen) {
      const id = seen?.id ?? "";
      const more = frozen.has(id) ? {} : { hcl, sensitive };
      const attributes = { value, description: MARKER_TEXT, ...more };
      const body = { data: { id, type: "vars", attributes } };
      return written(name, await call(`Changing ${name}`, "PATCH", `${path}/${id}`, body));
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
