/**
 * A request as a line for a shell: for `curl`, and for the `vault` or `nomad` command where there is one. The
 * environment is that of the lines which `npm start` prints.
 */
import { isCluster, quoted, type WireRequest } from "../lib/wire.ts";
import { clusterRules, vaultRules } from "./command-rules.ts";

export type Tool = "curl" | "vault" | "nomad";

export interface Command {
  readonly tool: Tool;
  readonly text: string;
}

/** All commands of a request; `curl` first. */
export function commandsOf(request: WireRequest): Command[] {
  const text = isCluster(request.target) ? nomadCommand(request) : vaultCommand(request);
  const tool: Tool = isCluster(request.target) ? "nomad" : "vault";
  return [{ tool: "curl", text: curlCommand(request) }, ...(text ? [{ tool, text }] : [])];
}

function curlCommand({ verb, target, body, namespace, wrapTtl }: WireRequest): string {
  const method = verb === "GET" || verb === "LIST" ? [] : ["-X", verb];
  const type = verb === "PATCH" ? ["-H", quoted("Content-Type: application/merge-patch+json")] : [];
  return [
    "curl",
    "-s",
    ...method,
    "-H",
    `"X-Orch-Token: $SALLYPORT_TOKEN"`,
    ...(namespace ? ["-H", quoted(`X-Orch-Namespace: ${namespace}`)] : []),
    ...(wrapTtl ? ["-H", quoted(`X-Orch-Wrap-TTL: ${wrapTtl}`)] : []),
    ...type,
    ...(body === undefined ? [] : ["-d", quoted(JSON.stringify(body))]),
    `"$SALLYPORT_ADDR${inDoubleQuotes(target)}"`,
  ].join(" ");
}

/** Characters of a URL with a meaning between double quotes, `!` in interactive shells. */
const inDoubleQuotes = (target: string): string =>
  target.replace(/["$`\\!]/g, (special) => `%${special.charCodeAt(0).toString(16).toUpperCase()}`);

function vaultCommand(request: WireRequest): string | null {
  const url = new URL(request.target, "http://x");
  const path = url.pathname.slice("/v1/".length);
  const namespace = request.namespace ? [`-namespace=${quoted(request.namespace)}`] : [];
  const parts = vaultRules(request, path, url.searchParams);
  if (!parts) return null;
  const [verbs, rest] = parts;
  const wrapping = request.wrapTtl ? [`-wrap-ttl=${request.wrapTtl}`] : [];
  return ["vault", ...verbs, ...namespace, ...wrapping, ...rest].join(" ");
}

function nomadCommand(request: WireRequest): string {
  const url = new URL(request.target, "http://x");
  const parts = clusterRules(
    request,
    url.pathname.slice("/v1/".length).split("/").map(decodeURIComponent),
    url.searchParams,
  );
  const namespace = url.searchParams.get("namespace");
  if (!parts) {
    const method = request.verb === "GET" ? [] : ["-X", request.verb];
    const input = request.body === undefined ? [] : ["<<<", quoted(JSON.stringify(request.body))];
    return ["nomad", "operator", "api", ...method, quoted(request.target), ...input].join(" ");
  }
  const [verbs, rest] = parts;
  return ["nomad", ...verbs, ...(namespace ? [`-namespace=${quoted(namespace)}`] : []), ...rest].join(" ");
}
