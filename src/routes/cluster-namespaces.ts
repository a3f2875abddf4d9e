import * as z from "zod";
import type { ClusterNamespace } from "../contracts/namespaces.ts";
import * as kind from "../lib/bexpr/kinds.ts";
import { withoutUndefined } from "../lib/json.ts";
import { badRequest, unwrap } from "../platform/http/errors.ts";
import { caseless, echoed } from "../platform/http/fields.ts";
import * as query from "../platform/http/query-fields.ts";
import { ANY_CAPABILITY, allowsNamespace } from "../rights/cluster-rights.ts";
import { accessControl, eventLog } from "../rpc/stubs.ts";
import { wholeListing } from "./server/acl-reads.ts";
import { list } from "./server/listing.ts";
import { clusterEmpty, clusterJson } from "./server/respond.ts";
import { type AuthorisedCall, cluster } from "./server/route.ts";

/** Namespaces of the cluster API: flat, `default` always exists. */

const MAX_TEXTS = 16 * 1024;

const names = () => z.array(z.string().max(128)).max(128).nullish();
const texts = () =>
  z
    .record(z.string(), z.string())
    .refine((map) => JSON.stringify(map).length <= MAX_TEXTS, `at most ${MAX_TEXTS} characters in all`)
    .nullish();
const choice = () =>
  caseless(z.object({ Default: z.string().max(128).optional(), Allowed: names(), Denied: names() })).nullish();

const NamespaceBody = caseless(
  z.object({
    Name: z.string().optional(),
    Description: z.string().default(""),
    Meta: texts(),
    Quota: z.string().max(128).optional(),
    Capabilities: caseless(
      z.object({
        EnabledTaskDrivers: names(),
        DisabledTaskDrivers: names(),
        EnabledNetworkModes: names(),
        DisabledNetworkModes: names(),
      }),
    ).nullish(),
    NodePoolConfiguration: choice(),
    VaultConfiguration: choice(),
    ConsulConfiguration: choice(),
    RequiredExtraClaims: texts(),
    OptionalExtraClaims: texts(),
    ...echoed("CreateIndex", "ModifyIndex"),
  }),
);

async function put(call: AuthorisedCall<never, "name">, body: z.output<typeof NamespaceBody>): Promise<Response> {
  const name = call.params.name ?? body.Name ?? "";
  if (body.Name !== undefined && body.Name !== name) throw badRequest("namespace name does not match request path");
  const { Name: _name, CreateIndex: _created, ModifyIndex: _modified, Description, Meta, ...jobs } = body;
  const written = await accessControl(call.env).putClusterNamespace(
    name,
    Description,
    Meta ?? null,
    withoutUndefined(jobs),
  );
  return clusterEmpty({ index: unwrap(written).ModifyIndex });
}

const namespaceList = {
  token: ({ Name }: ClusterNamespace) => Name,
  fields: kind.record<ClusterNamespace>({
    Name: kind.string,
    Description: kind.string,
    Quota: kind.string,
    Meta: kind.map(kind.string),
    CreateIndex: kind.integer,
    ModifyIndex: kind.integer,
  }),
};

/** A namespace is visible to callers with any capability in it. */
const visible = (call: AuthorisedCall, name: string): boolean =>
  allowsNamespace(call.grant.cluster, name, ANY_CAPABILITY);

export const clusterNamespaceRoutes = [
  cluster("GET /namespaces", { query: z.object({ prefix: query.text() }), rights: "any" }, async (call) => {
    const found = (await accessControl(call.env).listClusterNamespaces(call.asked.prefix)).filter(({ Name }) =>
      visible(call, Name),
    );
    return list(call, wholeListing(namespaceList, found, await eventLog(call.env).newest()));
  }),
  cluster("GET /namespace/:name", { rights: (_rights, call) => visible(call, call.params.name) }, async (call) => {
    const found = unwrap(await accessControl(call.env).readClusterNamespace(call.params.name));
    return clusterJson(call, found, { index: found.ModifyIndex });
  }),
  cluster("POST /namespace", { rights: "management", fresh: true, body: NamespaceBody }, put),
  cluster("POST /namespace/:name", { rights: "management", fresh: true, body: NamespaceBody }, put),
  cluster("DELETE /namespace/:name", { rights: "management", fresh: true }, async (call) => {
    unwrap(await accessControl(call.env).deleteClusterNamespace(call.params.name));
    return clusterEmpty({ index: await eventLog(call.env).newest() });
  }),
];
