import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { flag } from "../../../platform/http/fields.ts";
import { failure } from "../../../providers/outcome.ts";
import {
  type Answer,
  hasNextPage,
  type Refused,
  type RepoHost,
  type RepoHostConnection,
  refuseEnterpriseUrl,
  repoHostClient,
} from "../../../providers/repo-host-github/client.ts";
import { fromDescription } from "../description.ts";
import type { CallContext, Listing, ReadObject, RemoteDestinationType } from "../destination-type.ts";
import { CURSOR_REFUSED, pageNumber } from "../listing-cursor.ts";
import { idsOf, notVisible, repoHost, repositoryLabel, repositoryPath } from "../repo-host/adapter.ts";
import { checkRepoHost, connectionOf, repoHostFields, resolveRepoHost } from "../repo-host/connection.ts";
import {
  checkVariable,
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

const PageAnswer = memo(() => z.object({ variables: z.array(z.object({ name: z.string() })) }));
const VariableAnswer = memo(() => z.object({ name: z.string(), value: z.string() }));

/**
 * GitHub variables of Actions. One external object is one variable. They are plain text, so the connection must say that
 * this is meant. A variable has no marker: it is ours when a push is recorded, or when a push of unknown outcome had its
 * value.
 */
export const repoHostVariables: RemoteDestinationType<VariablesConnection> = {
  kind: "remote",
  ...fromDescription(description),
  get connection() {
    return connection();
  },
  // Names of accounts, repositories and environments are case-insensitive.
  targets: (given) => [`${given.enterprise_url ?? ""}${pathOf(given)}`.toLowerCase()],
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
  reading: { list, read },

  async put(object, given, context) {
    const refused = checkVariable(object, {
      name: /^(?!GITHUB_)[A-Z_][A-Z0-9_]{0,254}$/,
      rule: "1 to 255 capital letters, digits or _, not beginning with a digit or GITHUB_",
      maxBytes: repoHost.maxValueBytes,
      notEmpty: true,
    });
    if (refused !== null) return refused;
    const place = placeOf(given, context);
    return place.ok ? putVariable(place.place, object) : place.outcome;
  },
  async remove(object, given, context) {
    const place = placeOf(given, context);
    return place.ok ? removeVariable(place.place, object) : place.outcome;
  },
  async inspect(object, given, context) {
    const place = placeOf(given, context);
    return place.ok ? inspectVariable(place.place, object) : place.outcome;
  },

  /** Lists one variable. A missing right to write shows at the first push. */
  async probe(given, context) {
    const client = repoHostClient(given, context, "variables");
    if (!client.ok) return client.outcome;
    const wrongApp = await client.host.checkApp();
    if (wrongApp !== null) return wrongApp.outcome;
    const listed = await client.host.call("GET", `${pathOf(given)}?per_page=1`);
    if (listed.ok) return { outcome: "ok" };
    return listed.status === 404 ? whyMissing(client.host, given) : listed.outcome;
  },
};

/** The most variables of a page. */
const PAGE = 30;

async function list(cursor: string, given: VariablesConnection, context: CallContext): Promise<Listing> {
  const client = repoHostClient(given, context, "variables");
  if (!client.ok) return client.outcome;
  const page = pageNumber(cursor);
  if (page === null) return CURSOR_REFUSED;
  const answer = await client.host.call("GET", `${pathOf(given)}?per_page=${PAGE}&page=${page}`);
  if (!answer.ok) return answer.status === 404 ? whyMissing(client.host, given) : answer.outcome;
  const parsed = PageAnswer().safeParse(answer.body);
  if (!parsed.success) return failure("external", "unreadable_answer", "The list of variables cannot be read.");
  const names = parsed.data.variables.map(({ name }) => name);
  return { outcome: "ok", names, next: hasNextPage(answer.headers) ? String(page + 1) : null };
}

async function read(name: string, given: VariablesConnection, context: CallContext): Promise<ReadObject> {
  const place = placeOf(given, context);
  return place.ok ? readVariable(place.place, name) : place.outcome;
}

function pathOf(given: RepoHostConnection): string {
  const { organization_name: organization, environment_name: environment } = given;
  if (given.secrets_location === "organization") return `/orgs/${organization}/actions/variables`;
  const repository = repositoryPath(given);
  return environment === undefined
    ? `${repository}/actions/variables`
    : `${repository}/environments/${encodeURIComponent(environment)}/variables`;
}

function placeOf(given: VariablesConnection, context: CallContext): { ok: true; place: VariablePlace } | Refused {
  const client = repoHostClient(given, context, "variables");
  if (!client.ok) return client;
  const { host } = client;
  const path = pathOf(given);

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
    const outcome = answer.status === 404 ? await whyMissing(host, given) : answer.outcome;
    return { ok: false, why: null, outcome };
  }

  const place: VariablePlace = {
    async find(name) {
      const answer = await host.call("GET", `${path}/${name}`);
      if (!answer.ok) {
        if (answer.status !== 404) return refusedBy(answer);
        const listed = await host.call("GET", `${path}?per_page=1`);
        if (listed.ok) return { ok: true, seen: null };
        return refusedBy(listed.status === 404 ? { ...listed, outcome: await whyMissing(host, given) } : listed);
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

/** Explains "not found" of the place, which the provider also returns for resources hidden from the credentials. */
async function whyMissing(host: RepoHost, given: RepoHostConnection) {
  if (given.secrets_location === "organization") return notVisible(`the organization ${given.organization_name}`);
  const repository = await host.call("GET", repositoryPath(given));
  const label = repositoryLabel(given);
  if (!repository.ok) return repository.status === 404 ? notVisible(label) : repository.outcome;
  return given.environment_name === undefined
    ? failure("client", "permission_denied", `The credentials may see ${label}, but not its variables.`)
    : failure("client", "environment_not_found", `There is no environment ${given.environment_name} of ${label}.`);
}
