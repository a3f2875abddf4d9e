import * as z from "zod";
import type { Failure } from "../../../contracts/failure.ts";
import { memo } from "../../../lib/memo.ts";
import { clouds, sendAuthorized } from "../../../providers/cloud-b-azure/login.ts";
import { failure, type Send } from "../../../providers/outcome.ts";
import { type Meaning, type RestRefused, restClient, unreadable } from "../../../providers/rest.ts";
import type { CallContext } from "../destination-type.ts";
import type { PipelineConnection } from "./connection.ts";

/** A variable of a group. Reads show the value of a secret one as null, and a write of null keeps it. */
export interface GroupVariable {
  readonly value?: string | null | undefined;
  readonly isSecret?: boolean | null | undefined;
  readonly isReadOnly?: boolean | null | undefined;
}

export interface VariableGroup {
  readonly name: string;
  readonly variables: Readonly<Record<string, GroupVariable>>;
  /** Changes with each write. */
  readonly modifiedOn: string;
  /** Its other fields, which a write sends back. */
  readonly rest: Readonly<Record<string, unknown>>;
}

type Read = { readonly ok: true; readonly group: VariableGroup } | RestRefused;

/** The variable group of a connection (Azure DevOps REST API 7.1, "Variablegroups"). Each call is sent once. */
export interface GroupClient {
  read(): Promise<Read>;
  /** Replaces all variables. */
  replace(doing: string, group: VariableGroup, variables: VariableGroup["variables"]): Promise<Read>;
}

const defaultUrl = "https://dev.azure.com";
/** Azure DevOps as an audience of Entra tokens ("Service principals & managed identities", Azure DevOps). */
const AUDIENCE = "499b84ac-1321-427f-aa17-267ca6975798";
const VERSION = "api-version=7.1";
/** The type of a group that holds its own variables. */
const OWN = "Vsts";

const schemas = memo(() => ({
  group: z.object({
    name: z.string(),
    type: z.string(),
    description: z.string().nullish(),
    modifiedOn: z.string(),
    providerData: z.unknown().optional(),
    variables: z.record(
      z.string(),
      z.object({ value: z.string().nullish(), isSecret: z.boolean().nullish(), isReadOnly: z.boolean().nullish() }),
    ),
    variableGroupProjectReferences: z
      .array(
        z.object({
          name: z.string().nullish(),
          description: z.string().nullish(),
          projectReference: z.object({ id: z.string().nullish(), name: z.string().nullish() }),
        }),
      )
      .nullish(),
  }),
}));

export function groupClient(connection: PipelineConnection, context: CallContext): GroupClient {
  const { organization, project, variable_group_id: id } = connection;
  const base = `${(context.settings.PIPELINE_VARIABLES_URL || defaultUrl).replace(/\/+$/, "")}/${organization}`;
  // Without the header, some refusals of credentials are redirects to a page.
  const headers = { "x-tfs-fedauthredirect": "Suppress" };
  const call = restClient({ base, headers, send: authorized(connection, context), meaningOf, takesAnyText: true });

  function groupOf(doing: string, method: "GET" | "PUT", body: unknown): Read {
    if (body === null && method === "GET") return refused("not_found", `${doing} was refused: there is no such group.`);
    const parsed = schemas().group.safeParse(body);
    if (!parsed.success) return unreadable(doing, method);
    const { name, variables, modifiedOn, ...rest } = parsed.data;
    if (rest.type !== OWN) {
      return refused("not_writable", `The variable group ${id} is linked to a key vault; its variables are there.`);
    }
    return { ok: true, group: { name, variables, modifiedOn, rest } };
  }

  return {
    async read() {
      const doing = "Reading the variable group";
      const path = `/${encodeURIComponent(project)}/_apis/distributedtask/variablegroups/${id}?${VERSION}`;
      const answer = await call(doing, "GET", path);
      return answer.ok ? groupOf(doing, "GET", answer.body) : answer;
    },
    async replace(doing, { name, rest }, variables) {
      const { variableGroupProjectReferences: known, ...others } = rest;
      // A group is written through the projects that may use it.
      const own = [{ name, projectReference: { name: project } }];
      const references = Array.isArray(known) && known.length > 0 ? known : own;
      const body = { ...others, name, variables, variableGroupProjectReferences: references };
      const answer = await call(doing, "PUT", `/_apis/distributedtask/variablegroups/${id}?${VERSION}`, body);
      return answer.ok ? groupOf(doing, "PUT", answer.body) : answer;
    },
  };
}

function authorized(connection: PipelineConnection, { settings, send, identity }: CallContext): Send {
  const { access_token: token } = connection;
  if (token !== undefined) {
    const authorization = `Basic ${Buffer.from(`:${token}`).toString("base64")}`;
    return ([url, init]) => signedIn(send([url, { ...init, headers: { ...headersOf(init), authorization } }]));
  }
  const { tenant_id: tenantId = "", client_id: clientId = "", client_secret: clientSecret = "" } = connection;
  const account = {
    tenantId,
    clientId,
    resource: AUDIENCE,
    ...(identity === undefined ? { clientSecret } : { assertion: identity }),
    loginUrl: settings.CLOUD_B_LOGIN_URL?.replace(/\/+$/, "") || clouds[0].loginUrl,
  };
  return ([url, init]) => signedIn(sendAuthorized(account, [url, { ...init, headers: headersOf(init) }], send));
}

/** An invalid personal access token is answered with status 203 and a page to sign in. */
async function signedIn(sent: ReturnType<Send>): ReturnType<Send> {
  const call = await sent;
  if (!call.ok || call.response.status !== 203) return call;
  return { ok: true, response: new Response(null, { status: 401 }), text: "" };
}

const headersOf = ({ headers }: RequestInit): Record<string, string> => Object.fromEntries(new Headers(headers));

function refused(code: string, message: string): RestRefused {
  const outcome: Failure = failure("client", code, message);
  return { ok: false, status: null, body: null, outcome };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404
    ? ["client", "not_found", "there is no such organization, project or group, or the credentials may not see it"]
    : null;
