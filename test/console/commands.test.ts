import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { commandsOf } from "../../console/src/api/commands.ts";
import type { WireRequest } from "../../console/src/lib/wire.ts";
import { CANARY } from "./support/console.ts";

/** The words of a command, as a shell takes it apart. */
function words(command: string): string[] {
  const [line = "", input] = command.split(" <<< ");
  const script = `set -- ${line}; printf '%s\\0' "$@"${input === undefined ? "" : `; printf '%s\\0' ${input}`}`;
  const env = { SALLYPORT_TOKEN: "T", SALLYPORT_ADDR: "http://x" };
  return execFileSync("bash", ["-c", script], { env, encoding: "utf8" }).split("\0").slice(0, -1);
}

const wire = (verb: WireRequest["verb"], target: string, body?: unknown, namespace = ""): WireRequest => ({
  verb,
  target,
  namespace,
  ...(body === undefined ? {} : { body }),
});

const tool = (request: WireRequest, name: string): string =>
  commandsOf(request).find((command) => command.tool === name)?.text ?? "";

describe("requests as commands", () => {
  it("name the vault command of each request of the secrets API", () => {
    const rows: [WireRequest, string][] = [
      [wire("GET", "/v1/secret/data/app/database"), "vault kv get -mount=secret app/database"],
      [
        wire("GET", "/v1/secret/data/app?version=2", undefined, "team/a"),
        "vault kv get -namespace=team/a -version=2 -mount=secret app",
      ],
      [
        wire("POST", "/v1/team%2Fkv/data/a%20b", { data: { k: "v w" }, options: { cas: 0 } }),
        "vault kv put -cas=0 -mount=team/kv 'a b' 'k=v w'",
      ],
      [wire("PATCH", "/v1/secret/data/app", { data: { k: "@file" } }), "vault kv patch -mount=secret app 'k=\\@file'"],
      [
        wire("POST", "/v1/secret/undelete/app", { versions: [1, 2] }),
        "vault kv undelete -versions=1,2 -mount=secret app",
      ],
      [wire("LIST", "/v1/secret/metadata/app?list=true"), "vault kv list -mount=secret app"],
      [wire("DELETE", "/v1/secret/metadata/app"), "vault kv metadata delete -mount=secret app"],
      [wire("GET", "/v1/auth/token/lookup-self"), "vault token lookup"],
      [wire("LIST", "/v1/sys/sync/destinations?list=true"), "vault list sys/sync/destinations"],
      [
        wire("DELETE", "/v1/sys/sync/destinations/in-mem/d?purge=true"),
        "vault delete sys/sync/destinations/in-mem/d purge=true",
      ],
      [wire("POST", "/v1/sys/leases/revoke", { lease_id: "a/b" }), "vault lease revoke a/b"],
    ];
    for (const [request, command] of rows) expect(tool(request, "vault")).toBe(command);
  });

  it("name the nomad command of each request of the cluster API, or the request itself", () => {
    const rows: [WireRequest, string][] = [
      [wire("GET", "/v1/nodes"), "nomad node status"],
      [wire("GET", "/v1/volumes?type=host&namespace=batch"), "nomad volume status -namespace=batch -type=host"],
      [wire("PUT", "/v1/node/n1/eligibility", { Eligibility: "ineligible" }), "nomad node eligibility -disable n1"],
      [
        wire("PUT", "/v1/volume/host/create", { Volume: { Name: "v" } }),
        `nomad operator api -X PUT /v1/volume/host/create <<< '{"Volume":{"Name":"v"}}'`,
      ],
    ];
    for (const [request, command] of rows) expect(tool(request, "nomad")).toBe(command);
  });

  it("quote every character so that a shell passes it unchanged", () => {
    const name = `a'b"c$(id)\`id\`!d\\e ${CANARY.replaceAll("/", "|")}`;
    const request = wire("POST", `/v1/secret/data/${encodeURIComponent(name)}`, { data: { [CANARY]: name } }, name);
    const curl = words(tool(request, "curl"));
    expect(curl).toContain("X-Orch-Token: T");
    expect(curl).toContain(`X-Orch-Namespace: ${name}`);
    expect(JSON.parse(curl[curl.indexOf("-d") + 1] ?? "")).toEqual(request.body);
    expect(decodeURIComponent(curl.at(-1) ?? "")).toBe(`http://x/v1/secret/data/${name}`);
    expect(words(tool(request, "vault"))).toEqual([
      "vault",
      "kv",
      "put",
      `-namespace=${name}`,
      "-mount=secret",
      name,
      `${CANARY}=${name}`,
    ]);
  });
});
