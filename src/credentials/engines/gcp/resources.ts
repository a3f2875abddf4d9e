import type { CloudCSettings } from "../../../providers/cloud-c-gcp/connection.ts";

/** Resources whose IAM policy the engine changes: their names as written, and the calls that read and write a policy. */

interface PolicyCall {
  readonly method: "GET" | "POST" | "PUT";
  /** Below the service's address. */
  readonly path: string;
  readonly body?: Readonly<Record<string, unknown>>;
}

interface ResourceKind {
  readonly host: string;
  /** The relative name of a resource. */
  readonly pattern: RegExp;
  /** Whether a relative name alone belongs to this service. */
  readonly read: (name: string) => PolicyCall;
  readonly write: (name: string, policy: Readonly<Record<string, unknown>>) => PolicyCall;
}

const VERSION = "options.requestedPolicyVersion=3";
const PART = "[^/?#:]+";

/** Services whose resources have `:getIamPolicy` and `:setIamPolicy`. @param verb of the read */
const standard = (host: string, version: string, pattern: string, verb: "GET" | "POST" = "GET"): ResourceKind => ({
  host,
  pattern: new RegExp(`^${pattern}$`),
  read: (name) => ({ method: verb, path: `/${version}/${name}:getIamPolicy?${VERSION}` }),
  write: (name, policy) => ({ method: "POST", path: `/${version}/${name}:setIamPolicy`, body: { policy } }),
});

/** The resource's name without its first word. */
const bucketOf = (name: string): string => encodeURIComponent(name.slice(name.indexOf("/") + 1));

const kinds: readonly ResourceKind[] = [
  {
    ...standard("cloudresourcemanager.googleapis.com", "v3", `(?:projects|folders|organizations)/${PART}(?::${PART})?`),
    read: (name) => ({
      method: "POST",
      path: `/v3/${name}:getIamPolicy`,
      body: { options: { requestedPolicyVersion: 3 } },
    }),
  },
  standard("pubsub.googleapis.com", "v1", `projects/${PART}(?::${PART})?/(?:topics|subscriptions)/${PART}`),
  standard("secretmanager.googleapis.com", "v1", `projects/${PART}(?::${PART})?/secrets/${PART}`),
  standard("iam.googleapis.com", "v1", `projects/${PART}(?::${PART})?/serviceAccounts/${PART}`, "POST"),
  {
    host: "storage.googleapis.com",
    pattern: /^(?:b|buckets)\/[^/?#:]+$/,
    read: (name) => ({ method: "GET", path: `/storage/v1/b/${bucketOf(name)}/iam?optionsRequestedPolicyVersion=3` }),
    write: (name, policy) => ({ method: "PUT", path: `/storage/v1/b/${bucketOf(name)}/iam`, body: policy }),
  },
];

/** Names of the kinds, for the refusal of any other. */
const SUPPORTED = "projects, folders, organizations, buckets, topics, subscriptions, secrets and service accounts";

/**
 * The full name of a resource (`//pubsub.googleapis.com/projects/p/topics/t`): written so, as a self link or by its
 * relative name. A refusal otherwise.
 */
export function resourceNamed(text: string): { readonly resource: string } | { readonly problem: string } {
  const { host, name } = partsOf(text.trim());
  const found = kinds.find((kind) => (host === null || kind.host === host) && kind.pattern.test(name));
  if (found) return { resource: `//${found.host}/${name}` };
  return {
    problem: `unable to parse bindings: the resource ${JSON.stringify(text.slice(0, 200))} is none of ${SUPPORTED}`,
  };
}

/** Host and relative name of a resource; no host for a relative name alone. */
function partsOf(text: string): { readonly host: string | null; readonly name: string } {
  const full = /^\/\/([a-z0-9.-]+)\/(.+)$/.exec(text);
  if (full) return { host: full[1] ?? "", name: full[2] ?? "" };
  const url = /^https?:\/\/([a-z0-9.-]+)\/(.+)$/.exec(text);
  if (!url) return { host: null, name: text };
  const [, host = "", path = ""] = url;
  // A self link has the service in its host or in its path, and its version.
  const [, service, name = path] = /^(?:(?!v\d)([a-z]+)\/)?v\d\w*\/(.+)$/.exec(path) ?? [];
  return { host: service === undefined ? host : `${service}.googleapis.com`, name };
}

interface PolicyRequest extends Omit<PolicyCall, "path"> {
  readonly url: string;
}

function requestFor(
  resource: string,
  settings: CloudCSettings,
  callOf: (kind: ResourceKind, name: string) => PolicyCall,
): PolicyRequest {
  const { host, name } = partsOf(resource);
  const kind = kinds.find((each) => each.host === host && each.pattern.test(name));
  if (!kind) throw new Error(`no resource ${resource}`);
  const { path, ...call } = callOf(kind, name);
  return { ...call, url: addressOf(kind.host, settings) + path };
}

/** The request for the policy of a resource. */
export const policyRead = (resource: string, settings: CloudCSettings): PolicyRequest =>
  requestFor(resource, settings, (kind, name) => kind.read(name));

/** The request that writes the policy of a resource. */
export const policyWrite = (
  resource: string,
  policy: Readonly<Record<string, unknown>>,
  settings: CloudCSettings,
): PolicyRequest => requestFor(resource, settings, (kind, name) => kind.write(name, policy));

/** The address of a service. `CLOUD_C_API_URL` replaces all of them: the service's host is then the path's first part. */
export function addressOf(host: string, { CLOUD_C_API_URL, CLOUD_C_IAM_URL }: CloudCSettings): string {
  if (CLOUD_C_API_URL) return `${CLOUD_C_API_URL.replace(/\/+$/, "")}/${host}`;
  const own = host === "iamcredentials.googleapis.com" ? CLOUD_C_IAM_URL : "";
  return (own || `https://${host}`).replace(/\/+$/, "");
}
