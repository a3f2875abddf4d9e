import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { flag } from "../../../platform/http/fields.ts";
import { failure } from "../../../providers/outcome.ts";
import {
  type Answer,
  type Refused,
  type RepoHostConnection,
  refuseEnterpriseUrl,
  repoHostClient,
} from "../../../providers/repo-host-github/client.ts";
import { type CallContext, doneBy, remoteType } from "../destination-type.ts";
import { checkObject } from "../object-rules.ts";
import { idsOf, list, NAME_RULE, placeOf, repoHost, whyMissing } from "../repo-host/adapter.ts";
import { checkRepoHost, connectionOf, repoHostFields, resolveRepoHost } from "../repo-host/connection.ts";
import {
  inspectVariable,
  putVariable,
  readVariable,
  removeVariable,
  type VariablePlace,
  type Written,
} from "../variables.ts";
import { description } from "./description.ts";

interface VariablesConnection extends RepoHostConnection {
  allow_plaintext?: boolean;
}

const connection = memo(() =>
  repoHostFields()
    .omit({ application: true })
    .extend({ allow_plaintext: flag().refine((given) => given, "must be true: variables are plain text") })
    .superRefine((given, context) => checkRepoHost(given, context))
    .transform(({ allow_plaintext, ...given }): VariablesConnection => ({ ...connectionOf(given), allow_plaintext })),
);

const VariableAnswer = memo(() => z.object({ name: z.string(), value: z.string() }));

/**
 * GitHub variables of Actions. One external object is one variable. They are plain text, so the connection must say that
 * this is meant. A variable has no marker: it is ours when a push is recorded, or when a push of unknown outcome had its
 * value.
 */
export const repoHostVariables = remoteType(description, connection, {
  // Names of accounts, repositories and environments are case-insensitive.
  targets: (given) => [`${given.enterprise_url ?? ""}${placeOf(given, "variables").path}`.toLowerCase()],
  resolve: resolveRepoHost,
  defaults: repoHost.defaults,
  naming: {
    ...repoHost.naming,
    refuse: (name) => (/^GITHUB_/i.test(name) ? "The name of a variable must not begin with GITHUB_." : null),
  },
  maxValueBytes: repoHost.maxValueBytes,
  pace: repoHost.pace,
  checkSettings: ({ enterprise_url: url }, settings) => refuseEnterpriseUrl(url, settings),
  appOf: ({ app_name: name }) => name ?? null,
  reading: {
    list: (cursor, given, context) => list(cursor, PAGE, given, clientOf(given, context), "variables"),
    async read(name, given, context) {
      const place = variablesOf(given, context);
      return place.ok ? readVariable(place.place, name) : place.outcome;
    },
  },

  async put(object, given, context) {
    const refused = checkObject(object, { ...NAME_RULE, notEmpty: true });
    if (refused !== null) return refused;
    const place = variablesOf(given, context);
    return place.ok ? putVariable(place.place, object) : place.outcome;
  },
  async remove(object, given, context) {
    const place = variablesOf(given, context);
    return place.ok ? removeVariable(place.place, object) : place.outcome;
  },
  async inspect(object, given, context) {
    const place = variablesOf(given, context);
    return place.ok ? inspectVariable(place.place, object) : place.outcome;
  },

  /** Lists one variable. A missing right to write shows at the first push. */
  async probe(given, context) {
    const client = clientOf(given, context);
    if (!client.ok) return client.outcome;
    const wrongApp = await client.host.checkApp();
    if (wrongApp !== null) return wrongApp.outcome;
    const place = placeOf(given, "variables");
    const listed = await client.host.call("GET", `${place.path}?per_page=1`);
    if (!listed.ok && listed.status === 404) return whyMissing(client.host, place, given);
    return doneBy(listed);
  },
});

/** The most variables of a page. */
const PAGE = 30;

const clientOf = (given: VariablesConnection, context: CallContext) => repoHostClient(given, context, "variables");

function variablesOf(given: VariablesConnection, context: CallContext): { ok: true; place: VariablePlace } | Refused {
  const client = clientOf(given, context);
  if (!client.ok) return client;
  const { host } = client;
  const owner = placeOf(given, "variables");
  const { path } = owner;

  /** For organizations: the repositories with access, always in full, because a write without the list clears it. */
  async function accessOf() {
    const { secrets_location: location, organization_visibility: visibility, organization_name: name = "" } = given;
    if (location !== "organization") return { ok: true as const, access: {} };
    if (visibility !== "selected") return { ok: true as const, access: { visibility } };
    const ids = await idsOf(host, name, given.selected_repository_names ?? [], false);
    return ids.ok ? { ok: true as const, access: { visibility, selected_repository_ids: ids.ids } } : ids;
  }

  async function write(method: "POST" | "PATCH", name: string, value: string): Promise<Written> {
    const found = await accessOf();
    if (!found.ok) return { ok: false, why: null, outcome: found.outcome };
    const body = { ...(method === "POST" && { name }), value, ...found.access };
    const answer = await host.call(method, method === "POST" ? path : `${path}/${name}`, body);
    if (answer.ok) return written(answer, method, name);
    if (method === "POST" && answer.status === 409) return { ok: false, why: "exists", outcome: answer.outcome };
    if (method === "PATCH" && answer.status === 404) return { ok: false, why: "absent", outcome: answer.outcome };
    const outcome = answer.status === 404 ? await whyMissing(host, owner, given) : answer.outcome;
    return { ok: false, why: null, outcome };
  }

  const place: VariablePlace = {
    async find(name) {
      const answer = await host.call("GET", `${path}/${name}`);
      if (!answer.ok) {
        if (answer.status !== 404) return refusedBy(answer);
        const listed = await host.call("GET", `${path}?per_page=1`);
        if (listed.ok) return { ok: true, seen: null };
        return refusedBy(listed.status === 404 ? { ...listed, outcome: await whyMissing(host, owner, given) } : listed);
      }
      const variable = VariableAnswer().safeParse(answer.body);
      if (variable.success) return { ok: true, seen: { value: variable.data.value, owned: null } };
      const outcome = failure("external", "unreadable_answer", `The answer about ${name} cannot be read.`);
      return { ok: false, status: null, body: null, outcome };
    },
    create: ({ name, value }) => write("POST", name, value),
    change: ({ name, value }) => write("PATCH", name, value),
    async remove(name) {
      const answer = await host.call("DELETE", `${path}/${name}`);
      return answer.ok ? answer : refusedBy(answer);
    },
  };
  return { ok: true, place };
}

const refusedBy = ({ status, outcome }: Refused) => ({ ok: false as const, status, body: null, outcome });

function written({ status }: Extract<Answer, { ok: true }>, method: string, name: string): Written {
  if (status === (method === "POST" ? 201 : 204)) return { ok: true, reference: name };
  const outcome = failure(
    "unknown",
    "unreadable_answer",
    `The write of ${name} was answered, but not as the provider does.`,
  );
  return { ok: false, why: null, outcome };
}
