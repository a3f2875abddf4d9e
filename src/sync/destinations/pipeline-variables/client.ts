import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import { applicationOf, authorizedSend, headersOf } from "../../../providers/cloud-b-azure/login.ts";
import { failure, type Send } from "../../../providers/outcome.ts";
import {
  contentOf,
  type Meaning,
  notSent,
  type RestAnswer,
  type RestRefused,
  restClient,
} from "../../../providers/rest.ts";
import type { CallContext } from "../destination-type.ts";
import type { PipelineConnection } from "./connection.ts";

const defaultUrl = "https://dev.azure.com";
/** Azure DevOps as an audience of Entra tokens ("Service principals & managed identities", Azure DevOps). */
const AUDIENCE = "499b84ac-1321-427f-aa17-267ca6975798";
const VERSION = "api-version=7.1";
/** The type of a group that holds its own variables. */
const OWN = "Vsts";

/** A variable of a group. Reads show the value of a secret one as null, and a write of null keeps it. */
const GroupVariable = memo(() =>
  z.object({ value: z.string().nullish(), isSecret: z.boolean().nullish(), isReadOnly: z.boolean().nullish() }),
);
export type GroupVariable = z.infer<ReturnType<typeof GroupVariable>>;

const Group = memo(() =>
  z
    .object({
      name: z.string(),
      type: z.string(),
      description: z.string().nullish(),
      /** Changes with each write. */
      modifiedOn: z.string(),
      providerData: z.unknown().optional(),
      variables: z.record(z.string(), GroupVariable()),
      variableGroupProjectReferences: z
        .array(
          z.object({
            name: z.string().nullish(),
            description: z.string().nullish(),
            projectReference: z.object({ id: z.string().nullish(), name: z.string().nullish() }),
          }),
        )
        .nullish(),
    })
    // A write sends the other fields back.
    .transform(({ name, variables, modifiedOn, ...rest }) => ({ name, variables, modifiedOn, rest })),
);
export type VariableGroup = z.infer<ReturnType<typeof Group>>;

type Read = { readonly ok: true; readonly group: VariableGroup } | RestRefused;

/** The variable group of a connection (Azure DevOps REST API 7.1, "Variablegroups"). Each call is sent once. */
export function groupClient(connection: PipelineConnection, context: CallContext) {
  const { organization, project, variable_group_id: id } = connection;
  const base = `${(context.settings.PIPELINE_VARIABLES_URL || defaultUrl).replace(/\/+$/, "")}/${organization}`;
  // Without the header, some refusals of credentials are redirects to a page.
  const headers = { "x-tfs-fedauthredirect": "Suppress" };
  const call = restClient({ base, headers, send: authorized(connection, context), meaningOf, takesAnyText: true });

  function groupOf(answer: RestAnswer): Read {
    const read = contentOf(answer, Group());
    if (!read.ok) return read;
    if (read.content.rest.type === OWN) return { ok: true, group: read.content };
    const message = `The variable group ${id} is linked to a key vault; its variables are there.`;
    return notSent(failure("client", "not_writable", message));
  }

  return {
    async read(): Promise<Read> {
      const doing = "Reading the variable group";
      const path = `/${encodeURIComponent(project)}/_apis/distributedtask/variablegroups/${id}?${VERSION}`;
      const answer = await call(doing, "GET", path);
      if (!answer.ok || answer.body !== null) return groupOf(answer);
      return notSent(failure("client", "not_found", `${doing} was refused: there is no such group.`));
    },
    /** Replaces all variables. */
    async replace(
      doing: string,
      { name, rest }: VariableGroup,
      variables: Readonly<Record<string, GroupVariable>>,
    ): Promise<Read> {
      const { variableGroupProjectReferences: known, ...others } = rest;
      // A group is written through the projects that may use it.
      const own = [{ name, projectReference: { name: project } }];
      const references = known && known.length > 0 ? known : own;
      const body = { ...others, name, variables, variableGroupProjectReferences: references };
      return groupOf(await call(doing, "PUT", `/_apis/distributedtask/variablegroups/${id}?${VERSION}`, body));
    },
  };
}

function authorized(connection: PipelineConnection, context: CallContext): Send {
  const { access_token: token } = connection;
  const { settings, send } = context;
  if (token !== undefined) {
    const authorization = `Basic ${Buffer.from(`:${token}`).toString("base64")}`;
    return ([url, init]) => signedIn(send([url, { ...init, headers: { ...headersOf(init), authorization } }]));
  }
  const account = applicationOf(connection, context, AUDIENCE, settings.CLOUD_B_LOGIN_URL);
  const application = authorizedSend(account, send);
  return (request) => signedIn(application(request));
}

/** An invalid personal access token is answered with status 203 and a page to sign in. */
async function signedIn(sent: ReturnType<Send>): ReturnType<Send> {
  const call = await sent;
  if (!call.ok || call.response.status !== 203) return call;
  return { ok: true, response: new Response(null, { status: 401 }), text: "" };
}

const meaningOf = (status: number): Meaning | null =>
  status === 404
    ? ["client", "not_found", "there is no such organization, project or group, or the credentials may not see it"]
    : null;
