import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { failure } from "../../../providers/outcome.ts";
import { contentOf, type Meaning, type Rest, type RestRefused } from "../../../providers/rest.ts";
import { EACH_KEY } from "../defaults.ts";
import { type CallContext, doneBy, type Listing, remoteType } from "../destination-type.ts";
import { addressedClient, refuseAddress } from "../listed-host.ts";
import { CURSOR_REFUSED, pageNumber } from "../listing-cursor.ts";
import { checkObject } from "../object-rules.ts";
import { MARKER_TEXT, readVariable, type VariablePlace, variableOperations, writtenBy } from "../variables.ts";
import { type CiVariablesConnection, ciVariablesConnection } from "./connection.ts";
import { description } from "./description.ts";

const defaultUrl = "https://gitlab.com";
const maxValueBytes = 64 * 1024;
/** `Ci::InstanceVariable`, in characters. */
const maxInstanceCharacters = 10_000;

/** Variables of a page, whose answer has their values. */
const PAGE = 20;

/** `Ci::Maskable`: values that job logs can mask, by whether `$` in them is expanded. Ruby's white space is that of ASCII. */
const maskable = { raw: /^[^ \t\r\n\f\v]{8,}$/u, expanded: /^[a-zA-Z0-9_+=/@:.~-]{8,}$/ };

const UNMASKABLE = "unmaskable";

const schemas = memo(() => ({
  variable: z.object({
    key: z.string(),
    value: z.string().nullable(),
    hidden: z.boolean().optional(),
    environment_scope: z.string().optional(),
    description: z.string().nullish(),
  }),
  message: z.object({ message: z.union([z.string(), z.record(z.string(), z.array(z.string()))]) }),
}));

/**
 * CI/CD variables of GitLab. One external object is one variable: a key in one environment scope. Each call names the
 * scope, because a key may have a variable for each.
 */
export const ciVariables = remoteType(description, ciVariablesConnection, {
  targets: (connection, { CI_VARIABLES_URL: url = defaultUrl }) => [
    JSON.stringify([connection.address ?? url, pathOf(connection).toLowerCase(), connection.environment_scope ?? "*"]),
  ],
  defaults: EACH_KEY,
  naming: { allowed: /^[A-Za-z0-9_]$/, maxLength: 255, replacement: "_" },
  maxValueBytes,
  pace: { atOnce: 2, burst: 60, perMinute: 300 },
  checkSettings: refuseAddress,

  ...variableOperations(
    placeOf,
    (object, connection) =>
      checkObject(object, { name: /^\w{1,255}$/, rule: "be 1 to 255 letters, digits or _", maxBytes: maxValueBytes }) ??
      checkValue(object, connection),
  ),
  reading: { list, read: (name, connection, context) => readVariable(placeOf(connection, context), name) },

  /** Lists one variable, which requires the role that may change them. A token that may only read shows at a push. */
  probe: async (connection, context) =>
    doneBy(await callerOf(connection, context)("Listing the variables", "GET", `${pathOf(connection)}?per_page=1`)),
});

const locationOf = ({ location, project_id: project, group_id: group }: CiVariablesConnection) =>
  location ?? (group && !project ? "group" : "project");

function pathOf(connection: CiVariablesConnection): string {
  const { project_id: project = "", group_id: group = "" } = connection;
  switch (locationOf(connection)) {
    case "project":
      return `/projects/${encodeURIComponent(project)}/variables`;
    case "group":
      return `/groups/${encodeURIComponent(group)}/variables`;
    case "instance":
      return "/admin/ci/variables";
  }
}

const isMaskable = (value: string, { raw = true }: CiVariablesConnection): boolean =>
  maskable[raw ? "raw" : "expanded"].test(value);

function checkValue(
  { name, value }: { name: string; value: string },
  connection: CiVariablesConnection,
): Failure | null {
  if (locationOf(connection) === "instance" && [...value].length > maxInstanceCharacters) {
    const message = `The value of ${name} is longer than ${maxInstanceCharacters} characters, the most of an instance.`;
    return failure("client", "value_too_large", message);
  }
  const mustMask = connection.hidden || connection.masking === "required";
  if (!mustMask || isMaskable(value, connection)) return null;
  const message = `The value of ${name} cannot be masked: it has fewer than 8 characters, a space or a line break.`;
  return failure("client", UNMASKABLE, message);
}

const callerOf = (connection: CiVariablesConnection, context: CallContext): Rest =>
  addressedClient(connection, context, context.settings.CI_VARIABLES_URL || defaultUrl, "/api/v4", {
    headers: { authorization: `Bearer ${connection.access_token}` },
    meaningOf,
  });

function placeOf(connection: CiVariablesConnection, context: CallContext): VariablePlace {
  const call = callerOf(connection, context);
  const hasScope = locationOf(connection) !== "instance";
  const scope = connection.environment_scope ?? "*";
  const filter = hasScope ? `?${new URLSearchParams({ "filter[environment_scope]": scope })}` : "";
  const at = (name: string) => `${pathOf(connection)}/${encodeURIComponent(name)}${filter}`;
  const { protected: isProtected = false, raw = true, variable_type = "env_var", hidden, masking } = connection;

  const content = (value: string) => ({
    value,
    variable_type,
    protected: isProtected,
    raw,
    masked: masking !== "off" && isMaskable(value, connection),
    description: MARKER_TEXT,
  });

  /** Writes a variable: unmasked after all, where the server does not mask its value and need not. */
  async function write(
    name: string,
    call: (body: { readonly masked?: boolean }) => ReturnType<Rest>,
    body: { readonly masked?: boolean },
  ) {
    const first = await call(body);
    const isOptional = body.masked === true && masking !== "required" && !hidden;
    const isUnmaskable = !first.ok && first.outcome.code === UNMASKABLE;
    const answer = isOptional && isUnmaskable ? await call({ ...body, masked: false }) : first;
    return writtenBy(answer, schemas().variable, ({ key }) => (key === name ? scope : null), whyOf);
  }

  return {
    async find(name) {
      const answer = await call(`Reading ${name}`, "GET", at(name));
      if (!answer.ok && isAbsent(answer)) return { ok: true, seen: null };
      const read = contentOf(answer, schemas().variable);
      if (!read.ok) return read;
      const { value, description: text } = read.content;
      return { ok: true, seen: { value: value ?? undefined, owned: text?.startsWith(MARKER_TEXT) ?? false } };
    },

    async create({ name, value }) {
      const { masked, ...rest } = content(value);
      const masks = hidden ? { masked_and_hidden: true } : { masked };
      const body = { key: name, ...rest, ...masks, ...(hasScope && { environment_scope: scope }) };
      return write(name, (given) => call(`Creating ${name}`, "POST", pathOf(connection), given), body);
    },

    change: ({ name, value }) =>
      write(name, (given) => call(`Changing ${name}`, "PUT", at(name), given), content(value)),

    remove: (name) => call(`Deleting ${name}`, "DELETE", at(name)),
  };
}

/** The variables of the scope. Hidden ones have no readable value, so they are left out. @param cursor a page's number */
async function list(cursor: string, connection: CiVariablesConnection, context: CallContext): Promise<Listing> {
  const number = pageNumber(cursor);
  if (number === null) return CURSOR_REFUSED;
  const query = `per_page=${PAGE}&page=${number}`;
  const path = `${pathOf(connection)}?${query}`;
  const answer = await callerOf(connection, context)("Listing the variables", "GET", path);
  if (!answer.ok) return answer.outcome;
  const variables = contentOf(answer, z.array(schemas().variable));
  if (!variables.ok) return variables.outcome;
  const scope = connection.environment_scope ?? "*";
  const shown = variables.content.filter(
    ({ hidden, environment_scope: of = scope }) => hidden !== true && of === scope,
  );
  return { outcome: "ok", names: shown.map(({ key }) => key), next: answer.headers.get("x-next-page") || null };
}

const messageOf = (body: unknown) => schemas().message.safeParse(body).data?.message;

/** Whether a variable is absent, not its project or group. */
function isAbsent({ status, body }: RestRefused): boolean {
  const message = messageOf(body);
  return status === 404 && typeof message === "string" && /Variable Not Found$/.test(message);
}

function whyOf(answer: RestRefused): "exists" | "absent" | null {
  if (isAbsent(answer)) return "absent";
  const message = messageOf(answer.body);
  const aboutKey = typeof message === "object" ? message["key"] : undefined;
  return answer.status === 400 && aboutKey?.some((text) => text.endsWith("already been taken")) ? "exists" : null;
}

function meaningOf(status: number, body: unknown): Meaning | null {
  const message = messageOf(body);
  if (status === 400 && typeof message === "object") {
    const about = (field: string, text: RegExp) => message[field]?.some((one) => text.test(one)) ?? false;
    if (about("value", /too long/)) return ["client", "value_too_large", "the value is too long"];
    if (about("value", /invalid/)) return ["client", UNMASKABLE, "the value cannot be masked"];
    if (about("base", /limit/i)) return ["client", "quota_exceeded", "there are as many variables as there may be"];
    return ["client", "invalid_request", "the provider does not accept the content"];
  }
  if (status === 404)
    return ["client", "not_found", "there is no such project, group or variable, or the token may not see it"];
  return null;
}
