import type { AzureDouble } from "./azure.ts";
import type { AzureOptions, Change, Everything } from "./azure-types.ts";

export const graphResource = "https://graph.microsoft.com";
export const armResource = "https://management.azure.com";

export interface Reply {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at field by field
  body: any;
  headers: Headers;
}

interface Sending {
  /** Null sends no token. */
  token?: string | null;
  headers?: Record<string, string>;
  /** Raw text instead of a JSON body. */
  text?: string;
  signal?: AbortSignal;
}

/** Plain requests to a new account, as the root by default. */
export function openAccount(double: AzureDouble, options: AzureOptions = {}) {
  const { account, details } = double.openAccount(options);
  const { client_id, client_secret, tenant_id } = details;

  /** A token request of the root with changed parameters; null omits one. */
  function requestToken(changed: Record<string, string | null> = {}, tenant = tenant_id): Promise<Reply> {
    const form = { grant_type: "client_credentials", client_id, client_secret, scope: `${graphResource}/.default` };
    const fields = Object.entries({ ...form, ...changed }).filter(
      (field): field is [string, string] => field[1] !== null,
    );
    const body = new URLSearchParams(fields);
    return read(fetch(`${details.login_url}/${tenant}/oauth2/v2.0/token`, { method: "POST", body }));
  }

  async function tokenFor(resource: string, clientId = client_id, secret = client_secret): Promise<string> {
    const scope = `${resource}/.default`;
    return (await requestToken({ client_id: clientId, client_secret: secret, scope })).body.access_token;
  }

  const sendTo =
    (url: string, resource: string) =>
    async (request: string, body?: unknown, { token, headers, text, signal }: Sending = {}): Promise<Reply> => {
      const [method = "", ...target] = request.split(" ");
      const bearer = token === undefined ? await tokenFor(resource) : token;
      const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
      return read(
        fetch(url + target.join(" "), {
          method,
          headers: {
            ...(bearer !== null && { authorization: `Bearer ${bearer}` }),
            ...(sent !== undefined && { "content-type": "application/json" }),
            ...headers,
          },
          ...(sent !== undefined && { body: sent }),
          ...(signal && { signal }),
        }),
      );
    };

  /** `GET /applications`, below /v1.0. */
  const graph = sendTo(`${details.graph_url}/v1.0`, graphResource);

  async function createApplication(): Promise<{ id: string; appId: string }> {
    return (await graph("POST /applications", { displayName: "new" })).body;
  }

  async function createPrincipal() {
    const application = await createApplication();
    const principal = (await graph("POST /servicePrincipals", { appId: application.appId })).body;
    return { application, principal: principal as { id: string; appId: string } };
  }

  return {
    account,
    details,
    requestToken,
    tokenFor,
    graph,
    createApplication,
    createPrincipal,
    arm: sendTo(details.arm_url, armResource),
    call: (change: Change) => account.call(change),
    everything: (): Everything => account.everything(),
    group: (name: string) => details.groups.find(({ displayName }) => displayName === name)?.id ?? "",
    role: (name: string) => details.role_definitions.find(({ roleName }) => roleName === name)?.id ?? "",
  };
}

export type Driver = ReturnType<typeof openAccount>;

export async function read(sent: Promise<Response>): Promise<Reply> {
  const response = await sent;
  const text = await response.text();
  const json = response.headers.get("content-type")?.startsWith("application/json");
  return { status: response.status, body: json ? JSON.parse(text) : text, headers: response.headers };
}

/** A reference to a new group member in a request. */
export const memberOf = (id: string, host = graphResource) => ({ "@odata.id": `${host}/v1.0/directoryObjects/${id}` });

/** Status and code of a refusal, for comparison. */
export const refusal = ({ status, body }: Reply): [number, string | number | undefined] => [
  status,
  body?.error_codes?.[0] ?? body?.error?.code,
];
